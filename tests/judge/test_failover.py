"""Failover: each step of the story, counted from the proof of the fault."""

from __future__ import annotations

import pytest
from histories import Cases, History, found

COLUMNS = (
    "fault",
    "partition",
    "old_epoch",
    "new_epoch",
    "first_error_ms",
    "new_epoch_ms",
    "first_ack_ms",
    "isr_full_ms",
)


def _faulty() -> History:
    return History().fault(("asked", 90), ("proved", 100), ("healed", 900)).state(0, 1, leader=1, epoch=0)


CASES: Cases = {
    "every step": (
        _faulty()
        .send(0, 0, done=50)
        .send(1, outcome="info", sent=95, done=130)
        .send(2, 1, sent=300, done=350)
        .log(0, 0, epoch=0)
        .log(1, 2, epoch=1)
        .state(250, 2, leader=2, epoch=1, isr=(2, 3))
        .state(800, 2, leader=2, epoch=1, isr=(2, 3))
        .state(1000, 2, leader=2, epoch=1),
        [(1, 0, 0, 1, 30.0, 150.0, 250.0, 900.0)],
    ),
    "an old leader that still tells of a full ISR": (
        _faulty()
        .send(0, 0, done=50)
        .log(0, 0, epoch=0)
        .state(250, 2, leader=2, epoch=1, isr=(2, 3))
        .state(300, 1, leader=1, epoch=0),
        [(1, 0, 0, 1, None, 150.0, None, None)],
    ),
    "near miss: the leader stays": (
        _faulty().send(0, 0, done=50).log(0, 0, epoch=0).state(250, 1, leader=1, epoch=0),
        [(1, 0, 0, None, None, None, None, None)],
    ),
    "near miss: an error before the fault is none of its own": (
        _faulty().send(0, outcome="fail", done=99).send(1, 0, done=99).log(0, 1),
        [(1, 0, 0, None, None, None, None, None)],
    ),
    "near miss: an ISR that shrinks again is not full": (
        _faulty()
        .send(0, 0, done=50)
        .log(0, 0, epoch=0)
        .state(200, 1, leader=1, epoch=0, isr=(1,))
        .state(300, 1, leader=1, epoch=0)
        .state(400, 1, leader=1, epoch=0, isr=(1, 2)),
        [(1, 0, 0, None, None, None, None, None)],
    ),
    "a fault that was never proved has no story": (
        History().fault(("asked", 90), ("not proved", 100)).send(0, 0).log(0, 0),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_failover(case: str) -> None:
    assert found("failover", case, CASES, *COLUMNS) == CASES[case][1]
