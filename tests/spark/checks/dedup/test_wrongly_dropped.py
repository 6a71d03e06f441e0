"""wrongly_dropped: a message of the healed log that a receiver never accepted."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("consumer", "seq", "partition", "offset", "dropped")


def _sent() -> History:
    return History(topics=("orders", "other")).send(0, 0).send(1, 1).log(0, 0).log(1, 1).receiver("ids")


CASES: Cases = {
    "new, and taken for a copy": (_sent().received(0, 0).received(1, 1, accepted=False), [(0, 1, 0, 1, 1)]),
    "another producer's message of that number was taken": (
        _sent().send(0, 2, producer=1).log(2, 0, producer=1).received(0, 0).received(1, 1),
        [(0, 0, 0, 2, 0)],
    ),
    "dropped each time that it came": (
        _sent().log(2, 1).received(0, 0).received(1, 1, accepted=False).received(2, 1, accepted=False),
        [(0, 1, 0, 1, 2)],
    ),
    "never read": (_sent().received(1, 1), [(0, 0, 0, 0, 0)]),
    "another receiver's work": (
        _sent().receiver("ids").received(0, 0).received(1, 1).received(0, 0, consumer=1),
        [(1, 1, 0, 1, 0)],
    ),
    "another producer's number": (
        _sent().received(0, 0).received(1, 1, accepted=False).received(1, 1, producer=1),
        [(0, 1, 0, 1, 1)],
    ),
    "once, though it stands in two partitions": (
        _sent().log(0, 1, partition=1).received(0, 0).received(1, 1, accepted=False),
        [(0, 1, 0, 1, 1)],
    ),
    "where it stands first": (
        _sent().log(2, 2).log(1, 2, partition=1).received(0, 0).received(1, 1),
        [(0, 2, 0, 2, 0)],
    ),
    "near miss: in two partitions, and taken from one": (
        _sent().log(0, 1, partition=1).received(0, 0).received(1, 1, accepted=False).received(0, 1, partition=1),
        [],
    ),
    "near miss: all taken": (_sent().received(0, 0).received(1, 1), []),
    "near miss: the copy was dropped, the message was not": (
        _sent().log(2, 1).received(0, 0).received(1, 1).received(2, 1, accepted=False),
        [],
    ),
    "near miss: dropped first, and taken when it came again": (
        _sent().log(2, 1).received(0, 0).received(1, 1, accepted=False).received(2, 1),
        [],
    ),
    "near miss: not in the healed log": (
        _sent().send(2, 2).received(0, 0).received(1, 1).received(2, 2, accepted=False),
        [],
    ),
    "near miss: of a topic that it does not read": (
        _sent().send(2, 0, topic=1).log(0, 2, topic=1).received(0, 0).received(1, 1),
        [],
    ),
    "near miss: a record without a number": (_sent().log(2, -1, producer=-1).received(0, 0).received(1, 1), []),
}


@pytest.mark.parametrize("case", CASES)
def test_wrongly_dropped(case: str) -> None:
    assert found("wrongly_dropped", case, CASES, *COLUMNS) == CASES[case][1]
