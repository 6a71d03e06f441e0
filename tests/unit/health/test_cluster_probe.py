"""The answers of brokers, merged: the newest epoch counts, and an unclean election is noticed."""

from __future__ import annotations

from typing import Any

import pytest

from ackproof.health.cluster_probe import SHOWN_S, Elections, LeaderOffsets, ReadableOffsets, merged
from ackproof.health.rules import WatchedPartition
from ackproof.kafka.protocol import broker as ask

MIN_ISR = {"orders": 2}


def said(leader: int | None, epoch: int, isr: tuple[int, ...] = (1, 2, 3), topic: str = "orders") -> ask.Metadata:
    view = ask.Partition(topic, 0, None, leader, epoch, (1, 2, 3), isr, ())
    return ask.Metadata((), 1, None, (view,), {})


def partition(leader: int | None, epoch: int, *isr: int) -> list[WatchedPartition]:
    return [WatchedPartition("orders/0", leader, True, epoch, (1, 2, 3), isr, 2)]


def test_the_newest_epoch_counts_even_if_another_broker_claims_to_lead() -> None:
    (found,) = merged({1: said(1, 4, (1, 2, 3)), 2: said(2, 5, (2, 3))}, {1, 2}, MIN_ISR)
    assert (found.leader, found.isr) == (2, (2, 3))


def test_in_one_epoch_the_answer_of_the_leader_counts() -> None:
    (found,) = merged({1: said(2, 5, (1, 2, 3)), 2: said(2, 5, (2,)), 3: said(2, 5, (1, 2, 3))}, {1, 2, 3}, MIN_ISR)
    assert found.isr == (2,)


def test_a_broker_that_answers_counts_more_than_a_silent_leader() -> None:
    (found,) = merged({1: said(2, 5, (1, 3)), 2: said(2, 5, (1, 2, 3))}, {1}, MIN_ISR)
    assert found.isr == (1, 3)
    assert not found.leader_answers


def test_the_last_answers_count_when_no_broker_answers() -> None:
    (found,) = merged({1: said(1, 5, (1,))}, set(), MIN_ISR)
    assert found.isr == (1,)
    assert not found.leader_answers


def test_topics_that_are_not_watched_are_left_out() -> None:
    assert merged({1: said(1, 1, topic="other")}, {1}, MIN_ISR) == []


ELECTIONS: dict[str, tuple[bool, list[Any], bool]] = {
    "a leader that was not in sync": (False, [partition(1, 1, 1, 2), partition(3, 2, 3)], True),
    "also after a time without a leader": (
        False,
        [partition(1, 1, 1, 2), partition(None, 2, 1, 2), partition(3, 3, 3)],
        True,
    ),
    "also if no replica is in sync meanwhile": (
        True,
        [partition(1, 1, 1, 2), partition(None, 2), partition(3, 3, 3)],
        True,
    ),
    "with ZooKeeper: a replica that was in sync when enough were": (
        False,
        [partition(1, 1, 1, 2), partition(1, 1, 1), partition(2, 2, 2)],
        True,
    ),
    "near miss with KRaft: a replica that was in sync when enough were": (
        True,
        [partition(1, 1, 1, 2), partition(1, 1, 1), partition(2, 2, 2)],
        False,
    ),
    "near miss: a leader that was in sync": (False, [partition(1, 1, 1, 2), partition(2, 2, 2)], False),
    "near miss: a leader that was in sync before the ISR was empty": (
        False,
        [partition(1, 1, 1, 2), partition(None, 2), partition(2, 3, 2)],
        False,
    ),
    "near miss: back in sync, then leader": (
        False,
        [partition(1, 1, 1), partition(1, 1, 1, 3), partition(3, 2, 1, 3)],
        False,
    ),
    "near miss: nothing is known of the time before": (False, [partition(3, 7, 3)], False),
    "near miss: the same epoch": (False, [partition(1, 1, 1), partition(3, 1, 3)], False),
}


@pytest.mark.parametrize("case", ELECTIONS)
def test_elections(case: str) -> None:
    eligible, views, unclean = ELECTIONS[case]
    elections = Elections(eligible)
    found = [elections.see(view, now) for now, view in enumerate(views)]
    assert bool(found[-1]) is unclean


def test_an_unclean_election_is_reported_for_a_while() -> None:
    elections = Elections(eligible=False)
    elections.see(partition(1, 1, 1), 0)
    assert elections.see(partition(2, 2, 2), 1)
    assert elections.see(partition(2, 2, 2), 1 + SHOWN_S)
    assert not elections.see(partition(2, 2, 2), 1.1 + SHOWN_S)


def test_a_fall_of_the_high_watermark_is_reported_once() -> None:
    marks = ReadableOffsets()
    seen = ((1, 10), (1, 30), (2, 20), (2, 20), (2, 25))
    told = [marks.fell(LeaderOffsets("orders/0", epoch, mark, mark)) for epoch, mark in seen]
    assert told == [None, None, (30, 20), None, None]


def test_a_log_that_ends_earlier_is_reported_before_its_leader_has_a_high_watermark() -> None:
    """It is reported once, even if the log has grown past its old end when the leader has a high watermark."""
    marks = ReadableOffsets()
    seen = ((1, 30, 30), (2, None, 20), (2, None, 25), (2, 40, 40))
    told = [marks.fell(LeaderOffsets("orders/0", *each)) for each in seen]
    assert told == [None, (30, 20), None, None]


def test_near_miss_a_new_leader_whose_log_is_longer_and_has_no_high_watermark_yet() -> None:
    marks = ReadableOffsets()
    seen = ((1, 30, 30), (2, None, 35), (2, None, None), (2, 31, 35))
    assert not any(marks.fell(LeaderOffsets("orders/0", *each)) for each in seen)


def test_near_miss_a_deposed_leaders_old_answer_and_another_partition() -> None:
    marks = ReadableOffsets()
    seen = (("orders/0", 2, 30), ("orders/0", 1, 20), ("orders/1", 2, 5), ("orders/0", 2, 30))
    assert not any(marks.fell(LeaderOffsets(name, epoch, mark, mark)) for name, epoch, mark in seen)
