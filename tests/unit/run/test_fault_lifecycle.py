"""The faults of a run in a simulated lab: what ends each fault, and what the journal says about it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ackproof.api.run_directory import new_record
from ackproof.api.run_request import RunRequest
from ackproof.core.errors import CannotHere, NotProved, UsageProblem
from ackproof.journal.stream import read_stream
from ackproof.lab import client as control
from ackproof.lab.audit_log import Events
from ackproof.lab.directory import LabDirectory
from ackproof.model.run_record import Marks
from ackproof.run import execution as running
from ackproof.run import fault_lifecycle
from ackproof.scenario.load import load
from ackproof.scenario.source import find

PROVED = {"faults": ["f1"], "nodes": ["kafka1"], "said": ["f1: severed"]}
STUCK = "the lab does not answer"


class StandIn:
    """A lab that answers, or does not answer, and records its requests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.stuck = False
        directory = LabDirectory.of("stand-in")
        directory.path.mkdir(parents=True)
        self.trail = Events(directory.events)
        self.answers: dict[str, Callable[[], dict[str, Any]]] = {
            "inject": lambda: PROVED,
            "heal": self._heal,
            "processes": lambda: {"exits": {}},
        }
        monkeypatch.setattr(control, "call", self._call)

    def _heal(self) -> dict[str, Any]:
        self.trail.add("healed", fault="f1", by="heal", proof="open again")
        return {"said": ["f1: open again"]}

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
def run(tmp_path: Path, lab: StandIn) -> running.RunExecution:
    """An ongoing run with one fault that was injected and proved."""
    return under_way(tmp_path)


def under_way(tmp_path: Path, load_begun_ns: int | None = None, **changes: Any) -> running.RunExecution:
    scenario = load(find("acks1-leader-isolated"))
    scenario = replace(scenario, faults=[replace(scenario.faults[0], **changes)])
    asked = RunRequest(
        given=scenario.name, scenario=scenario, mode="kraft", shape="base", seed=1, out=tmp_path, keep=False,
        judged=False, kafka=None, settings=[],
    )  # fmt: skip
    directory = tmp_path / "run"
    directory.mkdir()
    record = replace(new_record(asked, asked.lab("run"), directory), marks=Marks(load_begun_ns=load_begun_ns))
    run = running.RunExecution(scenario, record, directory, "stand-in", lambda _: None)
    run.faults[0].begin()
    return run


def rows(run: running.RunExecution) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_stream(run.directory / "journal" / "faults" / "run.arrows")[0].to_pylist()
    return found


def journaled(run: running.RunExecution) -> list[tuple[str, str | None]]:
    """Return how the fault ended, by the journal."""
    run.close()
    return [(row["event"], row["by"]) for row in rows(run) if row["event"] not in ("asked", "proved")]


def test_an_interrupted_run_does_not_wait_for_a_lab_that_is_stopped(run: running.RunExecution, lab: StandIn) -> None:
    lab.stuck = True
    lab.asked.clear()
    run.clients.processes.started.update({"observer", "producer1"})
    running._heal_quickly(run)
    assert lab.asked == [("nodes", {"answer_s": running.ANSWER_S})]
    assert run.clients.leaders._over.is_set()
    assert journaled(run) == [("healing", "the interrupt"), ("not healed", "the interrupt")]
    assert run.record.problems == [f"healing isolate: {STUCK}"]


def test_an_interrupted_run_ends_its_faults(run: running.RunExecution, lab: StandIn) -> None:
    running._heal_quickly(run)
    assert ("heal", {"faults": ["f1"]}) in lab.asked
    assert journaled(run) == [("healing", "the interrupt"), ("healed", "the interrupt")]


def test_a_fault_that_no_longer_holds_is_reported_at_once_and_only_once(tmp_path: Path, lab: StandIn) -> None:
    said: list[str] = []
    lab.answers["inject"] = lambda: {**PROVED, "faults": ["f1", "f2"]}
    run = under_way(tmp_path)
    run.tell = said.append
    lab.trail.add("held", fault="f1", proof="6 links severed")
    run.follow_lab()
    assert (said, run.faults[0].broken) == ([], False)
    for name in ("f1", "f2"):
        lab.trail.add("no longer holds", fault=name, problem=f"still reachable, says {name}")
        run.follow_lab()
        assert said == ["isolate kafka1 no longer holds: still reachable, says f1"]
    run.faults[0].end()
    assert said[1:] == ["healed: f1: open again"]
    assert [event for event, _ in journaled(run)] == ["broken", "broken", "healing", "healed"]


def test_how_long_nodes_waited_for_a_processor_is_journaled(run: running.RunExecution, lab: StandIn) -> None:
    lab.trail.add("waited", node="kafka2", waited_ns=400)
    run.follow_lab()
    run.close()
    told = read_stream(run.directory / "journal" / "lateness" / "nodes.arrows")[0].to_pylist()
    assert [(row["client"], row["behind_ns"]) for row in told] == [("kafka2", 400)]


def test_a_fault_whose_healing_is_not_proved_is_reported(run: running.RunExecution, lab: StandIn) -> None:
    def refuse() -> dict[str, Any]:
        raise NotProved("nothing gets through")

    said: list[str] = []
    run.tell = said.append
    lab.answers["heal"] = refuse
    run.faults[0].end()
    run.close()
    assert said == ["healing isolate could not be proved: nothing gets through"]


# -- a fault that is not healed in time ------------------------------------------------------------------------------

AGO_S = 100.0  # when the load began
LATE_S = 60.0  # more than this test takes


@pytest.mark.proves("A4")
@pytest.mark.parametrize(
    ("plan", "until_s"),
    [
        ({"until": None, "until_s": 500.0, "not_before_new_epoch": None}, 500),
        ({"until": None, "until_s": 110.0, "not_before_max_s": 200.0}, AGO_S + 200),
        ({"until": None, "until_s": 1.0, "not_before_new_epoch": None}, AGO_S),
        ({}, 600),
    ],
    ids=["as planned", "not before a new epoch", "late already", "as long as the scenario may take"],
)
def test_a_fault_of_a_run_ends_by_itself_soon_after_it_should_have_ended(
    tmp_path: Path, lab: StandIn, plan: dict[str, Any], until_s: float
) -> None:
    run = under_way(tmp_path, load_begun_ns=time.monotonic_ns() - int(AGO_S * 1e9), **plan)
    ((_, arguments),) = lab.asked
    assert 0 <= until_s - AGO_S + fault_lifecycle.GRACE_S - arguments["for_s"] < LATE_S
    assert arguments["for_s"] >= fault_lifecycle.GRACE_S
    run.close()


def test_the_end_of_a_fault_from_before_the_load_is_not_known(run: running.RunExecution, lab: StandIn) -> None:
    ((_, arguments),) = lab.asked
    assert arguments["for_s"] is None
    run.close()


def over(lab: StandIn, by: str, **facts: Any) -> None:
    lab.trail.add("healed", fault="f1", by=by, proof="6 links open again", **facts)


@pytest.mark.proves("A4")
def test_a_fault_that_ended_by_itself_is_not_healed_again(run: running.RunExecution, lab: StandIn) -> None:
    over(lab, "the kernel", over_ns=17)
    run.faults[0].end()
    assert "heal" not in [verb for verb, _ in lab.asked]
    assert journaled(run) == [("healing", "the kernel"), ("healed", "the kernel")]
    assert [row["at_ns"] for row in rows(run)[-2:]] == [17, 17]


@pytest.mark.proves("A4")
@pytest.mark.parametrize("refused", [True, False])
def test_a_fault_that_ended_while_its_lab_was_stopped_is_journaled_as_ended_by_the_kernel(
    run: running.RunExecution, lab: StandIn, refused: bool
) -> None:
    """When the lab goes on, either the requested heal comes first, or the lab's own proof."""
    ended: list[int] = []

    def heal() -> dict[str, Any]:
        ended.append(time.monotonic_ns())
        over(lab, "the kernel", over_ns=ended[0])
        if refused:
            raise UsageProblem("no fault f1 is active")
        return {"said": ["f1: 6 links open again"]}

    lab.answers["heal"] = heal
    run.faults[0].end()
    assert journaled(run) == [("healing", "the scenario"), ("healed", "the kernel")]
    last = rows(run)[-1]
    assert (last["at_ns"], last["text"]) == (ended[0], "its time was up (the kernel); f1: 6 links open again")
    assert run.record.problems == []


@pytest.mark.proves("A4")
def test_a_run_that_heals_too_late_waits_until_the_lab_has_proved_that_the_fault_is_over(
    tmp_path: Path, lab: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {"until": None, "until_s": 1.0, "not_before_new_epoch": None}
    monkeypatch.setattr(fault_lifecycle, "GRACE_S", 0.0)
    run = under_way(tmp_path, load_begun_ns=time.monotonic_ns() - int(AGO_S * 1e9), **plan)
    looks, follow_lab = itertools.count(1), run.follow_lab

    def follow() -> None:
        if next(looks) == 3:
            over(lab, "the kernel", over_ns=17)
        follow_lab()

    monkeypatch.setattr(run, "follow_lab", follow)
    run.faults[0].end()
    assert "heal" not in [verb for verb, _ in lab.asked]
    assert journaled(run) == [("healing", "the kernel"), ("healed", "the kernel")]


@pytest.mark.proves("A4")
def test_a_pause_that_its_timer_ended_is_journaled_as_ended_by_the_timer(
    run: running.RunExecution, lab: StandIn
) -> None:
    lab.trail.add("expired", fault="f1", by="watchdog")
    over(lab, "heal")
    run.faults[0].end()
    assert journaled(run) == [("healing", "watchdog"), ("healed", "watchdog")]


def test_a_fault_that_another_command_healed_is_journaled_as_not_healed(
    run: running.RunExecution, lab: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> dict[str, Any]:
        raise UsageProblem("no fault f1 is active")

    lab.answers["heal"] = refuse
    over(lab, "heal")  # by a command that is not part of the run
    monkeypatch.setattr(fault_lifecycle, "TOLD_S", 0)
    run.faults[0].end()
    assert journaled(run) == [("healing", "the scenario"), ("not healed", "the scenario")]


@pytest.mark.proves("D2")
def test_a_server_that_dies_by_itself_is_reported_at_once_and_leaves_a_doubt(
    run: running.RunExecution, lab: StandIn
) -> None:
    said: list[str] = []
    run.tell = said.append
    how = {"code": None, "signal": 9}
    lab.trail.add("exited", node="kafka2", by_itself=False, **how)
    lab.trail.add("exited", node="observer", by_itself=True, **how)
    run.follow_lab()
    assert run.doubts() == []
    lab.trail.add("exited", node="controller1", by_itself=True, **how)
    run.follow_lab()
    lab.trail.add("exited", node="relay-kafka2", by_itself=True, **how)
    run.follow_lab()
    assert said == ["controller1 ended by itself (signal 9)", "relay-kafka2 ended by itself (signal 9)"]
    assert run.doubts() == ["controller1 died by itself", "relay-kafka2 died by itself"]
    run.close()


def test_a_lab_that_another_command_took_down_is_named_as_the_cause(
    run: running.RunExecution, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LabDirectory, "alive", lambda _: False)
    why = "the lab ended in the middle of the run: "
    gone = NotProved("gone")
    assert str(running._why(run, gone)) == f"{why}was its supervisor killed, or memory short?"
    run.note(others=["kill kafka1 (root, pid 7)", "down --name run-1 (root, pid 8)"])
    assert str(running._why(run, gone)) == f"{why}another command ended it: down --name run-1 (root, pid 8)"
    run.close()


@pytest.mark.proves("B2")
def test_the_record_says_how_many_rows_were_sealed(run: running.RunExecution) -> None:
    running._put_away(run)
    assert run.record.rows == {"faults": 2}
    assert run.record.ended_at is not None
