"""mirror_layout: the name and the offsets of a mirror, which may differ."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("topic", "partition", "mirror", "records", "mirror_records", "least_shift", "most_shift")

CASES: Cases = {
    "the same offsets": (History().log(0, 0).log(1, 1).copied(0, 0).copied(1, 1), [(0, 0, 1, 2, 2, 0, 0)]),
    "each partition by itself": (
        History().log(0, 0).log(0, 1, partition=1).copied(3, 0).copied(0, 1, partition=1),
        [(0, 0, 1, 1, 1, 3, 3), (0, 1, 1, 1, 1, 0, 0)],
    ),
    "each topic by itself": (
        History(topics=("orders", "dc2:orders", "payments", "dc2:payments"), mirrors={1: 0, 3: 2})
        .log(0, 0)
        .copied(3, 0)
        .log(0, 1, topic=2)
        .copied(5, 1, topic=3),
        [(0, 0, 1, 1, 1, 3, 3), (2, 0, 3, 1, 1, 5, 5)],
    ),
    "a shift that grew": (
        History().log(5, 0).log(6, 1).copied(0, 0).copied(4, 1),
        [(0, 0, 1, 2, 2, -5, -2)],
    ),
    "records of others, of which only the second was copied": (
        History().log(0, -1, producer=-1).log(1, 0).log(2, -1, producer=-1).copied(0, 0).copied(1, -1, producer=-1),
        [(0, 0, 1, 3, 2, -1, -1)],
    ),
    "near miss: nothing is mirrored": (History().log(0, 0), []),
}


@pytest.mark.parametrize("case", CASES)
def test_mirror_layout(case: str) -> None:
    assert found("mirror_layout", case, CASES, *COLUMNS) == CASES[case][1]
