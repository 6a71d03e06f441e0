"""From a scenario to a verdict: no lab is left behind, also after an error at any step."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.api import run as api_run
from ackproof.api.run_request import RunRequest
from ackproof.cli import run_command as runner
from ackproof.core.errors import CannotHere
from ackproof.lab import client as control
from ackproof.lab import ingredients, launch
from ackproof.model.run_record import read_record
from ackproof.run import execution as running
from ackproof.scenario.load import load
from ackproof.scenario.source import find


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Stands in for a lab, and knows what was done to it."""
    done = SimpleNamespace(down=[], detached=False, close=lambda: None)
    done.detach = lambda: setattr(done, "detached", True)

    def launched(spec: Any, *_: Any, **__: Any) -> SimpleNamespace:
        done.directory = SimpleNamespace(name=spec.name)
        return done

    monkeypatch.setattr(ingredients, "gather", lambda *_: None)
    monkeypatch.setattr(launch, "launch", launched)
    monkeypatch.setattr(control, "down", done.down.append)
    return done


def asked(out: Path, keep: bool = False) -> RunRequest:
    scenario = load(find("acks1-leader-isolated"))
    return RunRequest(
        given=scenario.name, scenario=scenario, mode="kraft", shape="base", seed=1, out=out, keep=keep, judged=False,
        kafka=None, settings=[],
    )  # fmt: skip


@pytest.mark.parametrize("keep", [True, False])
def test_a_lab_whose_run_cannot_begin_goes_down_unless_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab: Any, keep: bool
) -> None:
    def full(*_: Any) -> None:
        raise CannotHere("no space left on the disk")

    monkeypatch.setattr(running, "RunExecution", full)
    outcome = runner.CommandResults(as_json=True)
    runner.run_one(asked(tmp_path, keep), outcome)
    assert outcome.exit_code() == 4
    assert (len(lab.down), lab.detached) == (int(not keep), keep)


def test_a_lab_whose_run_is_interrupted_goes_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab: Any) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "RunExecution", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runner.run_one(asked(tmp_path), runner.CommandResults(as_json=True))
    assert lab.down == [lab.directory.name]


@pytest.mark.parametrize(
    ("problem", "ended", "why"),
    [
        (CannotHere("kafka1 died; its log ends:", ["first", "last"]), "failed", "kafka1 died; its log ends: last"),
        (KeyboardInterrupt(), "interrupted", "interrupted by the user"),
    ],
)
def test_the_record_says_why_the_lab_did_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab: Any, problem: BaseException, ended: str, why: str
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise problem

    monkeypatch.setattr(launch, "launch", fails)
    with suppress(KeyboardInterrupt):
        runner.run_one(asked(tmp_path), runner.CommandResults(as_json=True))
    (directory,) = tmp_path.iterdir()
    record = read_record(directory)
    assert (record.ended, record.problems, lab.down) == (ended, [why], [])
    assert record.ended_at is not None


@pytest.mark.parametrize(("doubts", "code"), [([], 0), (["fault 1 did not hold"], 3)])
def test_a_run_that_is_not_judged_ends_with_its_lab_and_reports_faults_that_did_not_hold(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lab: Any,
    doubts: list[str],
    code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = SimpleNamespace(mark=lambda **_: None, faults=[], doubts=lambda: doubts)
    monkeypatch.setattr(running, "RunExecution", lambda *_: run)
    carried_out: list[Any] = []
    monkeypatch.setattr(running, "carry_out", lambda ongoing, *_: carried_out.append(ongoing))
    outcome = runner.CommandResults(as_json=True)
    runner.run_one(asked(tmp_path), outcome)
    assert (outcome.exit_code(), carried_out, len(lab.down)) == (code, [run], 1)
    assert ("unfit: fault 1 did not hold" in capsys.readouterr().err) is bool(doubts)


@pytest.mark.proves("A9")
@pytest.mark.parametrize(
    "problem",
    [CannotHere("the lab is still there"), OSError(16, "Device or resource busy"), ValueError("half an answer")],
)
def test_a_failed_clean_up_is_reported_and_keeps_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab: Any, capsys: pytest.CaptureFixture[str], problem: Exception
) -> None:
    run = SimpleNamespace(mark=lambda **_: None, faults=[], doubts=list)
    monkeypatch.setattr(running, "RunExecution", lambda *_: run)
    monkeypatch.setattr(running, "carry_out", lambda *_: None)

    def fails(_: str) -> None:
        raise problem

    monkeypatch.setattr(control, "down", fails)
    verdict: Any = SimpleNamespace(result="refuted")
    judge = SimpleNamespace(judge=lambda *_: [verdict], close=lambda: None)
    monkeypatch.setattr(api_run, "Judging", lambda *_, **__: judge)
    outcome = runner.CommandResults(as_json=True)
    runner.run_one(replace(asked(tmp_path), judged=True), outcome)
    assert (outcome.exit_code(), outcome.runs[0].verdict) == (1, verdict)
    assert f"unclean: {problem}" in capsys.readouterr().err


def test_a_run_that_is_interrupted_during_its_report_is_not_called_unjudged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run = SimpleNamespace(mark=lambda **_: None, faults=[], doubts=list)
    monkeypatch.setattr(running, "RunExecution", lambda *_: run)
    monkeypatch.setattr(running, "carry_out", lambda *_: None)
    verdict: Any = SimpleNamespace(result="confirmed")
    judge = SimpleNamespace(judge=lambda *_: [verdict], close=lambda: None)
    monkeypatch.setattr(api_run, "Judging", lambda *_, **__: judge)
    written: list[Path] = []

    def write_report(directory: Path) -> None:
        written.append(directory)
        raise KeyboardInterrupt

    monkeypatch.setattr("ackproof.report.write_report", write_report)
    with pytest.raises(KeyboardInterrupt):
        runner.run_one(replace(asked(tmp_path), judged=True), runner.CommandResults(as_json=True))
    said = capsys.readouterr().err
    assert f"interrupted: judged, but not reported: ackproof report {written[0]}" in said
    assert "not judged" not in said
    assert len(written) == 1, "what was interrupted is not begun again"
