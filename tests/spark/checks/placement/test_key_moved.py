"""key_moved: a key in more than one partition."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("key", "partition_before", "partition", "seq_before", "seq")


def _sent(*sends: tuple[int, int]) -> History:
    """(key, partition) of each send, in order."""
    history = History()
    for seq, (key, partition) in enumerate(sends):
        history.send(seq, seq, key=key, partition=partition)
    return history


CASES: Cases = {
    "one step": (_sent((7, 0), (7, 0), (7, 4)), [(7, 0, 4, 1, 2)]),
    "there and back": (_sent((7, 0), (7, 4), (7, 0)), [(7, 0, 4, 0, 1), (7, 4, 0, 1, 2)]),
    "one key of two": (_sent((7, 0), (8, 1), (7, 4), (8, 1)), [(7, 0, 4, 0, 2)]),
    "near miss: each key stays": (_sent((7, 0), (8, 1), (7, 0), (8, 1)), []),
    "near miss: the same key of another producer": (
        History().send(0, 0, key=7).send(0, 0, key=7, producer=1, partition=1),
        [],
    ),
    "near miss: the same key in another topic": (
        History().send(0, 0, key=7).send(1, 0, key=7, topic=1, partition=4),
        [],
    ),
    "near miss: never acknowledged there": (
        History().send(0, 0, key=7).send(1, None, key=7, partition=4, outcome="fail"),
        [],
    ),
    "near miss: no key": (History().send(0, 0).send(1, 0, partition=4), []),
}


@pytest.mark.parametrize("case", CASES)
def test_key_moved(case: str) -> None:
    assert found("key_moved", case, CASES, *COLUMNS) == CASES[case][1]
