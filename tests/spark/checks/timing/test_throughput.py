"""throughput: messages a second of each table of producers."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("table", "producers", "threads", "acked", "seconds", "per_second")
TABLES = [{"copies": 1, "threads": 4}, {"copies": 2, "after": 1}]

CASES: Cases = {
    "one table after the other": (
        History(producers=TABLES)
        .send(0, 0, sent=0, done=1000)
        .send(1, 1, sent=500, done=2000)
        .send(0, 2, producer=1, sent=3000, done=3500)
        .send(0, 3, producer=2, sent=3200, done=4000),
        [(1, 1, 4, 2, 2.0, 1.0), (2, 2, None, 2, 1.0, 2.0)],
    ),
    "in less than a second": (
        History(producers=TABLES).send(0, 0, sent=0, done=500),
        [(1, 1, 4, 1, 0.5, 2.0)],
    ),
    "near miss: acknowledged at once, so the rate is unknown": (
        History(producers=TABLES).send(0, 0, sent=0, done=0),
        [(1, 1, 4, 1, 0.0, None)],
    ),
    "near miss: what was not acknowledged does not count": (
        History(producers=TABLES)
        .send(0, 0, sent=0, done=1000)
        .send(1, sent=0, done=9000, outcome="info")
        .send(2, sent=0, outcome="fail"),
        [(1, 1, 4, 1, 1.0, 1.0)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_throughput(case: str) -> None:
    assert found("throughput", case, CASES, *COLUMNS) == CASES[case][1]
