"""The faults of a run, in a lab that stands in for a real one: who ends them, and what the journal says of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ackproof import run as running
from ackproof import runner
from ackproof.errors import CannotHere
from ackproof.journal import read_stream
from ackproof.lab import control
from ackproof.lab.directory import LabDirectory
from ackproof.lab.events import Events
from ackproof.scenario_file import find, load

PROVED = {"faults": ["f1"], "hit": ["kafka1"], "said": ["f1: severed"]}
STUCK = "the lab does not answer"


class StandIn:
    """Answers as a lab would, or not at all, and knows what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.stuck = False
        directory = LabDirectory.of("stand-in")
        directory.path.mkdir(parents=True)
        self.trail = Events(directory.events)
        self.answers: dict[str, Callable[[], dict[str, Any]]] = {
            "partition": lambda: PROVED,
            "heal": lambda: {"said": ["f1: open again"]},
            "processes": lambda: {"exits": {}},
        }
        monkeypatch.setattr(control, "call", self._call)

    def _call(self, _: str, verb: str, **arguments: Any) -> dict[str, Any]:
        self.asked.append((verb, arguments))
        if self.stuck:
            raise CannotHere(STUCK)
        return self.answers.get(verb, dict)()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return StandIn(monkeypatch)


@pytest.fixture
def run(tmp_path: Path, lab: StandIn) -> running.Ongoing:
    """Under way, with one fault that was asked for and proved."""
    return under_way(tmp_path)


def under_way(tmp_path: Path, *settings: str) -> running.Ongoing:
    scenario = load(find("acks1-leader-isolated"), "base", settings)
    asked = runner.Asked(
        given=scenario.name, scenario=scenario, mode="kraft", shape="base", seed=1, out=tmp_path, keep=False,
        judged=False, kafka=None, settings=[],
    )  # fmt: skip
    directory = tmp_path / "run"
    directory.mkdir()
    record = runner._record(asked, asked.lab("run"), directory)
    run = running.Ongoing(scenario, record, directory, "stand-in", lambda _: None)
    run.faults[0].begin()
    return run


def journaled(run: running.Ongoing) -> list[tuple[str, str | None]]:
    run.close()
    rows = read_stream(run.directory / "journal" / "faults" / "run.arrows")[0].to_pylist()
    return [(row["event"], row["by"]) for row in rows if row["event"] not in ("asked", "proved")]


def test_an_interrupted_run_does_not_wait_for_a_lab_that_is_stopped(run: running.Ongoing, lab: StandIn) -> None:
    lab.stuck = True
    lab.asked.clear()
    run.clients._running.update({"observer", "producer1"})
    running._heal_quickly(run)
    assert lab.asked == [("nodes", {"answer_s": running.ANSWER_S})]
    assert run.clients._over.is_set()
    assert journaled(run) == [("healing", "the interrupt"), ("not healed", "the interrupt")]
    assert run.record.problems == [f"healing isolate: {STUCK}"]


def test_an_interrupted_run_ends_its_faults(run: running.Ongoing, lab: StandIn) -> None:
    running._heal_quickly(run)
    assert ("heal", {"faults": ["f1"]}) in lab.asked
    assert journaled(run) == [("healing", "the interrupt"), ("healed", "the interrupt")]
