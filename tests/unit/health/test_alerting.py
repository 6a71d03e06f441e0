"""The watch: an alert is raised once it has held, cleared once all has been well, and never flutters."""

from __future__ import annotations

from ackproof.health.alerting import CLEAR_S, Alarm, Watch
from ackproof.health.rate_monitor import Rate
from ackproof.health.rules import Finding, Rule, View

BAD = Finding(1.0, "it is bad")
VIEW = View(1, 1, [], 1, [], Rate(800, False, False, 0, None, 0))


def alarm(for_s: float = 3.0) -> Alarm:
    return Alarm(Rule("rule", "somebody should look", True, for_s, lambda _: None))


def test_it_is_raised_once_it_has_held_for_long_enough() -> None:
    one = alarm()
    assert [one.look(BAD, now) for now in (0, 1, 2.9, 3, 4)] == [False, False, False, True, False]


def test_near_miss_a_pause_begins_the_time_anew() -> None:
    one = alarm()
    assert not any(one.look(finding, now) for finding, now in ((BAD, 0), (None, 2), (BAD, 3), (BAD, 5.9)))


def test_it_is_cleared_once_all_was_well_for_long_enough() -> None:
    one = alarm(for_s=0)
    assert one.look(BAD, 0)
    assert not one.look(None, 1)
    assert not one.look(BAD, 2)
    assert not one.look(None, 3)
    assert one.look(None, 3 + CLEAR_S)
    assert not one.raised


def test_an_alert_says_what_was_found_and_what_it_means() -> None:
    found: list[Finding | None] = [BAD, None, None]
    rule = Rule("rule", "somebody should look", True, 0.0, lambda _: found.pop(0))
    watch = Watch([Alarm(rule)])
    (raised,) = watch.look(VIEW, 0)
    assert (raised.rule, raised.event, raised.text) == ("rule", "raised", "it is bad: somebody should look")
    assert raised.wakes
    assert not list(watch.look(VIEW, 1))
    (cleared,) = watch.look(VIEW, 1 + CLEAR_S)
    assert cleared.event == "cleared"
