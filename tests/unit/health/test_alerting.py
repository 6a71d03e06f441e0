"""The alerts: an alert is raised once it has held, cleared once all has been well, and never flutters."""

from __future__ import annotations

from ackproof.health.alerting import CLEAR_S, Alarm, Alerts
from ackproof.health.rate_monitor import Rate
from ackproof.health.rules import Finding, Rule, Snapshot

BAD = Finding(1.0, "it is bad")
SNAPSHOT = Snapshot(1, 1, [], 1, [], Rate(800, False, False, 0, None, 0))


def alarm(for_s: float = 3.0) -> Alarm:
    return Alarm(Rule("rule", "a person should look", True, for_s, lambda _: None))


def test_an_alert_is_raised_when_its_finding_has_lasted_long_enough() -> None:
    one = alarm()
    assert [one.update(BAD, now) for now in (0, 1, 2.9, 3, 4)] == [False, False, False, True, False]


def test_near_miss_a_gap_starts_the_time_again() -> None:
    one = alarm()
    assert not any(one.update(finding, now) for finding, now in ((BAD, 0), (None, 2), (BAD, 3), (BAD, 5.9)))


def test_an_alert_is_cleared_after_a_long_enough_time_without_a_finding() -> None:
    one = alarm(for_s=0)
    assert one.update(BAD, 0)
    assert not one.update(None, 1)
    assert not one.update(BAD, 2)
    assert not one.update(None, 3)
    assert one.update(None, 3 + CLEAR_S)
    assert not one.raised


def test_an_alert_says_what_was_found_and_what_it_means() -> None:
    found: list[Finding | None] = [BAD, None, None]
    rule = Rule("rule", "a person should look", True, 0.0, lambda _: found.pop(0))
    alerts = Alerts([Alarm(rule)])
    (raised,) = alerts.update(SNAPSHOT, 0)
    assert (raised.rule, raised.event, raised.text) == ("rule", "raised", "it is bad: a person should look")
    assert raised.wakes
    assert not list(alerts.update(SNAPSHOT, 1))
    (cleared,) = alerts.update(SNAPSHOT, 1 + CLEAR_S)
    assert cleared.event == "cleared"
