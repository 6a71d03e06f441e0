"""dual_leader: two brokers claim one partition at the same time."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("one_broker", "one_epoch", "other_broker", "other_epoch")


def _old(until: int, broker: int = 1, partition: int = 0) -> History:
    history = History()
    for when in range(0, until + 1, 10):
        history.state(when, broker, leader=broker, epoch=0, partition=partition)
    return history


def _everywhere() -> History:
    history = History()
    for topic, partition in ((0, 0), (0, 1), (1, 0), (1, 1)):
        for when, broker in ((0, 1), (10, 2), (20, 1)):
            history.state(when, broker, leader=broker, epoch=broker - 1, topic=topic, partition=partition)
    return history


CASES: Cases = {
    "in two partitions of two topics at the same time": (_everywhere(), [(1, 0, 2, 1)] * 4),
    "in one epoch": (_old(60).state(41, 2, leader=2, epoch=0), [(1, 0, 2, 0)]),
    "an old leader that does not know the new one": (
        _old(60).state(41, 2, leader=2, epoch=1).state(51, 2, leader=2, epoch=1),
        [(1, 0, 2, 1)],
    ),
    "one answer between two": (_old(60).state(41, 2, leader=2, epoch=1), [(1, 0, 2, 1)]),
    "one answer between the last two": (_old(60).state(55, 2, leader=2, epoch=1), [(1, 0, 2, 1)]),
    "in an unknown epoch": (_old(60).state(41, 2, leader=2, epoch=None), [(1, 0, 2, -1)]),
    "near miss: one after the other": (_old(30).state(41, 2, leader=2, epoch=1).state(51, 2, leader=2, epoch=1), []),
    "near miss: the old leader no longer claims to lead": (
        _old(30).state(40, 1, leader=2, epoch=1).state(41, 2, leader=2, epoch=1).state(51, 2, leader=2, epoch=1),
        [],
    ),
    "near miss: the old leader gave no answer": (
        _old(30)
        .state(40, 1, leader=1, epoch=0, error="no answer")
        .state(41, 2, leader=2, epoch=1)
        .state(51, 1, leader=1, epoch=2),
        [],
    ),
    "near miss: the answers crossed": (_old(40).state(39, 2, leader=2, epoch=1, took=5), []),
    "near miss: the followers name the old leader": (_old(60).state(41, 2, leader=1, epoch=0), []),
    "near miss: another partition": (_old(60).state(41, 2, leader=2, epoch=1, partition=1), []),
    "near miss: another topic": (_old(60).state(41, 2, leader=2, epoch=1, topic=1), []),
    "while the old leader says of another partition that it does not lead it": (
        _old(60).state(34, 1, leader=2, epoch=0, partition=1).state(35, 2, leader=2, epoch=1),
        [(1, 0, 2, 1)],
    ),
    "while the old leader says of another topic that it does not lead it": (
        _old(60).state(34, 1, leader=2, epoch=0, topic=1).state(35, 2, leader=2, epoch=1),
        [(1, 0, 2, 1)],
    ),
    "near miss: between two claims of one broker": (
        _old(10)
        .state(20, 1, leader=2, epoch=1)
        .state(30, 1, leader=1, epoch=0)
        .state(40, 1, leader=1, epoch=0)
        .state(15, 2, leader=2, epoch=1)
        .state(25, 2, leader=2, epoch=1),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_dual_leader(case: str) -> None:
    assert found("dual_leader", case, CASES, *COLUMNS) == CASES[case][1]
