"""duplicated: one message at several places of the final log."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("producer", "seq", "copies", "partitions", "topic", "partition", "first_offset", "last_offset")
CASES: Cases = {
    "twice in one partition": (History().send(0, 0).log(0, 0).log(1, 0), [(0, 0, 2, 1, 0, 0, 0, 1)]),
    "once in each of two partitions": (
        History().send(0, 0).log(0, 0).log(0, 0, partition=1),
        [(0, 0, 2, 2, 0, 0, 0, 0)],
    ),
    "in two topics, at other offsets": (
        History().send(0, 2).log(2, 0).log(5, 0, topic=1, partition=1),
        [(0, 0, 2, 2, 0, 0, 2, 5)],
    ),
    "in two partitions, earlier in the second": (
        History().send(0, 5).log(5, 0).log(2, 0, partition=1),
        [(0, 0, 2, 2, 0, 0, 5, 2)],
    ),
    "in two topics, in an earlier partition of the second": (
        History().send(0, 5, partition=1).log(5, 0, partition=1).log(7, 0, topic=1),
        [(0, 0, 2, 2, 0, 1, 5, 7)],
    ),
    "three times": (History().send(0, 0).log(0, 0).log(1, 0).log(2, 0), [(0, 0, 3, 1, 0, 0, 0, 2)]),
    "a send of unknown outcome that was written twice": (
        History().send(0, outcome="info").log(0, 0).log(1, 0),
        [(0, 0, 2, 1, 0, 0, 0, 1)],
    ),
    "near miss: the same number of two producers": (
        History().send(0, 0).send(0, 1, producer=1).log(0, 0).log(1, 0, producer=1),
        [],
    ),
    "near miss: read twice, there once": (History().send(0, 0).log(0, 0).read(0, 0).read(0, 0), []),
    "near miss: two unreadable records": (
        History().send(0, 0).log(0, 0).log(1, -1, producer=-1).log(2, -1, producer=-1),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_duplicated(case: str) -> None:
    assert found("duplicated", case, CASES, *COLUMNS) == CASES[case][1]
