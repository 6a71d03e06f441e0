"""`scripts/prove`: what it says of a proof is what came of it, and a hole does not look like a pass."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

import proving
from conftest import cannot_run
from scripts_as_modules import SCRIPTS, script

Found = Callable[[str], Any]

prove: Any = script("prove")
TESTS = ["tests/test_prove.py::test_one"]
PROMISES = prove.read_promises()


def came(outcome: str = "passed", *figures: str, test: str = TESTS[0], problem: str = "") -> Any:
    return prove.Came(test, outcome, list(figures), problem)


def of_cases(*all_came: Any, cases: list[str] | None = None) -> Any:
    known = {each.test: each for each in all_came}
    return prove.proved("C3", "full", PROMISES["C3"], {TESTS[0]: cases or list(known)}, known)


def proof(**other: Any) -> Any:
    made = of_cases(came("passed", "7 of 7"))
    name, size = other.get("id", "C3"), other.get("size", "full")
    tests = other.get("tests") or prove.marked(name, size)
    of_tests = {"tests": tests, "tests_code": prove.digest_of(prove.files_of(tests))}
    other = {"bar": PROMISES[name].bar, "code": prove.digest_of_code(PROMISES[name].of), **of_tests, **other}
    return msgspec.structs.replace(made, **other)


def test_a_figure_is_told_once_and_cases_without_one_are_counted() -> None:
    told = [came("passed", "7 of 7"), came("passed", "7 of 7"), came(), came()]
    assert prove.figures_of(told, [], []) == ["7 of 7", "2 more cases passed"]
    assert prove.figures_of(told[2:], [], []) == ["one: 2 cases"]


def test_what_failed_stands_first() -> None:
    figures = prove.figures_of([came("passed", "7 of 7")], [came("failed", problem="3 == 4")], [])
    assert figures == ["1 tests failed, first tests/test_prove.py::test_one: 3 == 4", "7 of 7"]


@pytest.mark.parametrize(
    ("outcomes", "passed"),
    [
        (["passed"], True),
        (["passed", "skipped"], True),
        (["passed", "failed"], False),
        (["skipped"], False),
    ],
)
def test_a_proof_passes_if_something_did_and_nothing_failed(outcomes: list[str], passed: bool) -> None:
    made = of_cases(
        *(
            came(outcome, test=f"{TESTS[0]}[{case}]", problem="Skipped: no browser")
            for case, outcome in enumerate(outcomes)
        )
    )
    assert made.passed is passed
    assert made.holes == (["no browser"] if "skipped" in outcomes else [])


def test_a_case_that_came_to_no_end_fails_its_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(prove, "run_tests", lambda tests, *_: asked.append(tests))
    made = of_cases(came(test=f"{TESTS[0]}[1]"), cases=[f"{TESTS[0]}[1]", f"{TESTS[0]}[2]"])
    assert asked == [TESTS]
    assert not made.passed
    assert "test_one[2] came to no end" in prove.told_by(made)


def test_a_proof_that_was_interrupted_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(prove, "CAME", tmp_path / "proofs")
    cases = [f"{TESTS[0]}[{case}]" for case in range(4)]
    ran = []

    def pytest_says(arguments: list[str], _size: str, told: Path, apart: bool) -> int:
        assert not apart
        ran.append(arguments[1:])
        outcomes = ["passed", "passed", "failed"] if len(ran) == 1 else ["passed"] * 2
        left = cases if len(ran) == 1 else cases[2:]
        with told.open("ab") as file:
            for case, outcome in zip(left, outcomes, strict=False):  # and then it was killed
                file.write(msgspec.json.encode(came(outcome, test=case)) + b"\n")
            if len(ran) == 1:
                file.write(msgspec.json.encode(came("failed", test=cases[1])) + b"\n")  # while its lab was taken down
        return -9

    monkeypatch.setattr(prove, "pytest_says", pytest_says)
    known = prove.came_before("full")
    prove.run_tests(TESTS, {TESTS[0]: cases}, "full", known)
    assert ran == [cases]
    assert {case: known[case].outcome for case in known} == dict(
        zip(cases[:3], ["passed", "failed", "failed"], strict=True)
    )
    known = prove.came_before("full")
    assert list(known) == cases[:1]
    prove.run_tests(TESTS, {TESTS[0]: cases}, "full", known)
    assert ran[1] == cases[1:]


def test_what_failed_before_it_passed_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = tmp_path / "came"
    monkeypatch.setattr(prove, "file_of", lambda _size: told)
    cases = [f"{TESTS[0]}[{case}]" for case in range(4)]
    elsewhere = "tests/test_prove.py::test_two"

    def figure(failed: list[str], passed: list[str], *failed_again: str) -> Any:
        lines = [came("failed", "200 of 200", test=case) for case in failed]
        lines += [came("passed", "200 of 200", test=case) for case in passed]
        lines += [came("failed", "200 of 200", test=case) for case in failed_again]
        told.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        known = {line.test: line for line in lines}
        return prove.told_by(prove.proved("C3", "full", PROMISES["C3"], {TESTS[0]: cases}, known))

    before = "had failed before with this very code"
    assert figure([], cases) == "200 of 200"
    assert figure(cases[:1], cases) == f"200 of 200; 1 case {before}"
    assert figure([*cases[:2], cases[0], elsewhere], [*cases, elsewhere]) == f"200 of 200; 2 cases {before}"
    assert figure(cases[:3], cases, cases[2]) == f"1 tests failed, first {cases[2]}: ; 200 of 200; 2 cases {before}"


MISSING = {
    "tests/cluster/test_run.py::test_a": [
        "tests/cluster/test_run.py::test_a[1]",
        "tests/cluster/test_run.py::test_a[2]",
    ],
    "tests/judge/test_lost.py::test_b": ["tests/judge/test_lost.py::test_b[1]", "tests/judge/test_lost.py::test_b[2]"],
    "tests/judge/test_lost.py::test_c": ["tests/judge/test_lost.py::test_c"],
}


@pytest.mark.parametrize("user", [0, 1000])
def test_ci_runs_two_files_at_once_but_clusters_only_where_they_can_be_kept_apart(
    monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: user)
    clusters, first, second = MISSING.values()
    clusters = [*prove.TWO_LABS_AT_ONCE, *clusters] if user == 0 else clusters
    others = [*prove.TWO_FILES_AT_ONCE, *first, *second]
    assert prove.as_ci(MISSING) == [others, clusters]
    assert prove.as_ci(dict([*MISSING.items()][:1])) == [clusters]
    assert prove.as_ci(dict([*MISSING.items()][1:])) == [others]


def test_apart_from_the_rest_are_each_case_of_a_cluster_and_each_file_of_others() -> None:
    (one, two), first, second = MISSING.values()
    assert prove.parts_of(MISSING) == [[one], [two], [*first, *second]]


def test_cases_that_share_a_lab_stay_together() -> None:
    shared = {file: f"{file}::test_a" for file in prove.SHARE_A_LAB}
    missing = {test: [f"{test}[1]", f"{test}[2]"] for test in shared.values()}
    assert prove.parts_of(missing) == [*missing.values()]
    assert all((prove.HOME / file).exists() for file in shared)


def test_mutants_share_a_spark_by_tens() -> None:
    cases = [f"{prove.OF_MUTANTS}::test_a[{number}]" for number in range(23)]
    assert [len(part) for part in prove.parts_of({cases[0].partition("[")[0]: cases})] == [10, 10, 3]


def test_what_is_run_apart_sees_no_process_and_no_network_but_its_own(tmp_path: Path) -> None:
    if os.getuid() != 0:
        cannot_run("`scripts/prove --at-once` takes root")
    test = tmp_path / "test_apart.py"
    test.write_text(APART)
    command = [prove.APART, sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, "1 failed, 1 passed" in done.stdout) == (1, True), done.stdout


APART = """
import os, socket, subprocess, time
from pathlib import Path

def test_it_is_apart():
    assert len(list(Path("/proc").glob("[0-9]*"))) <= 3
    assert [name for _, name in socket.if_nameindex()] == ["lo"]
    socket.create_server(("127.0.0.1", 0))
    orphan = int(subprocess.check_output(["sh", "-c", "sleep 0.1 >/dev/null & echo $!"]))
    deadline = time.monotonic() + 10
    while Path(f"/proc/{orphan}").exists():
        assert time.monotonic() < deadline, "somebody takes it in"

def test_that_fails():
    assert False
"""


def test_tests_that_cannot_be_read_prove_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(prove, "CAME", tmp_path)

    def pytest_says(_arguments: list[str], _size: str, _told: Path, out: Any) -> int:
        out.write(b"ImportError\n")
        return 2

    monkeypatch.setattr(prove, "pytest_says", pytest_says)
    with pytest.raises(SystemExit, match=r"ImportError\npytest cannot read all tests \(exit 2\)"):
        prove.what_proves("full")


def test_a_line_that_was_torn_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "came"
    whole = msgspec.json.encode(came()) + b"\n"
    for torn in range(1, len(whole)):
        path.write_bytes(whole + whole[:torn])
        assert len(prove.lines_of(path)) == 1
    path.write_bytes(whole * 2)
    assert len(prove.lines_of(path)) == 2


def test_date_and_commit_are_of_the_last_case_that_was_run() -> None:
    first = msgspec.structs.replace(came(test="a"), date="2026-11-15T10:00", commit="1111111")
    last = msgspec.structs.replace(came(test="b"), date="2026-11-16T09:00", commit="2222222")
    made = of_cases(last, first)
    assert (made.date, made.commit) == ("2026-11-16T09:00", "2222222")


@pytest.fixture(scope="module")
def found() -> Found:
    """What pytest finds at a size: it reads every test for that, so once for each is enough."""
    return cache(prove.what_proves)


def test_quick_is_what_ci_runs(found: Found) -> None:
    tests, cases = found("quick")
    assert not tests["S1"]
    assert tests["A2"]
    every = {case for own in cases.values() for case in own}
    closed = "tests/cluster/test_run.py::test_a_run_whose_terminal_is_closed_ends_in_good_order"
    assert {case for case in every if case.startswith(closed)} == {f"{closed}[severed]"}


@pytest.mark.parametrize("size", ["quick", "full"])
def test_what_is_marked_is_what_pytest_finds(size: str, found: Found) -> None:
    tests, _ = found(size)
    assert {name: prove.marked(name, size) for name in PROMISES} == {name: tests[name] for name in PROMISES}


def test_a_proof_of_other_code_is_marked_and_not_taken_for_done() -> None:
    now, before = proof(), proof(code="before")
    assert not prove.age(now)
    assert "*older than the code*" in prove.section("C3", PROMISES["C3"], [before])
    assert "older" not in prove.section("C3", PROMISES["C3"], [now])
    assert "*of another bar*" in prove.section("C3", PROMISES["C3"], [proof(bar="1 of 1")])


def test_all_that_has_changed_since_is_told() -> None:
    marks = ", *older than the code*, *older than its tests*, *of another bar*"
    assert prove.age(proof(code="before", tests_code="before", bar="1 of 1")) == marks


def test_what_failed_and_what_is_missing_come_first() -> None:
    promises = {name: PROMISES[name] for name in ("A1", "C1", "C3")}
    short = prove.in_short(promises, {("A1", "full"): proof(id="A1"), ("C3", "full"): proof(passed=False)}, None)
    told = [line for line in short.splitlines() if line.startswith("- ")]
    assert told == ["- **FAILED**: 1 (C3)", "- not proved yet: 1 (C1)", "- passed at full size: 1"]


def test_of_each_promise_a_line_says_what_a_plain_pass_would_hide() -> None:
    promise = msgspec.structs.replace(PROMISES["C3"], lacks="much")
    old = proof(code="before", holes=["no browser"], date="2026-11-18T01:02")
    kept = {("C3", "full"): old, ("C3", "quick"): proof(size="quick", passed=False)}
    (line,) = [line for line in prove.in_short({"C3": promise}, kept, None).splitlines() if line.startswith("| [")]
    assert line == (
        "| [C3](#c3-three-judges-agree) | Three judges agree | **FAILED** | 2026-11-18 "
        "| in part, with a hole, *older than the code*, failed at quick size |"
    )
    assert "### C3. Three judges agree\n" in prove.section("C3", promise, [])


def test_a_proof_of_the_judge_is_about_the_judge_and_what_it_imports() -> None:
    of_judge = {path.name for path in prove.with_imported(prove.files_below(prove.SOURCE / "ackproof/judge"))}
    assert {"lost.py", "journal_tables.py", "rates.py", "verdict.py"} <= of_judge
    assert not {"run.py", "cli.py", "supervisor.py"} & of_judge
    assert prove.digest_of_code("ackproof.judge") != prove.digest_of_code("")
    assert prove.digest_of_code("ackproof.judge ackproof.run") != prove.digest_of_code("ackproof.judge")
    tests = {path.name for path in prove.files_of(["tests/test_bad_input.py::test_one"])}
    assert {"test_bad_input.py", "test_cli.py", "test_scenario.py"} <= tests
    assert "test_prove.py" not in tests


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
    def shared(file: str) -> set[str]:
        return {str(path.relative_to(prove.TESTS)) for path in prove.files_of([f"tests/{file}.py::test_one"])}

    of_mutants = shared("judge/test_mutants")
    assert {"judge/mutation.py", "judge/asking.py", "judge/survivors.toml", "proving.py", "conftest.py"} <= of_mutants
    assert {name for name in of_mutants if "/test_" in name} == {"judge/test_mutants.py"}
    assert not {"cluster/real_lab.py", "judge/planting.py"} & of_mutants, "what it neither imports nor names"
    assert {"judge/planting.py", "judge/reference.py"} <= shared("judge/test_planted") | shared(
        "judge/test_three_judges"
    )
    assert "judge/mutation.py" not in shared("judge/test_three_judges")
    of_clusters = shared("cluster/test_killed")
    assert {"cluster/real_lab.py", "cluster/stand_in.py", "fake_ivy.py"} <= of_clusters
    assert "judge/planting.py" not in of_clusters
    recorded = shared("judge/test_recorded_runs")
    assert {"runs/no-loss/run.json", "judge/recorded/no-loss.json"} <= recorded
    assert any(name.startswith("kafka/data/") for name in shared("kafka/test_ask"))
    before = proof(tests_code="before")
    assert "*older than its tests*" in prove.section("C3", PROMISES["C3"], [before])


def test_a_proof_is_older_than_tests_that_it_has_not_run() -> None:
    now = proof()
    assert not prove.age(now)
    file = now.tests[0].partition("::")[0]
    fewer = [test for test in now.tests if not test.startswith(file)]
    assert fewer
    before = proof(tests=fewer)
    assert prove.digest_of(prove.files_of(fewer)) == before.tests_code
    assert "*older than its tests*" in prove.section("C3", PROMISES["C3"], [before])
    assert "| in part, *older than its tests* |\n| [C4]" in prove.page(PROMISES, prove.Data([before]))


def test_a_hole_is_no_plain_pass() -> None:
    kept = {("F1", "full"): proof(id="F1", holes=["no browser"])}
    assert "| with a hole |" in prove.in_short({"F1": prove.Promise("text", "all", "60")}, kept, None)


def test_what_is_done_is_not_run_again_unless_something_has_changed() -> None:
    tests = proof().tests
    assert prove.is_done(proof(), tests)
    assert not prove.is_done(proof(passed=False), tests)
    assert not prove.is_done(proof(code="before"), tests)
    assert not prove.is_done(proof(holes=["no browser"]), tests)
    assert not prove.is_done(proof(), [*tests, "tests/test_prove.py::test_two"])
    assert not prove.is_done(None, tests)


def test_the_page_says_what_failed_what_is_missing_and_what_has_a_hole() -> None:
    promises = prove.read_promises()
    kept = [proof(passed=False, figures=["1 tests failed"]), proof(id="F1", holes=["no browser"])]
    share = prove.Share(883, 660.0, "2026-11-18T01:00", "1111111", prove.digest_of_all())
    page = prove.page(promises, prove.Data(kept, share))
    sections = {part.partition(".")[0]: part for part in page.split("\n### ")[1:]}
    assert "- **FAILED at full size** (" in sections["C3"]
    assert "  - 1 tests failed\n" in sections["C3"]
    assert "  - **Hole**: no browser" in sections["F1"]
    assert "- **Not proved yet**." in sections["A1"]
    assert "- **FAILED**: 1 (C3)" in page
    assert "its 883 cases took 11.0 minutes, of the 12 that it may take (`scripts/prove --quick`" in page


def test_a_share_that_took_too_long_is_told() -> None:
    share = prove.Share(881, prove.SHARE_MAX_S + 246.7, "2026-11-18T07:00", "1111111", prove.digest_of_all())
    told = "its 881 cases took 16.1 minutes, **more than the 12 that it may take** (`scripts/prove --quick`"
    assert told in prove.in_short(PROMISES, {}, share)


def test_a_share_of_other_code_is_marked() -> None:
    share = prove.Share(881, 660.0, "2026-11-18T07:00", "1111111", "before")
    told = "of the 12 that it may take, *older than the code or its tests* (`scripts/prove --quick`"
    assert told in prove.in_short(PROMISES, {}, share)


def test_a_case_that_passed_with_another_library_is_run_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(prove, "CAME", tmp_path / "proofs")
    before = prove.file_of("full")
    monkeypatch.setattr(prove, "HOME", tmp_path)
    (tmp_path / "constraints.txt").write_text("pyspark==4.0.9\n")
    monkeypatch.setattr(
        prove, "digest_of", lambda paths: "+".join(p.name for p in paths if p.name == "constraints.txt")
    )
    assert prove.file_of("full") != before
    assert prove.file_of("full").name == "full-constraints.txt"


def test_of_another_clone_what_is_newer_is_taken_whatever_came_of_it() -> None:
    old, new, failed = (proof(date=f"2026-01-0{day}", passed=day < 3) for day in (1, 2, 3))
    other = proof(id="C2", date="2026-01-01")
    for ours, theirs, taken in [
        ([old], [new], [new]),
        ([new], [old], [new]),
        ([new], [failed], [failed]),
        ([old], [], [old]),
        ([new], [other], [other, new]),
    ]:
        assert prove.newest(prove.Data(ours), prove.Data(theirs), PROMISES).proofs == taken
    first, last = (prove.Share(1, 1.0, f"2026-01-0{day}", "abc") for day in (1, 2))
    assert prove.newest(prove.Data([], first), prove.Data([], last), PROMISES).share == last
    assert prove.newest(prove.Data([], last), prove.Data([], first), PROMISES).share == last
    assert prove.newest(prove.Data([], last), prove.Data([]), PROMISES).share == last


def test_the_machine_is_that_of_the_cases() -> None:
    here = msgspec.structs.replace(came(test="a"), machine="2 cores")
    there = msgspec.structs.replace(came(test="b"), machine="4 cores")
    assert of_cases(here, there).machine == "2 cores; 4 cores"


def test_every_promise_is_in_a_group_and_every_marked_test_proves_one() -> None:
    promises = prove.read_promises()
    groups = tomllib.loads(prove.PROMISES.read_text())["groups"]
    assert {name[0] for name in promises} == set(groups)
    marked = set()
    for path in SCRIPTS.parent.glob("tests/**/test_*.py"):
        marked |= set(re.findall(r"mark\.proves\(([^)]*)\)", path.read_text(encoding="utf-8")))
    assert {word for arguments in marked for word in re.findall(r'"(.*?)"', arguments)} <= set(promises)


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
