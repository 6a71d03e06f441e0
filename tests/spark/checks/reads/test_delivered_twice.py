"""delivered_twice: a group is given one offset more than once."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History, at

COLUMNS = ("group", "offset", "times", "consumers", "first_ns", "last_ns")


CASES: Cases = {
    "twice by one consumer": (History().read(0, 0).read(0, 0, assignment=2), [(0, 0, 2, 1, at(1), at(2))]),
    "by two consumers": (History().read(0, 0).read(0, 0, consumer=1), [(0, 0, 2, 2, at(1), at(2))]),
    "three times": (History().read(3, 0).read(3, 0).read(3, 0, consumer=2), [(0, 3, 3, 2, at(1), at(3))]),
    "near miss: two groups": (History().read(0, 0).read(0, 0, group=1, consumer=1), []),
    "near miss: two partitions": (History().read(0, 0).read(0, 1, partition=1), []),
    "near miss: two topics": (History().read(0, 0).read(0, 1, topic=1), []),
    "near miss: a copy at another offset": (History().read(0, 0).read(1, 0), []),
}


@pytest.mark.parametrize("case", CASES)
def test_delivered_twice(case: str) -> None:
    assert found("delivered_twice", case, CASES, *COLUMNS) == CASES[case][1]
