"""What the brokers say, put together: the newest epoch counts, and a leader who was not in sync is noticed."""

from __future__ import annotations

from typing import Any

import pytest

from ackproof.health.cluster_probe import SHOWN_S, Elections, Mark, Marks, merged
from ackproof.health.rules import Partition
from ackproof.kafka.protocol import broker as ask

MIN_ISR = {"orders": 2}


def said(leader: int | None, epoch: int, isr: tuple[int, ...] = (1, 2, 3), topic: str = "orders") -> ask.Metadata:
    view = ask.Partition(topic, 0, None, leader, epoch, (1, 2, 3), isr, ())
    return ask.Metadata((), 1, None, (view,), {})


def partition(leader: int | None, epoch: int, *isr: int) -> list[Partition]:
    return [Partition("orders/0", leader, True, epoch, (1, 2, 3), isr, 2)]


def test_the_newest_epoch_counts_whoever_else_claims_to_lead() -> None:
    (found,) = merged({1: said(1, 4, (1, 2, 3)), 2: said(2, 5, (2, 3))}, {1, 2}, MIN_ISR)
    assert (found.leader, found.isr) == (2, (2, 3))


def test_in_one_epoch_the_leader_knows_best() -> None:
    (found,) = merged({1: said(2, 5, (1, 2, 3)), 2: said(2, 5, (2,)), 3: said(2, 5, (1, 2, 3))}, {1, 2, 3}, MIN_ISR)
    assert found.isr == (2,)


def test_a_leader_that_fell_silent_knows_less_than_who_answers() -> None:
    (found,) = merged({1: said(2, 5, (1, 3)), 2: said(2, 5, (1, 2, 3))}, {1}, MIN_ISR)
    assert found.isr == (1, 3)
    assert not found.leader_answers


def test_what_was_known_last_is_not_forgotten_when_everybody_is_silent() -> None:
    (found,) = merged({1: said(1, 5, (1,))}, set(), MIN_ISR)
    assert found.isr == (1,)
    assert not found.leader_answers


def test_topics_that_nobody_watches_are_left_out() -> None:
    assert merged({1: said(1, 1, topic="other")}, {1}, MIN_ISR) == []


ELECTIONS: dict[str, tuple[bool, list[Any], bool]] = {
    "a leader who was not in sync": (False, [partition(1, 1, 1, 2), partition(3, 2, 3)], True),
    "also after a time without any": (
        False,
        [partition(1, 1, 1, 2), partition(None, 2, 1, 2), partition(3, 3, 3)],
        True,
    ),
    "also where nobody is in sync meanwhile": (
        True,
        [partition(1, 1, 1, 2), partition(None, 2), partition(3, 3, 3)],
        True,
    ),
    "with ZooKeeper: who was in sync when there were enough": (
        False,
        [partition(1, 1, 1, 2), partition(1, 1, 1), partition(2, 2, 2)],
        True,
    ),
    "near miss with KRaft: who was in sync when there were enough": (
        True,
        [partition(1, 1, 1, 2), partition(1, 1, 1), partition(2, 2, 2)],
        False,
    ),
    "near miss: a leader who was in sync": (False, [partition(1, 1, 1, 2), partition(2, 2, 2)], False),
    "near miss: a leader who was in sync before nobody was": (
        False,
        [partition(1, 1, 1, 2), partition(None, 2), partition(2, 3, 2)],
        False,
    ),
    "near miss: back in sync, then leader": (
        False,
        [partition(1, 1, 1), partition(1, 1, 1, 3), partition(3, 2, 1, 3)],
        False,
    ),
    "near miss: of what was before nothing is known": (False, [partition(3, 7, 3)], False),
    "near miss: the same epoch": (False, [partition(1, 1, 1), partition(3, 1, 3)], False),
}


@pytest.mark.parametrize("case", ELECTIONS)
def test_elections(case: str) -> None:
    eligible, views, unclean = ELECTIONS[case]
    elections = Elections(eligible)
    found = [elections.see(view, now) for now, view in enumerate(views)]
    assert bool(found[-1]) is unclean


def test_an_unclean_election_is_told_of_for_a_while() -> None:
    elections = Elections(eligible=False)
    elections.see(partition(1, 1, 1), 0)
    assert elections.see(partition(2, 2, 2), 1)
    assert elections.see(partition(2, 2, 2), 1 + SHOWN_S)
    assert not elections.see(partition(2, 2, 2), 1.1 + SHOWN_S)


def test_a_high_watermark_that_fell_is_told_once() -> None:
    marks = Marks()
    seen = ((1, 10), (1, 30), (2, 20), (2, 20), (2, 25))
    told = [marks.fell(Mark("orders/0", epoch, mark, mark)) for epoch, mark in seen]
    assert told == [None, None, (30, 20), None, None]


def test_a_log_that_ends_earlier_is_told_of_before_its_leader_has_a_high_watermark() -> None:
    """It is told once, although the log has grown past the old end when there is one again."""
    marks = Marks()
    seen = ((1, 30, 30), (2, None, 20), (2, None, 25), (2, 40, 40))
    told = [marks.fell(Mark("orders/0", *each)) for each in seen]
    assert told == [None, (30, 20), None, None]


def test_near_miss_a_new_leader_whose_log_is_longer_and_has_no_high_watermark_yet() -> None:
    marks = Marks()
    seen = ((1, 30, 30), (2, None, 35), (2, None, None), (2, 31, 35))
    assert not any(marks.fell(Mark("orders/0", *each)) for each in seen)


def test_near_miss_what_a_deposed_leader_still_says_and_other_partitions() -> None:
    marks = Marks()
    seen = (("orders/0", 2, 30), ("orders/0", 1, 20), ("orders/1", 2, 5), ("orders/0", 2, 30))
    assert not any(marks.fell(Mark(name, epoch, mark, mark)) for name, epoch, mark in seen)
