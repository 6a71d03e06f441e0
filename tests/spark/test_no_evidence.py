"""A run that is no evidence is unknown, with the reason, and its exit code is 3: never a pass."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ackproof.cli.main import app
from ackproof.judge import run_source
from ackproof.judge.pipeline import judge
from ackproof.model.verdict import EXIT_CODES, Verdict, read_verdict
from tests.support.asking import verdicts_of
from tests.support.histories import FIRST_RUN, History

Told = Callable[[str, object], None]


def run(*events: tuple[str, float], outcome: str = "ok", planned: bool = True) -> History:
    """Return a run of twenty messages, one each millisecond, whose log holds all acknowledged ones."""
    history = History(expect={"lost": "forbidden"})
    if planned:
        history.fault(*events)
    for seq in range(20):
        history.send(seq, seq if outcome == "ok" else None, outcome=outcome)
        if outcome == "ok":
            history.log(seq, seq)
    return history


GOOD = (("asked", 5.0), ("proved", 6.0), ("healed", 90.0))
CASES: dict[str, tuple[History, str | None]] = {
    "near miss: a run as it should be": (run(*GOOD), None),
    "near miss: a scenario without a fault": (run(planned=False), None),
    "nothing was sent": (History(expect={"lost": "forbidden"}).fault(*GOOD), "nothing was acknowledged"),
    "nothing was acknowledged, nobody knows": (run(*GOOD, outcome="info"), "nothing was acknowledged"),
    "nothing was acknowledged, all failed": (run(*GOOD, outcome="fail"), "nothing was acknowledged"),
    "the fault never came": (run(), "never began"),
    "the fault was not proved": (run(("asked", 5.0), ("not proved", 6.0)), "not proved"),
    "the fault did not hold": (run(*GOOD, ("broken", 50.0)), "did not hold"),
    "the fault was not healed": (run(("asked", 5.0), ("proved", 6.0), ("not healed", 90.0)), "healed"),
    "the fault came after the load": (run(("asked", 50.0), ("proved", 51.0), ("healed", 90.0)), "load ended"),
    "the fault came before the load": (run(("asked", 0.0), ("proved", 0.0), ("healed", 90.0)), "before"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def verdicts(folder: Path) -> dict[str, Verdict]:
    return verdicts_of(CASES, folder)


@pytest.mark.proves("C7")
@pytest.mark.parametrize("case", CASES)
def test_a_run_without_evidence_is_unknown_and_says_why(
    verdicts: dict[str, Verdict], case: str, record_property: Told
) -> None:
    verdict, reason = verdicts[case], CASES[case][1]
    assert EXIT_CODES[verdict.result] == (0 if reason is None else 3), verdict.sentence
    assert reason is None or reason in verdict.sentence
    without = sum(reason is not None for _, reason in CASES.values())
    record_property("figure", f"{without} runs without evidence: exit 3 with the reason; near misses confirmed")


class Judged:
    """A stand-in for the judge's process, which returns verdicts made before."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def judge(self, directories: list[Path], *_: object) -> list[Verdict]:
        found = [read_verdict(directory) for directory in directories]
        return [verdict for verdict in found if verdict is not None]

    def close(self) -> None:
        pass


@pytest.mark.proves("C7")
@pytest.mark.parametrize("case", CASES)
def test_the_command_ends_with_3_and_prints_the_reason(
    verdicts: dict[str, Verdict], folder: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, reason = list(CASES).index(case), CASES[case][1]
    monkeypatch.setattr("ackproof.api.judge.Judging", Judged)
    done = CliRunner().invoke(app, ["judge", str(folder / f"run{place}")])
    assert done.exit_code == (0 if reason is None else 3), done.output
    said = " ".join(done.output.split())
    assert verdicts[case].sentence in said
    assert reason is None or reason in said


@pytest.mark.long
@pytest.mark.proves("C7")
@pytest.mark.timeout(600)
def test_several_runs_without_evidence_end_with_3_and_each_says_why(tmp_path: Path, record_property: Told) -> None:
    directories = []
    for place, (history, _) in enumerate(CASES.values()):
        history.run = FIRST_RUN + place
        directories.append(history.write(tmp_path / f"run{place}"))
    done = subprocess.run(
        [sys.executable, "-m", "ackproof", "judge", *map(str, directories), "--json"],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    told = json.loads(done.stdout)["runs"]
    for case, one, directory in zip(CASES, told, directories, strict=True):
        reason, verdict = CASES[case][1], read_verdict(directory)
        assert one["result"] == ("confirmed" if reason is None else "unknown"), case
        assert reason is None or (verdict is not None and reason in verdict.sentence), case
    record_property("figure", f"{len(told)} runs given to `ackproof judge` at once: exit 3, and each with its reason")


def test_a_run_in_a_closed_directory_is_unknown_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_another_user = run(*GOOD).write(tmp_path / "run")
    look = Path.stat

    def refused(path: Path, **how: bool) -> os.stat_result:
        if path == of_another_user:
            raise PermissionError(errno.EACCES, "Permission denied")
        return look(path, **how)

    monkeypatch.setattr(Path, "stat", refused)
    for directory, why in ((of_another_user, "Permission denied"), (tmp_path / ("x" * 300), "File name too long")):
        (verdict,) = judge([directory])
        assert EXIT_CODES[verdict.result] == 3
        assert f"cannot be looked at ({why})" in verdict.sentence


def test_a_journal_that_can_neither_be_sealed_nor_copied_is_unknown_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = run(*GOOD).write(tmp_path / "run")

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(run_source, "_writable", lambda _: False)
    monkeypatch.setattr("shutil.copyfile", refused)
    (verdict,) = judge([directory])
    assert EXIT_CODES[verdict.result] == 3
    assert "neither sealed in its place nor copied" in verdict.sentence


def test_the_old_verdict_of_an_unreadable_run_is_shown_as_an_earlier_one(tmp_path: Path) -> None:
    directory = run(*GOOD).write(tmp_path / "run")
    (directory / "run.json").write_text("{")
    (verdict,) = judge([directory])
    assert "earlier" not in verdict.sentence
    (directory / "verdict").mkdir()
    (directory / "verdict" / "verdict.json").write_text("{}")
    (verdict,) = judge([directory])
    assert verdict.result == "unknown"
    assert "cannot be read" in verdict.sentence
    assert verdict.sentence.endswith("; the verdict that stands there is an earlier one.")
