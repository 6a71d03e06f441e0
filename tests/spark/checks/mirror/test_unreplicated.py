"""unreplicated: acknowledged at one site, and missing from the mirror when the producers moved to the other."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("seq", "offset", "copied_to", "mirror_offset", "explained")
TOPICS = ("orders", "dc2:dc1.orders", "dc2:orders", "other")


def _moved(*copies: int, mirror_end: int | None = 2, seen: float = 90) -> History:
    """Four messages by the first writer, acknowledged at dc1 by 4; at 100 the first is acknowledged at dc2.

    In the end the mirror holds `copies`; shortly before the move its log was seen to end at `mirror_end`.
    """
    history = History(topics=TOPICS)
    for seq in range(4):
        history.send(seq, seq).log(seq, seq)
    for offset, seq in enumerate(copies):
        history.copied(offset, seq)
    if mirror_end is not None:
        history.state(seen, 4, leader=4, epoch=0, topic=1, high_watermark=mirror_end)
    return history.send(0, 0, producer=1, topic=2, sent=99, done=100).log(0, 0, producer=1, topic=2)


def _in_three_places() -> History:
    """All was there in time, in another partition and another topic too."""
    history = _moved(0, 1, 2, 3, mirror_end=4)
    history.topics = (*TOPICS, "events", "dc2:dc1.events")
    history.mirrors = {1: 0, 5: 4}
    for seq, topic, mirror, partition in ((4, 0, 1, 1), (5, 4, 5, 0)):
        history.send(seq, 0, topic=topic, partition=partition, sent=50, done=60)
        history.log(0, seq, topic=topic, partition=partition).copied(0, seq, topic=mirror, partition=partition)
        history.state(90, 4, leader=4, epoch=0, topic=mirror, partition=partition, high_watermark=4)
    return history


CASES: Cases = {
    "near miss: the mirror held everything, in another partition and topic too": (_in_three_places(), []),
    "two that came to the mirror later": (
        _moved(0, 1, 2, 3),
        [(2, 2, 1, 2, True), (3, 3, 1, 3, True)],
    ),
    "two that never came": (_moved(0, 1), [(2, 2, 1, None, True), (3, 3, 1, None, True)]),
    "one that the mirror passed over": (
        _moved(0, 2, 3, mirror_end=3),
        [(1, 1, 3, None, False)],
    ),
    "one passed over, and one of its lag": (
        _moved(0, 2, mirror_end=2),
        [(1, 1, 2, None, False), (3, 3, 2, None, True)],
    ),
    "one whose place another took": (
        _moved(0, 1, 2, 3, mirror_end=4).send(4, 3, sent=50, done=60),
        [(4, 3, 3, None, False)],
    ),
    "acknowledged at the moment of the move": (
        _moved(0, 1, 2, 3, mirror_end=4).send(4, 4, sent=50, done=100).log(4, 4),
        [(4, 4, 3, None, True)],
    ),
    "the mirror had nothing yet": (
        _moved(0, 1, 2, 3, mirror_end=0),
        [(0, 0, -1, 0, True), (1, 1, -1, 1, True), (2, 2, -1, 2, True), (3, 3, -1, 3, True)],
    ),
    "no observation of the mirror": (
        _moved(0, 1, mirror_end=None),
        [(0, 0, -1, 0, True), (1, 1, -1, 1, True), (2, 2, -1, None, True), (3, 3, -1, None, True)],
    ),
    "near miss: a topic that has no mirror": (
        _moved(0, 1, 2, 3, mirror_end=4).send(4, 0, topic=3, sent=50, done=60).log(0, 4, topic=3),
        [],
    ),
    "the newest look before the move counts": (
        _moved(0, 1, 2, 3, mirror_end=4, seen=10).state(80, 4, leader=4, epoch=0, topic=1, high_watermark=3),
        [(3, 3, 2, 3, True)],
    ),
    "an answer that came after the move": (
        _moved(0, 1, 2, 3, mirror_end=3).state(95, 4, leader=4, epoch=0, topic=1, high_watermark=4, took=5.001),
        [(3, 3, 2, 3, True)],
    ),
    "an old leader that has not learnt of the new one": (
        _moved(0, 1, 2, 3, mirror_end=4, seen=95).state(80, 5, leader=5, epoch=1, topic=1, high_watermark=3),
        [(3, 3, 2, 3, True)],
    ),
    "a leader that reports no epoch": (
        _moved(0, 1, 2, 3, mirror_end=3).state(95, 5, leader=5, epoch=None, topic=1, high_watermark=4),
        [(3, 3, 2, 3, True)],
    ),
    "near miss: an answer that came at the moment of the move": (
        _moved(0, 1, 2, 3, mirror_end=3).state(95, 4, leader=4, epoch=0, topic=1, high_watermark=4, took=5),
        [],
    ),
    "near miss: a look after the move": (
        _moved(0, 1, 2, 3, mirror_end=4).state(110, 4, leader=4, epoch=0, topic=1, high_watermark=2),
        [],
    ),
    "near miss: a lagging follower of the mirror": (
        _moved(0, 1, 2, 3, mirror_end=4).state(95, 5, leader=4, epoch=0, topic=1, high_watermark=1),
        [],
    ),
    "near miss: a look at the moment of the move": (_moved(0, 1, 2, 3, mirror_end=4, seen=100), []),
    "near miss: acknowledged without an offset": (
        _moved(0, 1, 2, 3, mirror_end=4).send(4, None, sent=50, done=60).log(4, 4),
        [],
    ),
    "near miss: the mirror held everything": (_moved(0, 1, 2, 3, mirror_end=4), []),
    "near miss: the outcome was not known": (
        _moved(0, 1, 2, 3, mirror_end=4).send(4, None, outcome="info", sent=50, done=60).log(4, 4),
        [],
    ),
    "near miss: acknowledged after the move": (
        _moved(0, 1, 2, 3, mirror_end=4).send(4, 4, sent=120, done=130).log(4, 4),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_unreplicated(case: str) -> None:
    assert found("unreplicated", case, CASES, *COLUMNS) == CASES[case][1]
