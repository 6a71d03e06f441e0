"""site_gap: from the last event at one site to the first at the other."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("what", "group", "from_site", "to_site", "ms", "again")
TOPICS = ("orders", "dc2:dc1.orders", "dc2:orders")


def _history() -> History:
    return History(topics=TOPICS)


CASES: Cases = {
    "writers move": (
        _history().send(0, 0, done=10).send(1, 1, done=20).send(0, 0, producer=1, topic=2, sent=45, done=50),
        [("writes", None, "dc1", "dc2", 30.0, None)],
    ),
    "there and back": (
        _history().send(0, 0, done=10).send(0, 0, producer=1, topic=2, sent=20, done=50).send(1, 1, sent=60, done=65),
        [("writes", None, "dc1", "dc2", 40.0, None), ("writes", None, "dc2", "dc1", 15.0, None)],
    ),
    "what failed is no write": (
        _history()
        .send(0, 0, done=10)
        .send(1, None, outcome="info", done=40)
        .send(0, 0, producer=1, topic=2, sent=45, done=50),
        [("writes", None, "dc1", "dc2", 40.0, None)],
    ),
    "readers move, and read one once more": (
        _history().read(0, 0, when=10).read(1, 1, when=20).read(1, 1, topic=1, when=70).read(2, 2, topic=1, when=80),
        [("reads", 0, "dc1", "dc2", 50.0, 1)],
    ),
    "readers move, and read two once more": (
        _history().read(0, 0, when=10).read(1, 1, when=20).read(0, 0, topic=1, when=70).read(1, 1, topic=1, when=80),
        [("reads", 0, "dc1", "dc2", 50.0, 2)],
    ),
    "each group by itself": (
        _history()
        .read(0, 0, when=10)
        .read(0, 0, topic=1, when=30)
        .read(0, 0, when=20, group=1, consumer=1)
        .read(1, 1, when=40, group=1, consumer=1),
        [("reads", 0, "dc1", "dc2", 20.0, 1)],
    ),
    "two groups, each of which reads one once more": (
        _history()
        .read(0, 0, when=10)
        .read(0, 0, topic=1, when=30)
        .read(0, 0, when=10, group=1, consumer=1)
        .read(0, 0, topic=1, when=40, group=1, consumer=1),
        [("reads", 0, "dc1", "dc2", 20.0, 1), ("reads", 1, "dc1", "dc2", 30.0, 1)],
    ),
    "there and back, and all that was read at either": (
        _history().read(0, 0, when=10).read(0, 1, topic=2, when=20).read(0, 0, when=30).read(0, 1, when=40),
        [("reads", 0, "dc1", "dc2", 10.0, 0), ("reads", 0, "dc2", "dc1", 10.0, 2)],
    ),
    "at equal times dc1 comes first": (
        _history().read(0, 0, topic=2, when=10).read(0, 0, when=10).read(1, 1, when=10),
        [("reads", 0, "dc1", "dc2", 0.0, 1)],
    ),
    "near miss: records without numbers look alike": (
        _history().read(0, -1, producer=-1, when=10).read(0, -1, producer=-1, topic=1, when=30),
        [("reads", 0, "dc1", "dc2", 20.0, 0)],
    ),
    "near miss: two topics of one site": (
        _history().send(0, 0, topic=2, done=10).read(0, 0, topic=2, when=20).read(0, 5, topic=1, when=30),
        [],
    ),
    "near miss: read twice at one site": (_history().read(0, 0, when=10).read(0, 0, when=20), []),
    "near miss: nothing was read again": (
        _history().read(0, 0, when=10).read(1, 1, topic=1, when=30),
        [("reads", 0, "dc1", "dc2", 20.0, 0)],
    ),
    "near miss: another group had read it": (
        _history()
        .read(0, 0, when=5)
        .read(5, 5, when=10, group=1, consumer=1)
        .read(0, 0, topic=1, when=30, group=1, consumer=1),
        [("reads", 1, "dc1", "dc2", 20.0, 0)],
    ),
    "near miss: another producer's message of that number was read": (
        _history().read(0, 0, when=10).read(0, 0, producer=1, topic=1, when=30),
        [("reads", 0, "dc1", "dc2", 20.0, 0)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_site_gap(case: str) -> None:
    assert found("site_gap", case, CASES, *COLUMNS) == CASES[case][1]
