"""`scripts/prove`: what it says of a proof is what came of it, and a hole does not look like a pass."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from typing import Any

import msgspec
import pytest

import proving
from scripts_as_modules import SCRIPTS, script

prove: Any = script("prove")
TESTS = ["tests/test_prove.py::test_one"]


def came(outcome: str = "passed", *figures: str, test: str = TESTS[0], problem: str = "") -> Any:
    return prove.Came(test, outcome, list(figures), problem)


def proof(**other: Any) -> Any:
    known: dict[str, list[Any]] = {TESTS[0]: [came("passed", "7 of 7")]}
    made = prove.proved("C3", "full", prove.Promise("all is well", "7"), TESTS, known)
    return msgspec.structs.replace(made, **other)


def test_a_figure_is_told_once_and_cases_without_one_are_counted() -> None:
    told = [came("passed", "7 of 7"), came("passed", "7 of 7"), came(), came()]
    assert prove.figure_of(told, [], []) == "7 of 7; 2 more cases passed"


def test_what_failed_stands_first() -> None:
    figure = prove.figure_of([came("passed", "7 of 7")], [came("failed", problem="3 == 4")], [])
    assert figure.startswith("1 tests failed, first tests/test_prove.py::test_one: 3 == 4; 7 of 7")


@pytest.mark.parametrize(
    ("outcomes", "passed"),
    [
        (["passed"], True),
        (["passed", "skipped"], True),
        (["passed", "failed"], False),
        (["skipped"], False),
        ([], False),
    ],
)
def test_a_proof_passes_if_something_did_and_nothing_failed(outcomes: list[str], passed: bool) -> None:
    known = {TESTS[0]: [came(outcome, problem="Skipped: no browser") for outcome in outcomes]}
    made = prove.proved("C3", "full", prove.Promise("all is well", "7"), TESTS, known)
    assert made.passed is passed
    assert made.holes == (["no browser"] if "skipped" in outcomes else [])


def test_a_proof_of_other_code_is_marked_and_not_taken_for_done() -> None:
    now, before = proof(), proof(code="before")
    assert prove.is_of_this_code(now)
    assert not prove.is_of_this_code(before)
    assert "older than the code" in prove.words_of(before)
    assert "older than the code" not in prove.words_of(now)
    assert not prove.is_of_this_code(proof(tests_code="before"))


def test_a_quick_proof_stands_beside_a_full_one_only_where_it_is_newer() -> None:
    full, quick = proof(code="before"), proof(size="quick")
    assert prove.shown("C3", {("C3", "full"): full, ("C3", "quick"): quick}) == [full, quick]
    now = proof()
    assert prove.shown("C3", {("C3", "full"): now, ("C3", "quick"): quick}) == [now]
    assert prove.shown("C3", {("C3", "quick"): quick}) == [quick]
    assert prove.shown("C3", {}) == []


def test_a_quick_proof_that_failed_is_shown_beside_a_full_one() -> None:
    full, quick = proof(), proof(size="quick", passed=False)
    assert prove.shown("C3", {("C3", "full"): full, ("C3", "quick"): quick}) == [full, quick]


def test_a_proof_is_older_than_its_tests_when_something_that_they_share_has_changed() -> None:
    shared = {path.name for path in prove.shared_by_tests()}
    assert {"reference.py", "sql_judge.py", "planting.py", "survivors.toml", "real_lab.py", "proving.py"} <= shared
    assert not any(name.startswith("test_") for name in shared)
    before = proof(tests_code="before")
    assert "*older than its tests*" in prove.words_of(before)
    assert not prove.is_of_this_code(before)


def test_a_hole_is_no_plain_pass() -> None:
    kept = {("F1", "full"): proof(id="F1", holes=["no browser"])}
    assert "passed at full size, with a hole: 1 (F1)" in prove.in_short({"F1": prove.Promise("all", "60")}, kept)


def test_what_is_done_is_not_run_again_unless_something_has_changed() -> None:
    assert prove.is_done(proof(), TESTS)
    assert not prove.is_done(proof(passed=False), TESTS)
    assert not prove.is_done(proof(code="before"), TESTS)
    assert not prove.is_done(proof(), [*TESTS, "tests/test_prove.py::test_two"])
    assert not prove.is_done(None, TESTS)


def test_the_page_says_what_failed_what_is_missing_and_what_has_a_hole() -> None:
    promises = prove.read_promises()
    kept = {
        ("C3", "full"): proof(passed=False, figure="1 tests failed"),
        ("F1", "full"): proof(id="F1", holes=["no browser"]),
    }
    page = prove.page(promises, kept)
    lines = {line.split(" | ")[0].strip("| "): line for line in page.splitlines() if line.startswith("| ")}
    assert "**FAILED**: 1 tests failed" in lines["C3"]
    assert "**Hole**: no browser" in lines["F1"]
    assert "not proved yet" in lines["A1"]
    assert "- **FAILED**: 1 (C3)" in page


def test_every_promise_is_in_a_group_and_every_marked_test_proves_one() -> None:
    promises = prove.read_promises()
    groups = tomllib.loads(prove.PROMISES.read_text())["groups"]
    assert {name[0] for name in promises} == set(groups)
    marked = set()
    for path in SCRIPTS.parent.glob("tests/**/test_*.py"):
        marked |= set(re.findall(r"mark\.proves\(([^)]*)\)", path.read_text(encoding="utf-8")))
    words = {word.strip('" ') for arguments in marked for word in arguments.split(",")} - {""}
    assert words <= set(promises)


def test_what_is_no_promise_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-P", str(SCRIPTS / "prove.py"), "--only", "Z9"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "no promise Z9" in done.stderr


def test_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(proving.ASKED, raising=False)
    assert proving.size(1, 2) == 1
    for asked, expected in (("quick", 1), ("full", 2)):
        monkeypatch.setenv(proving.ASKED, asked)
        assert proving.size(1, 2) == expected
