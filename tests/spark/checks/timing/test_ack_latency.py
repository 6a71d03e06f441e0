"""ack_latency: percentiles of the time to an acknowledgement, from when it was due and from when it was made."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("basis", "sends", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms", "late")


def _many() -> History:
    history = History()
    for seq in range(100):
        history.send(seq, seq, sent=seq, done=seq + (64 if seq < 99 else 2048))
    return history


CASES: Cases = {
    "ninety-nine quick ones and a late one": (
        _many(),
        [("due", 100, 64.0, 64.0, 64.0, 2048.0, 2048.0, 1), ("sent", 100, 64.0, 64.0, 64.0, 2048.0, 2048.0, 1)],
    ),
    "a client that was blocked: due long before it was sent": (
        History().send(0, 0, due=0, sent=1000, done=1002),
        [("due", 1, *[999.424] * 4, 1002.0, 1), ("sent", 1, *[2.0] * 5, 0)],
    ),
    "a threshold from the scenario": (
        History(settings={"late_ms": 1.5}).send(0, 0, sent=0, done=2),
        [("due", 1, *[2.0] * 5, 1), ("sent", 1, *[2.0] * 5, 1)],
    ),
    "later than the line, and later still": (
        History(settings={"late_ms": 1.5}).send(0, 0, sent=0, done=2).send(1, 1, sent=0, done=4),
        [("due", 2, 2.0, *[4.0] * 4, 2), ("sent", 2, 2.0, *[4.0] * 4, 2)],
    ),
    "near miss: exactly on the line": (
        History(settings={"late_ms": 2}).send(0, 0, sent=0, done=2),
        [("due", 1, *[2.0] * 5, 0), ("sent", 1, *[2.0] * 5, 0)],
    ),
    "near miss: errors have no latency": (History().send(0, outcome="info", sent=0, done=5000), []),
    "the maximum is exact, within a bin too": (
        History().send(0, 0, sent=0, done=1000.001).send(1, 1, sent=0, done=1000.5),
        [("due", 2, *[999.424] * 4, 1000.5, 2), ("sent", 2, *[999.424] * 4, 1000.5, 2)],
    ),
    "sent before it was due": (
        History().send(0, 0, due=5, sent=0, done=2),
        [("due", 1, *[0.0] * 5, 0), ("sent", 1, *[2.0] * 5, 0)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_ack_latency(case: str) -> None:
    assert found("ack_latency", case, CASES, *COLUMNS) == CASES[case][1]
