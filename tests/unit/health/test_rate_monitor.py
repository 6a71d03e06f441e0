"""RateMonitor: a second is judged when it is over and everything of it was counted, whether or not anything came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from ackproof.health.rate_monitor import ARMED_AFTER, LATE_MOST_S, Rate, RateMonitor

BEGUN = 1_700_000_000  # seconds since 1970


def rates(*counts: int | None, line: float = 800) -> RateMonitor:
    """A second each, counted in the trigger that begins with the next; None: nothing came, so there was no batch."""
    made = RateMonitor(line)
    finish(made, BEGUN + 0.5, now=0)
    feed(made, counts)
    return made


def finish(made: RateMonitor, trigger_s: float, now: float, set_by_s: float = 0) -> None:
    made.finished(trigger_s, now, BEGUN + 0.5 + now + set_by_s)


def feed(made: RateMonitor, counts: Sequence[int | None], first: int = 0) -> None:
    for place, count in enumerate(counts, start=first):
        if count is not None:
            made.count(place, {BEGUN + place: count})
        finish(made, BEGUN + place + 1.5, now=float(place + 1))


FLOWING = [1000] * ARMED_AFTER


def test_two_seconds_below_the_line_are_below() -> None:
    assert rates(*FLOWING, 799, 799).rate(0).below


def test_near_miss_one_second_below_the_line() -> None:
    assert not rates(*FLOWING, 799, 800).rate(0).below


def test_the_line_itself_is_not_below() -> None:
    assert not rates(*FLOWING, 800, 800).rate(0).below


def test_silence_is_below_the_line_without_a_later_message() -> None:
    now = rates(*FLOWING, None, None).rate(0)
    assert now.below
    assert now.last == 0


def test_two_seconds_above_it_are_above_again() -> None:
    assert not rates(*FLOWING, 0, 0, 1000, 1000).rate(0).below
    assert rates(*FLOWING, 0, 0, 1000).rate(0).below


def test_there_is_no_alert_before_the_load_begins() -> None:
    assert not rates(None, None, None).rate(0).armed
    assert not rates(*FLOWING[1:], 0).rate(0).armed
    assert rates(*FLOWING, 0).rate(0).armed


def test_a_second_is_not_judged_before_a_trigger_that_began_after_it() -> None:
    made = rates(*FLOWING)
    finish(made, BEGUN + ARMED_AFTER + 1.4, now=9)
    assert made.rate(9).judged == ARMED_AFTER
    finish(made, BEGUN + ARMED_AFTER + 1.5, now=9)
    assert made.rate(9).judged == ARMED_AFTER + 1


def test_a_repeated_batch_is_counted_once() -> None:
    made = rates(*FLOWING)
    made.count(ARMED_AFTER, {BEGUN + ARMED_AFTER: 500})
    made.count(ARMED_AFTER, {BEGUN + ARMED_AFTER: 500})  # the same batch, done again
    made.count(ARMED_AFTER + 1, {BEGUN + ARMED_AFTER: 100})
    finish(made, BEGUN + ARMED_AFTER + 1.5, now=9)
    assert made.rate(9).last == 600


def test_after_a_hang_the_missed_seconds_are_judged() -> None:
    made = rates(*FLOWING)
    finish(made, BEGUN + ARMED_AFTER + 10.5, now=20)
    now = made.rate(20)
    assert now.judged == ARMED_AFTER + 10
    assert now.below


def test_the_time_without_a_finished_trigger_is_known() -> None:
    made = RateMonitor(800)
    assert not made.begun
    assert made.rate(100).unheard_s == 0  # it has not even begun
    finish(made, BEGUN, now=5)
    assert made.begun
    assert made.rate(9).unheard_s == 4


# -- messages that come later than their timestamps say ----------------------------------------------------------------


def arriving(
    arrivals: dict[int, dict[int, int]], seconds: int, made: RateMonitor | None = None
) -> Iterator[tuple[int, Rate]]:
    """A trigger at half past each second; `arrivals` are counts by second, by the second in which they come."""
    made = made or RateMonitor(800)
    finish(made, BEGUN + 0.5, now=0)
    for place in range(seconds):
        if place in arrivals:
            made.count(place, {BEGUN + second: count for second, count in arrivals[place].items()})
        finish(made, BEGUN + place + 1.5, now=float(place + 1))
        yield place, made.rate(0)


def late_by(late_s: int, until: int) -> dict[int, dict[int, int]]:
    return {second + late_s: {second: 1000} for second in range(until)}


def lingering(until: int) -> dict[int, dict[int, int]]:
    """linger.ms=3000 and one partition: what was sent in three seconds comes at their end."""
    return {end: {end - 3: 600, end - 2: 1000, end - 1: 1000, end: 400} for end in range(3, until, 3)}


def alarms(rates: Iterator[tuple[int, Rate]]) -> list[int]:
    return [place for place, rate in rates if rate.armed and rate.below]


def test_a_steady_rate_of_late_messages_arms_and_does_not_alarm() -> None:
    for late_s in (0, 1, 3, LATE_MOST_S):
        told = dict(arriving(late_by(late_s, until=60), 60))
        assert told[59].armed, late_s
        assert alarms(iter(told.items())) == [], late_s


def test_messages_that_linger_arm_and_do_not_alarm() -> None:
    told = dict(arriving(lingering(until=60), 60))
    assert told[57].armed
    assert alarms(iter(told.items())) == []


def test_silence_is_noticed_later_by_the_lateness_only() -> None:
    in_time = alarms(arriving(late_by(0, until=40), 60))
    assert in_time[0] == 41
    for late_s in (1, 3, LATE_MOST_S):
        assert alarms(arriving(late_by(late_s, until=40), 60))[0] == in_time[0] + late_s


def test_messages_that_an_outage_held_up_do_not_delay_later_seconds() -> None:
    """Ten seconds of nothing, then all of it at once: cleared as soon as if nothing had come late."""
    flowing = late_by(0, until=50)
    held_up = {place: counts for place, counts in flowing.items() if not 20 <= place < 30}
    backlog = dict.fromkeys(range(20, 30), 1000)
    lost = alarms(arriving(held_up, 50))
    assert lost == list(range(21, 31))
    assert alarms(arriving(held_up | {30: held_up[30] | backlog}, 50)) == lost


def test_lateness_that_is_over_is_forgotten() -> None:
    arrivals = late_by(3, until=30) | {30 + place: {30 + place: 1000} for place in range(3, 20)}
    for second in range(30, 33):  # the last that are late come with the first that are not
        arrivals[33] = arrivals.get(33, {}) | {second: 1000}
    assert alarms(arriving(arrivals, 60))[0] == 51


def test_messages_that_come_after_the_longest_wait_are_counted_as_too_late() -> None:
    told = dict(arriving(late_by(LATE_MOST_S + 20, until=60), 80))
    assert not told[79].armed
    assert told[79].too_late == 1000 * 50
    assert dict(arriving(late_by(LATE_MOST_S, until=60), 80))[79].too_late == 0


@pytest.mark.proves("B5")
@pytest.mark.parametrize("set_by_s", [3600, -3600, 30, -30])
@pytest.mark.parametrize("meanwhile", [True, False])
def test_setting_the_wall_clock_makes_no_second_silent_and_does_not_stop_the_monitor(
    set_by_s: int, meanwhile: bool
) -> None:
    made = rates(*FLOWING)
    if meanwhile:  # a trigger began before
        finish(made, BEGUN + ARMED_AFTER + 1.5, now=ARMED_AFTER + 1, set_by_s=set_by_s)
    first, judged = ARMED_AFTER + 1, made.rate(0).judged

    def second(place: int, count: int) -> None:
        made.count(place, {BEGUN + place + set_by_s: count})
        finish(made, BEGUN + place + set_by_s + 1.5, now=place + 1.0, set_by_s=set_by_s)

    for place in range(first, first + 6):
        second(place, 1000)
    now = made.rate(0)
    assert now.armed
    assert not now.below
    assert 3 <= now.judged - judged <= 6
    for place in range(first + 6, first + 9):
        second(place, 0)
    assert made.rate(0).below


@pytest.mark.proves("B5")
def test_an_adjusted_clock_does_not_count_as_set() -> None:
    made = rates(*FLOWING)
    finish(made, BEGUN + ARMED_AFTER + 1.5, now=ARMED_AFTER + 1, set_by_s=1.5)
    assert made.rate(0).judged == ARMED_AFTER + 1
