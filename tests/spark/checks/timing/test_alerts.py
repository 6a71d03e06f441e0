"""alerts: hit, missed, late, stuck and false, each with its near miss."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ackproof.model.run_record import Marks
from tests.support.asking import Cases, found, verdicts_of, witnesses
from tests.support.histories import History, at

COLUMNS = ("rule", "fault", "result", "bad")
PAUSE = (("asked", 1000), ("proved", 1100), ("healing", 9000), ("healed", 9100))
KILL = (("asked", 1000), ("proved", 1100), ("healed", 1100))


def expecting(rule: str = "rate") -> History:
    """A pause from 1.1 s to 9.1 s; an alert is due by 6.1 s, and has to be gone by 19.1 s."""
    return History().send(0, 0).log(0, 0).fault(*PAUSE).expects(rule, 1, within=5000, clears=10_000)


def alerted(raised: float, cleared: float | None, rule: str = "rate", expected: str = "rate") -> History:
    history = expecting(expected).alert(0, rule, "watching").alert(raised, rule, "raised")
    return history if cleared is None else history.alert(cleared, rule, "cleared")


def killed(cleared: float) -> History:
    """A broker dies, and is started again at 30 s."""
    history = History().send(0, 0).log(0, 0).fault(*KILL, kind="kill", heals="")
    history.fault(("asked", 29_000), ("proved", 30_000), ("healed", 30_000), kind="start", heals="")
    history.expects("no-leader", 1, within=5000, clears=10_000, undone_by=2)
    return history.alert(4000, "no-leader", "raised").alert(cleared, "no-leader", "cleared")


def overlapping(cleared: float) -> History:
    """A second pause from 5 s to 30 s, with the alert of the first still standing; it has to be gone by 40 s."""
    history = alerted(4000, cleared).fault(("asked", 4900), ("proved", 5000), ("healing", 29_900), ("healed", 30_000))
    return history.expects("rate", 2, within=5000, clears=10_000)


def ended(history: History, when: float = 10_000) -> History:
    """The same run, whose load, and so the health check, ended then."""
    return replace(history, marks=Marks(load_ended_ns=at(when)))


HIT, UNFINISHED = (("rate", 1, result, False) for result in ("hit", "unfinished"))
MISSED, LATE, STUCK = (("rate", 1, result, True) for result in ("missed", "late", "stuck"))
CASES: Cases = {
    "hit: raised and cleared in time": (alerted(4000, 12_000), [HIT]),
    "hit: raised at the last moment": (alerted(6100, 12_000), [HIT]),
    "hit: cleared at the last moment": (alerted(4000, 19_100), [HIT]),
    "hit: before the fault was proved": (alerted(1050, 12_000), [HIT]),
    "hit: raised twice, both within the fault's time": (
        alerted(4000, 5000).alert(6000, "rate", "raised").alert(12_000, "rate", "cleared"),
        [HIT],
    ),
    "hit: as the fault is asked for": (alerted(1000, 12_000), [HIT]),
    "hit: raised twice, and only the first was in time": (
        alerted(4000, 5000).alert(7000, "rate", "raised").alert(12_000, "rate", "cleared"),
        [HIT],
    ),
    "hit: cleared before the watching ended": (ended(alerted(4000, 9500)), [HIT]),
    "hit: a fault that is undone by another": (killed(39_000), [("no-leader", 1, "hit", False)]),
    "hit: a fault that was never healed need not clear": (
        History()
        .send(0, 0)
        .log(0, 0)
        .fault(*PAUSE[:2])
        .expects("rate", 1, within=5000, clears=10_000)
        .alert(4000, "rate", "raised"),
        [HIT],
    ),
    "unfinished: the watching ended before it had to be gone": (ended(alerted(4000, None)), [UNFINISHED]),
    "missed: nothing was raised, and the watching ended": (ended(expecting().alert(0, "rate", "watching")), [MISSED]),
    "stuck: the watching went on until it had to be gone": (ended(alerted(4000, None), 19_100), [STUCK]),
    "hit: the alert of one fault still stands when the next begins": (
        overlapping(25_000),
        [HIT, ("rate", 2, "hit", False)],
    ),
    "stuck: it still stands after both": (
        overlapping(40_001),
        [STUCK, ("rate", 2, "stuck", True)],
    ),
    "missed: the alert of one fault was over when the next began": (
        overlapping(4500),
        [HIT, ("rate", 2, "missed", True)],
    ),
    "false: raised before the fault that would explain it": (
        alerted(500, 12_000),
        [HIT, ("rate", None, "false", True)],
    ),
    "missed: nothing was raised": (expecting().alert(0, "rate", "watching"), [MISSED]),
    "missed: it was cleared as the fault began": (
        alerted(500, 1000),
        [MISSED, ("rate", None, "false", True)],
    ),
    "missed: the fault never began, so the alert is false": (
        History()
        .send(0, 0)
        .log(0, 0)
        .fault()
        .expects("rate", 1, within=5000, clears=10_000)
        .alert(4000, "rate", "raised"),
        [MISSED, ("rate", None, "false", True)],
    ),
    "missed: only another rule raised an alert, which is false": (
        alerted(4000, 12_000, rule="no-leader"),
        [("no-leader", 1, "false", True), MISSED],
    ),
    "late: by a millisecond": (alerted(6101, 12_000), [LATE]),
    "late: after the fault was over": (alerted(10_000, 12_000), [LATE]),
    "stuck: cleared too late, by a millisecond": (alerted(4000, 19_101), [STUCK]),
    "stuck: never cleared": (alerted(4000, None), [STUCK]),
    "stuck: cleared, raised again, and never cleared": (
        alerted(4000, 8000).alert(9000, "rate", "raised"),
        [STUCK],
    ),
    "stuck: it fluttered, and was cleared too late in the end": (
        alerted(4000, 5000).alert(6000, "rate", "raised").alert(19_101, "rate", "cleared"),
        [STUCK],
    ),
    "stuck: raised again at the last moment": (alerted(4000, 12_000).alert(19_100, "rate", "raised"), [STUCK]),
    "stuck: an event of the query clears nothing": (
        alerted(4000, 19_101).alert(5000, "rate", "query_restarted"),
        [STUCK],
    ),
    "stuck: not cleared when it was undone": (killed(40_001), [("no-leader", 1, "stuck", True)]),
    "false: before any fault": (
        alerted(500, 900).alert(4000, "rate", "raised").alert(12_000, "rate", "cleared"),
        [HIT, ("rate", None, "false", True)],
    ),
    "false: after the fault's time": (
        alerted(4000, 12_000).alert(19_101, "rate", "raised"),
        [("rate", 1, "false", True), HIT],
    ),
    "false: as a fault begins that should raise another alert": (
        alerted(1000, 12_000, rule="no-leader"),
        [("no-leader", 1, "false", True), MISSED],
    ),
    "false: shown with the fault that began last": (
        overlapping(25_000).alert(10_000, "no-leader", "raised"),
        [("no-leader", 2, "false", True), HIT, ("rate", 2, "hit", False)],
    ),
    "false: there was no fault at all": (
        History().send(0, 0).log(0, 0).alert(4000, "rate", "raised"),
        [("rate", None, "false", True)],
    ),
    "near miss: nothing expected, nothing raised": (
        History().send(0, 0).log(0, 0).fault(*PAUSE).alert(0, "rate", "watching"),
        [],
    ),
    "near miss: an event of the query is no alert": (
        History().send(0, 0).log(0, 0).alert(4000, "rate", "query_restarted").alert(5000, "rate", "offset_fell"),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_alerts(case: str) -> None:
    assert found("alerts", case, CASES, *COLUMNS) == CASES[case][1]


def test_whether_the_alert_wakes_a_person() -> None:
    history = alerted(4000, 12_000).alert(4000, "under-replicated", "raised")
    told = {row["rule"]: row["told"] for row in witnesses("alerts", history)}
    assert told == {"rate": "at once", "under-replicated": "in the morning"}


def test_how_long_after_the_proof_and_for_how_long() -> None:
    (row,) = witnesses("alerts", alerted(4100, 12_100))
    assert (row["after_s"], row["stood_s"]) == (3.0, 8.0)


def test_an_alert_that_had_time_left_to_clear_is_no_pass(tmp_path: Path) -> None:
    cases = {"unfinished": (ended(alerted(4000, None)), None), "hit": (ended(alerted(4000, 9500)), None)}
    told = {
        name: next((each.result, each.found) for each in verdict.checks if each.name == "alerts")
        for name, verdict in verdicts_of(cases, tmp_path).items()
    }
    assert told == {"unfinished": ("unknown", 0), "hit": ("confirmed", 0)}
