"""`scripts/prove`: it prints and keeps the results of proofs, goes on after an interruption, and loses no result."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support import proving
from tests.support.scripts_as_modules import SCRIPTS, script
from tests.support.skips import cannot_run

pytestmark = pytest.mark.timeout(500)  # each starts pytest several times, which takes long on a busy machine

prove: Any = script("prove")
proof_cases: Any = script("proof_cases")
trust: Any = script("trust")

PROMISES = """
[groups]
A = "Toys"
[A1]
title = "Counting"
promise = "Three are counted."
bar = "each"
[A2]
title = "Nothing yet"
promise = "No test proves this."
bar = "all"
lacks = "a test"
"""
TOY_TEST = """
import os
from pathlib import Path
import pytest
from tests.support.proving import size

@pytest.mark.proves("A1")
@pytest.mark.parametrize("number", [1, 2, 3])
def test_counting(number, record_property):
    with open(os.environ["RAN"], "a") as ran:
        ran.write(str(number))
    record_property("figure", f"counted to {size(3, 300)}")
    if str(number) == os.environ.get("KILLED"):
        os.kill(os.getpid(), 9)
    assert str(number) != os.environ.get("WRONG")
    if str(number) == os.environ.get("CHANGES"):
        Path(__file__).with_name("new.py").touch()
"""


class Toy:
    """A small project with its own git history and our `scripts/prove.py`."""

    def __init__(self, home: Path) -> None:
        self.home, self.kept, self.ran = home, home / "docs" / "trust.json", home.parent / "ran"
        for folder in ("scripts", "tests", "docs"):
            (home / folder).mkdir(parents=True)
        for name in ("prove.py", "proof_cases.py", "trust.py"):
            shutil.copy(SCRIPTS / name, home / "scripts")
        (home / "scripts" / "fetch.py").touch()
        (home / "tests" / "support").mkdir()
        shutil.copy(SCRIPTS.parent / "tests" / "support" / "proving.py", home / "tests" / "support")
        markers = '["proves(id): x", "in_one_process(n): x", "cluster: x", "long: x"]'
        (home / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\nmarkers = {markers}\n")
        (home / ".gitignore").write_text(".proofs\n__pycache__\n")
        (home / "docs" / "proofs.toml").write_text(PROMISES)
        (home / "tests" / "test_toy.py").write_text(TOY_TEST)
        self.kept.write_text('{"results": []}')
        self.git("init", "-q")
        self.commit()

    def git(self, *words: str) -> str:
        names = ("-c", "user.name=Toy", "-c", "user.email=toy@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *names, *words], cwd=self.home, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "--no-verify", "-m", "toy: change")
        return self.git("rev-parse", "--short=7", "HEAD")

    def prove(self, *options: str, **environment: str) -> tuple[int, str, str]:
        """Run the proofs, and return the exit code, the messages, and the numbers of the cases that ran."""
        self.ran.write_text("")
        command = [sys.executable, str(self.home / "scripts" / "prove.py"), *options]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("ACKPROOF", "PYTEST"))}
        plugins = {
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": "pytest_timeout,xdist.plugin",
        }  # starts faster
        given = inherited | plugins | {"RAN": str(self.ran), "PYTHONDONTWRITEBYTECODE": "1"} | environment
        done = subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=400)
        return done.returncode, done.stderr, self.ran.read_text()

    def results(self) -> list[dict[str, Any]]:
        return [dict(each) for each in json.loads(self.kept.read_text())["results"]]

    def page(self) -> str:
        return (self.home / "docs" / "trust.md").read_text()


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path / "toy")


def test_a_killed_proof_fails_and_the_same_command_goes_on_from_there(toy: Toy) -> None:
    first = toy.git("rev-parse", "--short=7", "HEAD")
    code, said, ran = toy.prove("--only", "A1", KILLED="2")
    assert (code, ran) == (1, "12")
    assert "A1 FAILED: tests/test_toy.py::test_counting[2] did not end" in said
    assert "**FAILED** at full size: tests/test_toy.py::test_counting[2] did not end" in toy.page()
    code, said, ran = toy.prove("--only", "A1")
    assert (code, ran) == (0, "23")
    assert "1 of 3 cases are recorded as passed and are not run again" in said
    assert [(each["passed"], each["commit"]) for each in toy.results()] == [(False, first), (True, first)]
    newest = toy.results()[1]
    told = f"Full: counted to 300 | {newest['date'][:10]} | {first} | `scripts/prove --only A1` |"
    assert f"| **A1 Counting.** Three are counted. | {told}" in toy.page()
    assert toy.prove("--only", "A1")[::2] == (0, "")
    assert len(toy.results()) == 2, "the same result is kept once"


def test_a_pass_counts_for_its_own_commit_or_for_all_commits_since_one(toy: Toy) -> None:
    first = toy.git("rev-parse", "--short=7", "HEAD")
    assert toy.prove("--only", "A1", WRONG="2")[::2] == (1, "123")
    second = toy.commit()
    assert toy.prove("--only", "A1", "--since", first)[::2] == (0, "2")
    assert toy.results()[-1]["commit"] == f"{first} to {second}"
    assert toy.prove("--only", "A1", "--since", first)[::2] == (0, ""), "both commits count"
    assert toy.prove("--only", "A1")[::2] == (0, "13"), "passes of the earlier commit do not count"
    assert toy.prove("--only", "A1", "--again")[::2] == (0, "123")
    code, said, ran = toy.prove("--only", "A1", "--since", "none")
    assert (code, ran) == (1, "")
    assert "--since none: there is no such commit" in said


def test_a_case_that_failed_before_it_passed_is_reported(toy: Toy) -> None:
    assert "1 case failed, first tests/test_toy.py::test_counting[3]: assert" in toy.prove("--only", "A1", WRONG="3")[1]
    code, said, ran = toy.prove("--only", "A1")
    assert (code, ran) == (0, "3")
    assert "A1 passed: counted to 300; 1 case had failed before with the same commit" in said


def test_results_of_a_tree_with_uncommitted_changes_are_recorded_as_such_and_not_kept(toy: Toy) -> None:
    (toy.home / "tests" / "new.py").touch()
    for _ in range(2):
        code, said, ran = toy.prove("--only", "A1")
        assert (code, ran) == (0, "123")
        assert "nothing of this is kept in docs/trust.json: the tree has uncommitted changes" in said
    lines = [json.loads(line) for line in (toy.home / ".proofs" / "cases.jsonl").read_text().splitlines()]
    assert len(lines) == 6
    assert all(line["commit"].endswith(" with changes") for line in lines)
    assert toy.results() == []
    assert "| **A1 Counting.** Three are counted. | **not proved yet** | | | |" in toy.page()


def test_cases_that_ran_while_the_code_changed_run_again(toy: Toy) -> None:
    code, said, ran = toy.prove("--only", "A1", CHANGES="2")
    assert (code, ran) == (1, "123")
    assert "the code was changed while it was proved" in said
    assert toy.results() == []
    (toy.home / "tests" / "new.py").unlink()
    assert toy.prove("--only", "A1")[::2] == (0, "123")


@pytest.mark.proves("R1")
def test_a_result_that_was_kept_once_cannot_be_removed_or_changed(toy: Toy) -> None:
    toy.prove("--only", "A1")
    toy.commit()
    kept, page = toy.kept.read_text(), toy.page()
    removed, changed = '{"results": []}', kept.replace("counted to 300", "counted to 301")
    for forged, committed in ((changed, False), (removed, False), (removed, True)):
        toy.kept.write_text(forged)
        if committed:
            toy.commit()
        code, said, ran = toy.prove("--only", "A1", "--again")
        assert (code, ran) == (1, "")
        assert "docs/trust.json lacks results that an earlier commit has: A1 (full, " in said
        assert (toy.kept.read_text(), toy.page()) == (forged, page)
    toy.kept.write_text("half a file")
    assert "Put back the version of the last commit" in toy.prove("--only-write")[1]
    toy.kept.write_text(kept)
    assert toy.prove("--only-write")[0] == 0
    assert (toy.kept.read_text(), toy.page()) == (kept, page)


def test_nothing_is_proved_without_a_test_or_with_a_file_that_cannot_be_read(toy: Toy) -> None:
    code, said, ran = toy.prove("--quick")
    assert (code, sorted(ran)) == (1, ["1", "2", "3"])
    assert "A2 NOT PROVED: no test proves it at quick size" in said
    assert "1 of 2 proved; not A2" in said
    assert [(each["id"], each["size"]) for each in toy.results()] == [("all", "quick"), ("A1", "quick")]
    assert "- **not proved yet**: 1 (A2)\n- passed at quick size: 1 (A1)\n- at quick size 3 cases took 0." in toy.page()
    assert "Not tested:\n\n- **A2**: a test\n" in toy.page()
    (toy.home / "tests" / "test_broken.py").write_text("import no_such_module")
    code, said, ran = toy.prove("--only", "A1")
    assert (code, ran) == (1, "")
    assert "No module named 'no_such_module'" in said
    assert "pytest could not read all tests (exit 2), so nothing can be proved" in said


def test_results_of_another_clone_are_added(toy: Toy, tmp_path: Path) -> None:
    other = Toy(tmp_path / "other")
    other.prove("--only", "A1")
    for _ in range(2):
        assert toy.prove("--take", str(other.home))[::2] == (0, "")
        assert toy.results() == other.results()
    assert "is no clone of this project" in toy.prove("--take", str(tmp_path))[1]


def test_a_promise_passes_if_a_case_passed_and_none_failed() -> None:
    sitting = proof_cases.Sitting("full", 1, "1111111")

    def result(*outcomes: str) -> Any:
        cases = [f"tests/test_a.py::test_a_b[{number}]" for number in range(len(outcomes))]
        ended = [
            proof_cases.Case(c, o, "full", "1111111", problem="Skipped: no browser")
            for c, o in zip(cases, outcomes, strict=True)
        ]
        return proof_cases.result_of("A1", cases, {case.case: case for case in ended}, sitting)

    assert (result("passed", "passed").passed, result("passed", "passed").figures) == (True, ["a b: 2 cases"])
    assert (result("passed", "skipped").passed, result("passed", "skipped").holes) == (True, ["no browser"])
    assert not result("passed", "failed").passed
    assert not result("skipped").passed


def test_a_torn_line_is_left_out(tmp_path: Path) -> None:
    path, whole = tmp_path / "cases", b'{"case": "a"}\n'
    for torn in range(1, len(whole) - 1):
        path.write_bytes(whole + whole[:torn] + b"\n" + whole)
        assert proof_cases.read_lines(path) == [{"case": "a"}] * 2
        path.write_bytes(whole + whole[:torn])
        assert proof_cases.read_lines(path) == [{"case": "a"}]


def test_a_process_runs_one_file_or_as_many_of_its_cases_as_its_marker_says(monkeypatch: pytest.MonkeyPatch) -> None:
    def cases(file: str, number: int, cluster: bool = False, batch: int = 0) -> list[Any]:
        return [prove.Test(f"{file}.py::test[{each}]", ["A1"], cluster, batch) for each in range(number)]

    plain, clusters, shared, tens = (
        cases("a", 3),
        cases("b", 2, True, 1),
        cases("c", 2, True),
        cases("d", 23, False, 10),
    )
    every = [*plain, *clusters, *shared, *tens]
    parts = [own for _, own in prove.processes_of(every)]
    assert parts == [plain, clusters[:1], clusters[1:], shared, tens[:10], tens[10:20], tens[20:]]
    for user, two_labs in ((0, prove.TWO_LABS_AT_ONCE), (1000, [])):
        monkeypatch.setattr(os, "getuid", lambda user=user: user)
        together = [(prove.TWO_FILES_AT_ONCE, [*plain, *tens]), (two_labs, [*clusters, *shared])]
        assert prove.processes_of_ci(every) == together


def test_the_page_has_at_most_200_lines_and_says_what_failed_and_what_has_a_hole() -> None:
    groups = tomllib.loads(trust.PROMISES.read_text(encoding="utf-8"))["groups"]
    promises, results = trust.read_promises(), trust.read_results(trust.HOME)
    assert len(trust.page(groups, promises, results).splitlines()) <= 200
    promises = {name: promise for name, promise in promises.items() if name in {result.id for result in results}}
    newest = {"date": "2999-01-01T00:00", "command": "x", "seconds": 1.0, "commit": "1111111"}
    failed = trust.Result("C3", "quick", False, ["3 | 4"], [], **newest)
    hole = trust.Result("F1", "full", True, ["a" * 200, "b" * 200, "c"], ["no browser"], **newest)
    made = trust.page(groups, promises, [hole, failed, *results])
    assert "- **FAILED**: 1 (C3)\n- passed with a hole: 1 (F1)\n" in made
    assert "| **FAILED** at quick size: 3 \\| 4 | 2999-01-01 |" in made
    assert f"| Full: **hole**: no browser; {'a' * 200}; 2 more figures | 2999-01-01 |" in made


def test_every_promise_is_in_a_group_and_every_marked_test_proves_one() -> None:
    promises = trust.read_promises()
    groups = tomllib.loads(trust.PROMISES.read_text())["groups"]
    assert {name[0] for name in promises} == set(groups)
    marked = set()
    for path in SCRIPTS.parent.glob("tests/**/test_*.py"):
        marked |= set(re.findall(r"mark\.proves\(([^)]*)\)", path.read_text(encoding="utf-8")))
    assert {word for arguments in marked for word in re.findall(r'"(.*?)"', arguments)} <= set(promises)


def test_an_unknown_promise_is_refused() -> None:
    command = [sys.executable, str(SCRIPTS / "prove.py"), "--only", "Z9"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "there is no promise Z9; there are A1, " in done.stderr


def test_a_test_has_its_full_size_only_in_a_full_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACKPROOF_PROVE", raising=False)
    assert proving.size(1, 2) == 1
    for asked, expected in (("quick", 1), ("full", 2)):
        monkeypatch.setenv("ACKPROOF_PROVE", asked)
        assert proving.size(1, 2) == expected


def test_a_program_run_apart_sees_only_its_own_processes_and_network(tmp_path: Path) -> None:
    if os.getuid() != 0:
        cannot_run("`scripts/prove --at-once` needs root")
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
        assert time.monotonic() < deadline, "the shell did not reap the orphan"

def test_that_fails():
    assert False
"""
