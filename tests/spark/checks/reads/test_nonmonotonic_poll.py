"""nonmonotonic_poll: a consumer is given an offset again under the same assignment."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("consumer", "previous_offset", "offset")
CASES: Cases = {
    "the same offset again": (History().log(0, 0).read(0, 0).read(0, 0), [(0, 0, 0)]),
    "a step back": (History().log(0, 0).log(1, 1).read(0, 0).read(1, 1).read(0, 0).read(1, 1), [(0, 1, 0)]),
    "near miss: after a rebalance": (History().log(0, 0).read(0, 0).read(0, 0, assignment=2), []),
    "near miss: by another consumer": (History().log(0, 0).read(0, 0).read(0, 0, consumer=1), []),
    "near miss: the same offset of another partition": (History().log(0, 0).read(0, 0).read(0, 5, partition=1), []),
    "near miss: the same offset of another topic": (History().log(0, 0).read(0, 0).read(0, 5, topic=1), []),
    "near miss: a jump ahead": (History().log(0, 0).read(0, 0).read(5, 1), []),
    "near miss: rising": (History().log(0, 0).log(1, 1).read(0, 0).read(1, 1), []),
}


@pytest.mark.parametrize("case", CASES)
def test_nonmonotonic_poll(case: str) -> None:
    assert found("nonmonotonic_poll", case, CASES, *COLUMNS) == CASES[case][1]
