"""mirror_differs: other records, more or fewer records, or another order."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

BIG = 2**63 - 1
COLUMNS = ("difference", "seq", "offset", "mirror_offset")


def _sent(count: int = 3) -> History:
    history = History(topics=("orders", "dc2:dc1.orders"))
    for seq in range(count):
        history.send(seq, seq).log(seq, seq)
    return history


def _expired() -> History:
    """Two messages; retention removed the first."""
    return History(topics=("orders", "dc2:dc1.orders")).send(0, 0).send(1, 1).log(1, 1).end(2, log_start=1)


def _two_mirrors(history: History) -> History:
    history.mirrors |= {1: 0, 3: 2}
    return history


CASES: Cases = {
    "one that the mirror lacks": (_sent().copied(0, 0).copied(1, 2), [("missing", 1, 1, None)]),
    "the last one": (_sent().copied(0, 0).copied(1, 1), [("missing", 2, 2, None)]),
    "a mirror that is empty": (_sent(1).copied(0, 9, partition=1).log(5, 9, partition=1), [("missing", 0, 0, None)]),
    "one that the original never held": (
        _sent(1).copied(0, 0).copied(1, 7),
        [("extra", 7, None, 1)],
    ),
    "copied twice": (_sent(2).copied(0, 0).copied(1, 0).copied(2, 1), [("extra", 0, 0, 0)]),
    "one of two copies": (_sent(1).log(1, 0).copied(0, 0), [("missing", 0, 0, 0)]),
    "two changed places": (
        _sent().copied(0, 0).copied(1, 2).copied(2, 1),
        [("out of order", 1, 1, 2)],
    ),
    "the very first changed places": (
        _sent().copied(0, 1).copied(1, 0).copied(2, 2),
        [("out of order", 0, 0, 1)],
    ),
    "in another partition": (
        _sent(1).log(0, 5, partition=1).copied(0, 5, partition=1).copied(1, 0, partition=1),
        [("extra", 0, None, 1), ("missing", 0, 0, None)],
    ),
    "in two partitions, and both in one partition of the mirror": (
        _sent(1).log(0, 0, partition=1).copied(0, 0).copied(1, 0),
        [("extra", 0, 0, 0), ("missing", 0, 0, None)],
    ),
    "in two topics, and both in the mirror of one": (
        _two_mirrors(_sent(1)).log(0, 0, topic=2).copied(0, 0).copied(1, 0),
        [("extra", 0, 0, 0), ("missing", 0, 0, None)],
    ),
    "that of one producer twice, and none of the other": (
        _sent(1).log(1, 0, producer=1).copied(0, 0).copied(1, 0),
        [("extra", 0, 0, 0), ("missing", 0, 1, None)],
    ),
    "in the mirror of another topic": (
        History(topics=("orders", "dc2:dc1.orders", "events", "dc2:dc1.events"), mirrors={1: 0, 3: 2})
        .log(0, 0)
        .copied(0, 0, topic=3),
        [("extra", 0, None, 0), ("missing", 0, 0, None)],
    ),
    "fewer records that are not ours": (
        _sent(1).copied(0, 0).log(1, -1, producer=-1).log(2, -1, producer=-1).copied(1, -1, producer=-1),
        [("missing", -1, 1, 1)],
    ),
    "in another partition than the one from which retention took it": (
        _expired().copied(0, 1).copied(0, 0, partition=1),
        [("extra", 0, None, 0)],
    ),
    "in the mirror of another topic than the one from which retention took it": (
        _two_mirrors(_expired()).copied(0, 1).copied(0, 0, topic=3),
        [("extra", 0, None, 0)],
    ),
    "of another producer than the one of which retention took that number": (
        _expired().copied(0, 1).copied(1, 0, producer=1),
        [("extra", 0, None, 1)],
    ),
    "what it holds was changed": (
        _sent(0).log(0, 0, digest=5).log(1, 1, digest=-6).copied(0, 0, digest=5).copied(1, 1, digest=6),
        [("changed", 1, 1, 1)],
    ),
    "one of two copies was changed": (
        _sent(0).log(0, 0, digest=5).log(1, 0, digest=5).copied(0, 0, digest=5).copied(1, 0, digest=6),
        [("changed", 0, 0, 0)],
    ),
    "a stranger's record was changed": (
        _sent(0)
        .log(0, -1, producer=-1, digest=BIG)
        .log(1, -1, producer=-1, digest=BIG)
        .copied(0, -1, producer=-1, digest=BIG)
        .copied(1, -1, producer=-1, digest=5),
        [("changed", -1, 0, 0)],
    ),
    "copied twice is no change": (
        _sent(0).log(0, 0, digest=5).copied(0, 0, digest=5).copied(1, 0, digest=5),
        [("extra", 0, 0, 0)],
    ),
    "near miss: they hold the same": (
        _sent(0).log(0, 0, digest=BIG).log(1, 1, digest=-BIG).copied(0, 0, digest=BIG).copied(1, 1, digest=-BIG),
        [],
    ),
    "near miss: strangers' records in another order": (
        _sent(0)
        .log(0, -1, producer=-1, digest=BIG)
        .log(1, -1, producer=-1, digest=BIG - 1)
        .copied(0, -1, producer=-1, digest=BIG - 1)
        .copied(1, -1, producer=-1, digest=BIG),
        [],
    ),
    "near miss: the same": (_sent().copied(0, 0).copied(1, 1).copied(2, 2), []),
    "near miss: at other offsets": (_sent().copied(10, 0).copied(12, 1).copied(17, 2), []),
    "near miss: each partition in its own order": (
        _sent(0).log(5, 0).copied(0, 0).log(0, 1, partition=1).copied(1, 1, partition=1),
        [],
    ),
    "near miss: each topic in its own order": (
        _two_mirrors(_sent(0)).log(5, 0).copied(0, 0).log(0, 1, topic=2).copied(1, 1, topic=3),
        [],
    ),
    "near miss: missing puts nothing out of order": (
        _sent(4).copied(0, 0).copied(1, 2).copied(2, 3),
        [("missing", 1, 1, None)],
    ),
    "near miss: both hold it twice": (_sent(1).log(1, 0).copied(0, 0).copied(1, 0), []),
    "near miss: retention took it from the original": (
        _expired().copied(0, 0).copied(1, 1),
        [],
    ),
    "near miss: no mirror at all": (_sent(), []),
    "near miss: a topic without a mirror": (
        _sent(1).copied(0, 0).send(5, 0, topic=2).log(0, 5, topic=2),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_mirror_differs(case: str) -> None:
    assert found("mirror_differs", case, CASES, *COLUMNS) == CASES[case][1]
