"""key_reordered: a group is given a later message of a key first."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("group", "key", "seq", "partition", "late_ms")


def _sent(*keys: int, partitions: tuple[int, ...] = (0, 4, 4, 4)) -> History:
    history = History()
    for seq, key in enumerate(keys):
        history.send(seq, seq, key=key, partition=partitions[seq])
    return history


CASES: Cases = {
    "the new partition first": (
        _sent(7, 7).read(1, 1, partition=4, when=50).read(0, 0, partition=0, when=80),
        [(0, 7, 0, 0, 30.0)],
    ),
    "by the first of several": (
        _sent(7, 7, 7).read(1, 1, partition=4, when=50).read(2, 2, partition=4, when=60).read(0, 0, when=80),
        [(0, 7, 0, 0, 30.0)],
    ),
    "in one group of two": (
        _sent(7, 7)
        .read(0, 0, when=10)
        .read(1, 1, partition=4, when=20)
        .read(1, 1, partition=4, consumer=1, group=1, when=50)
        .read(0, 0, consumer=1, group=1, when=51),
        [(1, 7, 0, 0, 1.0)],
    ),
    "by one of two producers": (
        _sent(7, 7)
        .read(0, 0, when=10)
        .read(1, 1, partition=4, when=20)
        .send(0, 2, key=7, producer=1)
        .send(1, 2, key=7, producer=1, partition=4)
        .read(2, 1, producer=1, partition=4, when=50)
        .read(2, 0, producer=1, when=80),
        [(0, 7, 0, 0, 30.0)],
    ),
    "near miss: in order": (_sent(7, 7).read(0, 0, when=50).read(1, 1, partition=4, when=80), []),
    "near miss: at the same moment": (_sent(7, 7).read(0, 0, when=50).read(1, 1, partition=4, when=50), []),
    "near miss: given again later": (
        _sent(7, 7).read(0, 0, when=50).read(1, 1, partition=4, when=80).read(0, 0, when=90),
        [],
    ),
    "near miss: another key": (_sent(7, 8).read(1, 1, partition=4, when=50).read(0, 0, when=80), []),
    "near miss: another producer's message of that key": (
        _sent(7).send(0, 0, key=7, producer=1, partition=4).read(0, 0, producer=1, partition=4).read(0, 0, when=80),
        [],
    ),
    "near miss: another producer's message of that key, with a higher number": (
        _sent(7)
        .send(5, 0, key=7, producer=1, partition=4)
        .read(0, 5, producer=1, partition=4, when=50)
        .read(0, 0, when=80),
        [],
    ),
    "near miss: a message of that key in another topic": (
        _sent(7).send(1, 0, key=7, topic=1, partition=4).read(0, 1, topic=1, partition=4, when=50).read(0, 0, when=80),
        [],
    ),
    "near miss: never given": (_sent(7, 7).read(1, 1, partition=4, when=50), []),
    "near miss: no key": (
        History().send(0, 0).send(1, 0, partition=4).read(0, 1, partition=4, when=50).read(0, 0, when=80),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_key_reordered(case: str) -> None:
    assert found("key_reordered", case, CASES, *COLUMNS) == CASES[case][1]
