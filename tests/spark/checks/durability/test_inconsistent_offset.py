"""inconsistent_offset: two messages at one offset, in any source."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("partition", "offset", "seen")


def _saw(by: str, seq: int, producer: int = 0) -> dict[str, object]:
    return {"by": by, "producer": producer, "seq": seq}


CASES: Cases = {
    "acked and overwritten": (
        History().send(0, 0).send(1, 0).log(0, 1),
        [(0, 0, [_saw("ack", 0), _saw("ack", 1), _saw("log", 1)])],
    ),
    "acked twice, past the end of the log": (
        History().send(0, 5).send(1, 5).log(0, 9),
        [(0, 5, [_saw("ack", 0), _saw("ack", 1)])],
    ),
    "read live and overwritten": (
        History().send(0, 0).log(0, 0).read(0, 7),
        [(0, 0, [_saw("ack", 0), _saw("log", 0), _saw("read", 7)])],
    ),
    "the same number of another producer": (
        History().send(0, 0).log(0, 0, producer=1),
        [(0, 0, [_saw("ack", 0), _saw("log", 0, producer=1)])],
    ),
    "an unreadable record": (
        History().send(0, 0).log(0, -1, producer=-1),
        [(0, 0, [_saw("ack", 0), _saw("log", -1, producer=-1)])],
    ),
    "a half readable record": (
        History().send(0, 0).log(0, -1).send(1, 1).log(1, 5, producer=-1),
        [
            (0, 0, [_saw("ack", 0), _saw("log", -1, producer=-1)]),
            (0, 1, [_saw("ack", 1), _saw("log", -1, producer=-1)]),
        ],
    ),
    "read at a mirror, which holds another there": (
        History().copied(0, 3).read(0, 7, topic=1),
        [(0, 0, [_saw("log", 3), _saw("read", 7)])],
    ),
    "near miss: a mirror has offsets of its own": (History().log(0, 0).copied(0, 3).read(0, 3, topic=1), []),
    "near miss: acked, read and in the log alike": (History().send(0, 0).log(0, 0).read(0, 0).read(0, 0), []),
    "near miss: the same offset of two partitions": (
        History().send(0, 0).send(1, 0, partition=1).log(0, 0).log(0, 1, partition=1),
        [],
    ),
    "near miss: a failed send has no offset": (History().send(0, outcome="fail").send(1, 0).log(0, 1), []),
    "near miss: two acks that name no offset, or no partition": (
        History().send(0).send(1).send(2, 0, partition=-1).send(3, 0, partition=-1).log(0, 9),
        [],
    ),
    "near miss: the same offset of two topics": (
        History().send(0, 0).send(1, 0, topic=1).log(0, 0).log(0, 1, topic=1),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_inconsistent_offset(case: str) -> None:
    assert found("inconsistent_offset", case, CASES, *COLUMNS) == CASES[case][1]
