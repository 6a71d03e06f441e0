"""Rates: a second is judged when it is over and everything of it was counted, whether or not anything came."""

from __future__ import annotations

from collections.abc import Sequence

from ackproof.health.rates import ARMED_AFTER, Rates

BEGUN = 1_700_000_000  # seconds since 1970


def rates(*counts: int | None, line: float = 800) -> Rates:
    """A second each, counted in the trigger that begins with the next; None: nothing came, so there was no batch."""
    made = Rates(line)
    made.finished(BEGUN + 0.5, now=0)
    feed(made, counts)
    return made


def feed(made: Rates, counts: Sequence[int | None], first: int = 0) -> None:
    for place, count in enumerate(counts, start=first):
        if count is not None:
            made.count(place, {BEGUN + place: count})
        made.finished(BEGUN + place + 1.5, now=float(place + 1))


FLOWING = [1000] * ARMED_AFTER


def test_two_seconds_below_the_line_are_below() -> None:
    assert rates(*FLOWING, 799, 799).rate(0).below


def test_near_miss_one_second_below_the_line_is_not() -> None:
    assert not rates(*FLOWING, 799, 800).rate(0).below


def test_the_line_itself_is_not_below() -> None:
    assert not rates(*FLOWING, 800, 800).rate(0).below


def test_silence_is_below_without_a_message_that_would_have_to_come_first() -> None:
    now = rates(*FLOWING, None, None).rate(0)
    assert now.below
    assert now.last == 0


def test_two_seconds_above_it_are_above_again() -> None:
    assert not rates(*FLOWING, 0, 0, 1000, 1000).rate(0).below
    assert rates(*FLOWING, 0, 0, 1000).rate(0).below


def test_nobody_is_woken_for_a_load_that_has_not_begun() -> None:
    assert not rates(None, None, None).rate(0).armed
    assert not rates(*FLOWING[1:], 0).rate(0).armed
    assert rates(*FLOWING, 0).rate(0).armed


def test_a_second_is_not_judged_before_a_trigger_that_began_after_it() -> None:
    made = rates(*FLOWING)
    made.finished(BEGUN + ARMED_AFTER + 1.4, now=9)
    assert made.rate(9).judged == ARMED_AFTER
    made.finished(BEGUN + ARMED_AFTER + 1.5, now=9)
    assert made.rate(9).judged == ARMED_AFTER + 1


def test_what_a_batch_did_before_it_died_is_counted_once() -> None:
    made = rates(*FLOWING)
    made.count(ARMED_AFTER, {BEGUN + ARMED_AFTER: 500})
    made.count(ARMED_AFTER, {BEGUN + ARMED_AFTER: 500})  # the same batch, done again
    made.count(ARMED_AFTER + 1, {BEGUN + ARMED_AFTER: 100})
    made.finished(BEGUN + ARMED_AFTER + 1.5, now=9)
    assert made.rate(9).last == 600


def test_a_query_that_hung_makes_up_for_the_seconds_it_missed() -> None:
    made = rates(*FLOWING)
    made.finished(BEGUN + ARMED_AFTER + 10.5, now=20)
    now = made.rate(20)
    assert now.judged == ARMED_AFTER + 10
    assert now.below


def test_how_long_nothing_finished() -> None:
    made = Rates(800)
    assert not made.begun
    assert made.rate(100).unheard_s == 0  # it has not even begun
    made.finished(BEGUN, now=5)
    assert made.begun
    assert made.rate(9).unheard_s == 4
