"""The report's runbook: which steps were done, and when."""

from __future__ import annotations

import msgspec

from ackproof.judge.runbook import runbook
from ackproof.model.run_record import Marks, RunRecord
from ackproof.model.verdict import RunbookStep
from tests.support.histories import History, at


def _steps(history: History, *words: str | None) -> list[RunbookStep]:
    """Return the runbook of a history whose faults have these steps. The load begins at 1 s."""
    record: RunRecord = history.record()
    faults = [msgspec.structs.replace(fault, step=step) for fault, step in zip(record.faults, words, strict=True)]
    record = msgspec.structs.replace(record, faults=faults, marks=Marks(load_begun_ns=at(1_000)))
    return runbook(record, history.rows["faults"])


def test_steps_are_in_the_order_of_time_with_the_fault_that_they_belong_to_and_its_healing() -> None:
    history = (
        History()
        .fault(("asked", 2_000), ("proved", 2_500), ("healing", 9_000), ("healed", 9_250), kind="partition")
        .fault(("asked", 4_000), ("proved", 5_000), ("healed", 5_000), kind="stop", heals="")
    )
    steps = _steps(history, None, "Stop the writers.")
    assert [(step.at_s, step.took_s, step.step, step.done) for step in steps] == [
        (1.0, 0.5, "partition leader:orders/0", True),
        (3.0, 1.0, "Stop the writers.", True),
        (8.0, 0.25, "partition heals", True),
    ]
    assert steps[0].text == "proved, as seen"


def test_a_step_that_failed_or_never_ended_is_not_done() -> None:
    history = (
        History()
        .fault(("asked", 2_000), ("not proved", 3_000), kind="stop", heals="")
        .fault(("asked", 4_000), kind="start", heals="")
    )
    failed, unanswered = _steps(history, "Stop.", "Start.")
    assert (failed.done, failed.took_s, failed.text) == (False, 1.0, "not proved, as seen")
    assert (unanswered.done, unanswered.took_s, unanswered.text) == (False, None, "never answered")


def test_without_steps_there_is_no_runbook() -> None:
    assert _steps(History().fault(("asked", 2_000), ("proved", 2_500), ("healed", 9_000)), None) == []


def test_a_step_that_never_began_is_not_in_it() -> None:
    assert _steps(History().fault(kind="stop", heals=""), "Stop.") == []
