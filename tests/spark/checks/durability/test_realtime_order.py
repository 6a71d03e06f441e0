"""realtime_order: a message at or below an offset that was acknowledged before its send began."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("seq", "offset", "acked_before")
CASES: Cases = {
    "below an offset acked before": (
        History().send(0, 5, sent=0, done=1).send(1, 3, sent=2, done=3),
        [(1, 3, 5)],
    ),
    "at an offset acked before": (History().send(0, 5, sent=0, done=1).send(1, 5, sent=2, done=3), [(1, 5, 5)]),
    "the highest of those before counts": (
        History().send(0, 9, sent=0, done=1).send(1, 10, sent=0, done=1.5).send(2, 4, sent=2, done=3),
        [(2, 4, 10)],
    ),
    "by another producer": (
        History().send(0, 5, sent=0, done=1).send(0, 3, producer=1, sent=2, done=3),
        [(0, 3, 5)],
    ),
    "near miss: the send began before that ack": (
        History().send(0, 5, sent=0, done=3).send(1, 3, sent=2, done=4),
        [],
    ),
    "near miss: the send began at the very moment of that ack": (
        History().send(0, 5, sent=0, done=2).send(1, 3, sent=2, done=4),
        [],
    ),
    "near miss: above": (History().send(0, 5, sent=0, done=1).send(1, 6, sent=2, done=3), []),
    "near miss: another partition": (
        History().send(0, 5, sent=0, done=1).send(1, 3, partition=1, sent=2, done=3),
        [],
    ),
    "near miss: what stood before was not acked": (
        History().send(0, outcome="info", sent=0, done=1).send(1, 0, sent=2, done=3),
        [],
    ),
    "near miss: acks that name no offset": (
        History()
        .send(0, sent=0, done=1)
        .send(1, sent=2, done=3)
        .send(2, 5, partition=-1, sent=4, done=5)
        .send(3, 4, partition=-1, sent=6, done=7),
        [],
    ),
    "near miss: an offset of a failed send": (
        History().send(0, 5, outcome="fail", sent=0, done=1).send(1, 3, sent=2, done=3),
        [],
    ),
    "near miss: another topic": (History().send(0, 5, sent=0, done=1).send(1, 3, topic=1, sent=2, done=3), []),
}


@pytest.mark.parametrize("case", CASES)
def test_realtime_order(case: str) -> None:
    assert found("realtime_order", case, CASES, *COLUMNS) == CASES[case][1]
