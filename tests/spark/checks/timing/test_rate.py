"""rate: each second of the load, and the seconds below the line."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("second", "sent", "acked", "read", "below")
CASES: Cases = {
    "a second in which nothing happened is below the line": (
        History(settings={"rate_line": 1})
        .send(0, 0, sent=0, done=1)
        .send(1, 1, sent=2500, done=2501)
        .read(0, 0, when=9),
        [(0, 1, 1, 1, False), (1, 0, 0, 0, True), (2, 1, 1, 0, False)],
    ),
    "below the line by one": (
        History(settings={"rate_line": 2})
        .send(0, 0, sent=0)
        .send(1, 1, sent=1000)
        .send(2, 2, sent=1500)
        .send(3, 3, sent=2000),
        [(0, 1, 1, 0, True), (1, 2, 2, 0, False), (2, 1, 1, 0, False)],
    ),
    "an outcome after the last send": (
        History().send(0, 0, sent=0, done=2100),
        [(0, 1, 0, 0, False), (2, 0, 1, 0, False)],
    ),
    "below the line in the last full second": (
        History(settings={"rate_line": 2})
        .send(0, 0, sent=0)
        .send(1, 1, sent=500)
        .send(2, 2, sent=1000)
        .send(3, 3, sent=2000),
        [(0, 2, 2, 0, False), (1, 1, 1, 0, True), (2, 1, 1, 0, False)],
    ),
    "never heard of again": (
        History().send(0, outcome="info", sent=0, never_done=True),
        [(0, 1, 0, 0, False)],
    ),
    "near miss: read before the first send, as others had sent before": (
        History(settings={"rate_line": 1}).send(0, 0, sent=0).send(1, 1, sent=1000).read(0, 0, when=-500),
        [(-1, 0, 0, 1, False), (0, 1, 1, 0, False), (1, 1, 1, 0, False)],
    ),
    "near miss: read, and nothing was sent": (History().read(0, 0), []),
    "near miss: no line, nothing below it": (
        History().send(0, 0, sent=0, done=1).send(1, 1, sent=2000, done=2001),
        [(0, 1, 1, 0, False), (1, 0, 0, 0, False), (2, 1, 1, 0, False)],
    ),
    "near miss: an error is sent and not acknowledged": (
        History().send(0, outcome="fail", sent=0, done=1),
        [(0, 1, 0, 0, False)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rate(case: str) -> None:
    assert found("rate", case, CASES, *COLUMNS) == CASES[case][1]
