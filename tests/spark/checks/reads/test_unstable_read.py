"""unstable_read: a consumer is given a record that does not last."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("offset", "seq", "now_seq")
CASES: Cases = {
    "read, then overwritten": (History().send(0, 0).log(0, 9).read(0, 0), [(0, 0, 9)]),
    "read, then truncated": (History().send(0, 5).log(0, 9).read(5, 0), [(5, 0, None)]),
    "the same number of another producer stands there": (
        History().send(0, 0).log(0, 0, producer=1).read(0, 0),
        [(0, 0, 0)],
    ),
    "every consumer that read it is a witness": (
        History().send(0, 0).log(0, 9).read(0, 0).read(0, 0, consumer=1),
        [(0, 0, 9), (0, 0, 9)],
    ),
    "gone at the log start, not below it": (
        History().send(0, 5).log(6, 9).end(7, log_start=5).read(5, 0),
        [(5, 0, None)],
    ),
    "near miss: still there": (History().send(0, 0).log(0, 0).read(0, 0), []),
    "near miss: below the log start": (History().send(0, 4).log(5, 9).end(6, log_start=5).read(4, 0), []),
    "near miss: compacted away": (History().send(0, 0).log(1, 9).end(2, compacted=True).read(0, 0), []),
    "compaction takes nothing at or past the high watermark": (
        History().send(0, 2).log(1, 9).end(2, compacted=True).read(2, 0),
        [(2, 0, None)],
    ),
    "near miss: just below it": (History().send(0, 1).log(0, 9).end(2, compacted=True).read(1, 0), []),
    "from a partition whose end is unknown": (History().send(0, 0).log(0, 0).read(3, 5, partition=4), [(3, 5, None)]),
    "near miss: the same offset of another topic": (
        History().send(0, 0).log(0, 0).log(0, 9, topic=1).read(0, 0),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_unstable_read(case: str) -> None:
    assert found("unstable_read", case, CASES, *COLUMNS) == CASES[case][1]
