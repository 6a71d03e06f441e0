"""stale_leader_ack: an acknowledgement from a leader whose epoch was over."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("seq", "fate", "older_than")


def _elected(when: float = 10, took: float = 0) -> History:
    """Broker 1 leads in epoch 0; from `when` on broker 2 says that it leads in epoch 1."""
    return (
        History()
        .state(0, 1, leader=1, epoch=0)
        .state(when, 2, leader=2, epoch=1, took=took)
        .state(20, 1, leader=1, epoch=0)
        .state(30, 2, leader=2, epoch=1)
    )


def _everywhere() -> History:
    """In two partitions of two topics a message is overwritten by the new epoch."""
    history = History()
    for seq, (topic, partition) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
        place: dict[str, Any] = {"topic": topic, "partition": partition}
        history.state(0, 1, leader=1, epoch=0, **place).state(10, 2, leader=2, epoch=1, **place)
        history.send(seq, 0, done=11, **place).log(0, 10 + seq, epoch=1, **place)
    return history


CASES: Cases = {
    "in two partitions of two topics": (_everywhere(), [(seq, "lost_overwritten", 1) for seq in range(4)]),
    "messages of two producers, acked at one offset": (
        _elected().send(0, 5, done=11).send(0, 5, producer=1, done=11).log(0, 9, epoch=1).end(1, epoch=1),
        [(0, "lost_truncated", 1)] * 2,
    ),
    "overwritten by the new epoch, acked after it was seen": (
        _elected().send(0, 0, done=11).log(0, 9, epoch=1),
        [(0, "lost_overwritten", 1)],
    ),
    "past the end, acked after the new epoch was seen": (
        _elected().send(0, 5, done=11).log(0, 9, epoch=1).end(1, epoch=1),
        [(0, "lost_truncated", 1)],
    ),
    "past the end of a log that its leader had not yet filled when it was asked later": (
        _elected().state(15, 2, leader=2, epoch=1, high_watermark=5).send(0, 5, done=11).log(0, 9).end(1, epoch=2),
        [(0, "lost_truncated", 1)],
    ),
    "near miss: that leader's log did reach the offset": (
        _elected().state(15, 2, leader=2, epoch=1, high_watermark=6).send(0, 5, done=11).log(0, 9).end(1, epoch=2),
        [],
    ),
    "near miss: that leader was not asked again after the ack": (
        _elected().state(10.5, 2, leader=2, epoch=1, high_watermark=5).send(0, 5, done=11).log(0, 9).end(1, epoch=2),
        [],
    ),
    "near miss: it was a follower that had not reached the offset": (
        _elected().state(15, 3, leader=2, epoch=1, high_watermark=5).send(0, 5, done=11).log(0, 9).end(1, epoch=2),
        [],
    ),
    "that leader was asked at the very moment of the ack": (
        _elected().state(11, 2, leader=2, epoch=1, high_watermark=5).send(0, 5, done=11).log(0, 9).end(1, epoch=2),
        [(0, "lost_truncated", 1)],
    ),
    "near miss: past the end, acked at the very moment at which the new epoch was seen": (
        _elected().send(0, 5, done=10).log(0, 9, epoch=1).end(1, epoch=1),
        [],
    ),
    "moved, and the new epoch wrote the record at its offset": (
        _elected().send(0, 0, done=11).log(0, 9, epoch=1).log(1, 0, epoch=1),
        [(0, "survived_moved", 1)],
    ),
    "acknowledged before a still later epoch": (
        _elected().state(20, 3, leader=3, epoch=2).send(0, 0, done=11).log(0, 9, epoch=1),
        [(0, "lost_overwritten", 1)],
    ),
    "survived in the old epoch, acked after the new one was seen": (
        _elected().send(0, 0, done=11).log(0, 0, epoch=0).end(1, epoch=1),
        [(0, "survived", 1)],
    ),
    "an epoch that the observer missed": (
        History().state(0, 1, leader=1, epoch=0).state(10, 2, leader=2, epoch=2).send(0, 0, done=11).log(0, 9, epoch=1),
        [(0, "lost_overwritten", 1)],
    ),
    "near miss: overwritten, acked before the new epoch was seen": (
        _elected().send(0, 0, done=9).log(0, 9, epoch=1),
        [],
    ),
    "near miss: acked while the answer was on its way": (
        _elected(took=2).send(0, 0, done=11).log(0, 9, epoch=1),
        [],
    ),
    "near miss: survived in the new epoch": (_elected().send(0, 0, done=11).log(0, 0, epoch=1), []),
    "near miss: lost in a hole, the epoch is unknown": (_elected().send(0, 0, done=11).log(1, 9, epoch=1), []),
    "near miss: the epoch of the record is unknown": (_elected().send(0, 0, done=11).log(0, 0, epoch=None), []),
    "near miss: with acks=0 no leader answers": (_elected().send(0, None, done=11).log(0, 0, epoch=0), []),
    "near miss: of unknown outcome": (_elected().send(0, outcome="info", done=11).log(0, 0, epoch=0), []),
    "near miss: acked at the very moment": (_elected().send(0, 0, done=10).log(0, 9, epoch=1), []),
    "near miss: twice in the log, so that its epoch is unknown": (
        _elected().send(0, 0, done=11).log(0, 0, epoch=0).log(1, 0, epoch=0).end(2, epoch=1),
        [],
    ),
    "the oldest epoch that it is certainly older than": (
        _elected()
        .state(10.2, 2, leader=2, epoch=1, high_watermark=4)
        .state(10.3, 3, leader=3, epoch=2)
        .state(15, 2, leader=2, epoch=1, high_watermark=5)
        .send(0, 5, done=11)
        .log(0, 9)
        .end(1, epoch=2),
        [(0, "lost_truncated", 1)],
    ),
    "near miss: that leader's log reached the offset later": (
        _elected()
        .state(10.2, 2, leader=2, epoch=1, high_watermark=5)
        .state(15, 2, leader=2, epoch=1, high_watermark=6)
        .send(0, 5, done=11)
        .log(0, 9)
        .end(1, epoch=2),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_stale_leader_ack(case: str) -> None:
    assert found("stale_leader_ack", case, CASES, *COLUMNS) == CASES[case][1]
