"""duplicate_accepted: a receiver accepts a message twice."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("consumer", "seq", "times", "partition", "first_offset", "last_offset")


def _sent() -> History:
    return History().send(0, 0).send(1, 1).log(0, 0).log(1, 1).log(2, 0).receiver("ids").receiver("ids")


CASES: Cases = {
    "a copy at another place": (_sent().received(0, 0).received(2, 0), [(0, 0, 2, 0, 0, 2)]),
    "the same place twice": (_sent().received(0, 0).received(0, 0).received(0, 0), [(0, 0, 3, 0, 0, 0)]),
    "a copy in another partition": (_sent().received(0, 0).received(0, 0, partition=1), [(0, 0, 2, 0, 0, 0)]),
    "a copy in another partition, and earlier there": (
        _sent().received(5, 0).received(2, 0, partition=1),
        [(0, 0, 2, 0, 5, 2)],
    ),
    "near miss: the copy was dropped": (_sent().received(0, 0).received(2, 0, accepted=False), []),
    "near miss: dropped twice": (_sent().received(0, 0, accepted=False).received(2, 0, accepted=False), []),
    "near miss: another receiver accepted the other copy": (_sent().received(0, 0).received(2, 0, consumer=1), []),
    "near miss: another producer's": (_sent().received(0, 0).received(1, 0, producer=1), []),
    "near miss: records without numbers look alike": (
        _sent().received(0, -1, producer=-1).received(1, -1, producer=-1),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_duplicate_accepted(case: str) -> None:
    assert found("duplicate_accepted", case, CASES, *COLUMNS) == CASES[case][1]
