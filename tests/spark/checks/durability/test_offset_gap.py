"""offset_gap: offsets of a plain topic without records."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

BLOCK = 1 << 16

COLUMNS = ("partition", "first_missing", "missing")
CASES: Cases = {
    "one offset in the middle": (History().log(0, 0).log(2, 2), [(0, 1, 1)]),
    "several, and another hole": (History().log(0, 0).log(4, 1).log(5, 2).log(7, 3), [(0, 1, 3), (0, 6, 1)]),
    "two offsets and two records": (History().log(0, 0).log(3, 1), [(0, 1, 2)]),
    "at the beginning": (History().log(2, 0).end(3), [(0, 0, 2)]),
    "at the end": (History().log(0, 0).end(3), [(0, 1, 2)]),
    "in an empty log": (History().end(3, log_start=1), [(0, 1, 2)]),
    "between two blocks": (
        History().log(BLOCK - 2, 0).log(BLOCK, 1).end(BLOCK + 1, log_start=BLOCK - 2),
        [(0, BLOCK - 1, 1)],
    ),
    "near miss: dense over two blocks": (
        History().log(BLOCK - 1, 0).log(BLOCK, 1).end(BLOCK + 1, log_start=BLOCK - 1),
        [],
    ),
    "near miss: dense from the log start": (History().log(5, 0).log(6, 1).end(7, log_start=5), []),
    "near miss: markers in a transactional topic": (History().log(0, 0).log(2, 1).end(4, transactional=True), []),
    "near miss: holes in a compacted topic": (History().log(0, 0).log(2, 1).end(3, compacted=True), []),
    "near miss: empty": (History().end(0), []),
    "near miss: two partitions, each dense": (History().log(0, 0).log(0, 1, partition=1).log(1, 2), []),
    "near miss: markers in a transactional topic beside a plain one": (
        History().log(0, 0).log(0, 1, topic=1).log(2, 2, topic=1).end(4, topic=1, transactional=True),
        [],
    ),
    "near miss: holes in a compacted partition beside a plain one": (
        History().log(0, 0).log(0, 1, partition=1).log(2, 2, partition=1).end(3, partition=1, compacted=True),
        [],
    ),
    "where another partition has none": (
        History().log(0, 0).log(2, 1).log(0, 2, partition=1).log(1, 3, partition=1).log(2, 4, partition=1),
        [(0, 1, 1)],
    ),
    "where another topic has none": (
        History().log(0, 0).log(2, 1).log(0, 2, topic=1).log(1, 3, topic=1).log(2, 4, topic=1),
        [(0, 1, 1)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_offset_gap(case: str) -> None:
    assert found("offset_gap", case, CASES, *COLUMNS) == CASES[case][1]
