"""claims and leadership_history: who led at a moment, and what the scenario claims about it."""

from __future__ import annotations

import pytest

from ackproof.model.run_record import Marks
from tests.support.asking import Cases, found, witnesses
from tests.support.histories import History, at

COLUMNS = ("claim", "partition", "leader")


def _split() -> History:
    """Broker 1 leads until it is hit at 10 s; from 12 s on broker 2 does, without it; healed at 20 s, full at 25 s."""
    marks = Marks(load_begun_ns=at(5_000), load_ended_ns=at(20_000), healed_ns=at(20_000), drained_ns=at(30_000))
    history = History(marks=marks, topics=("orders", "mirror")).send(0, 0, sent=5_000).log(0, 0)
    history.fault(("asked", 10_000), ("proved", 10_100), ("healed", 20_000))
    for second in range(4, 30):
        when = second * 1_000.0 + 1
        if when < 12_000:
            history.state(when, 1, leader=1, epoch=0).state(when, 2, leader=1, epoch=0)
            continue
        isr = (1, 2, 3) if when > 25_000 else (2, 3)
        history.state(when, 2, leader=2, epoch=1, isr=isr)
        if when < 20_000:
            history.state(when + 1, 1, leader=1, epoch=0)  # it has not learnt of the new epoch
    return history


def _acked(when: float, outcome: str = "ok") -> History:
    return _split().send(1, 1, sent=when - 1, done=when, outcome=outcome)


def _last_told(when: float) -> History:
    """A run that ends at 60 s, with its last observation then."""
    marks = Marks(load_begun_ns=at(0), drained_ns=at(60_000))
    return History(marks=marks).send(0, 0).log(0, 0).state(when, 1, leader=1, epoch=0)


def _unsaid(history: History) -> History:
    history.rows["state"][-1]["replicas"] = None
    return history


CASES: Cases = {
    "the wrong leader": (_split().claim("during 1", leader=["kafka1"]), [(1, 0, 2)]),
    "one that should not lead": (_split().claim("before 1", not_leader=["target:1"]), [(1, 0, 1)]),
    "in sync, but not these": (_split().claim("during 1", isr=["kafka2"]), [(1, 0, 2)]),
    "still in sync": (_split().claim("before 1", isr_without=["kafka1"]), [(1, 0, 1)]),
    "not full": (_split().claim("during 1", isr_full=True), [(1, 0, 2)]),
    "not the preferred leader": (_split().claim("end", preferred=True), [(1, 0, 2)]),
    "another leader than before": (_split().claim("during 1", same_leader_as="before 1"), [(1, 0, 2)]),
    "no leader, as before": (
        _split()
        .state(9_500, 3, leader=-1, epoch=1)
        .state(29_500, 3, leader=-1, epoch=2)
        .claim("end", same_leader_as="before 1"),
        [(1, 0, -1)],
    ),
    "a leader where none is claimed": (_split().claim("end", no_leader=True), [(1, 0, 2)]),
    "nothing was acknowledged lately": (_split().claim("end", acked=True), [(1, 0, 2)]),
    "acknowledged only before that": (_acked(7_500).claim("before 1", acked=True), [(1, 0, 1)]),
    "acknowledged two seconds before, and no later": (_acked(8_000).claim("before 1", acked=True), [(1, 0, 1)]),
    "acknowledged, and should not be": (_acked(8_500).claim("before 1", acked=False), [(1, 0, 1)]),
    "near miss: acknowledged in time": (_acked(8_500).claim("before 1", acked=True), []),
    "near miss: acknowledged at that moment": (_acked(10_000).claim("before 1", acked=True), []),
    "near miss: nothing acknowledged, as claimed": (_acked(10_500).claim("before 1", acked=False), []),
    "near miss: it failed": (_acked(8_500, "fail").claim("before 1", acked=False), []),
    "near miss: no leader, as claimed": (
        _split()
        .state(29_500, 3, leader=None, epoch=2, isr=(), error="LEADER_NOT_AVAILABLE")
        .claim("end", no_leader=True, isr_without=["kafka1"]),
        [],
    ),
    "near miss: no leader, reported as a number": (
        _split().state(29_500, 3, leader=-1, epoch=2, isr=(2,)).claim("end", no_leader=True),
        [],
    ),
    "a leader with the lowest number": (
        _split().state(29_500, 3, leader=0, epoch=2).claim("end", no_leader=True),
        [(1, 0, 0)],
    ),
    "the second of two claims": (
        _split().claim("start", leader=["kafka1"]).claim("end", leader=["kafka1"]),
        [(2, 0, 2)],
    ),
    "a partition without observations": (
        _split().log(0, 5, partition=1).claim("end", "orders/*", isr_full=True),
        [(1, 1, None)],
    ),
    "a mirror's leader": (
        _split().copied(0, 0).state(29_500, 4, leader=4, epoch=0, topic=1).claim("end", "mirror/*", leader=["kafka1"]),
        [(1, 0, 4)],
    ),
    "near miss: a mirror's leader": (
        _split().copied(0, 0).state(29_500, 4, leader=1, epoch=0, topic=1).claim("end", "mirror/*", leader=["kafka1"]),
        [],
    ),
    "a topic that was never read": (_split().claim("end", "mirror/*", isr_full=True), [(1, None, None)]),
    "a partition that was never read": (_split().claim("end", "orders/7", isr_full=True), [(1, 7, None)]),
    "a leader that did not report the in-sync replicas": (
        _split().state(29_900, 2, leader=2, epoch=1, isr=None).claim("end", leader=["kafka2"]),
        [(1, 0, 2)],
    ),
    "a moment without observations": (
        _last_told(1).claim("end", leader=["kafka1"]),
        [(1, 0, None)],
    ),
    "three seconds after the last observation": (_last_told(57_000).claim("end", leader=["kafka1"]), [(1, 0, None)]),
    "near miss: not quite three seconds after the last observation": (
        _last_told(57_000.000001).claim("end", leader=["kafka1"]),
        [],
    ),
    "near miss: at the moment of an observation": (_last_told(60_000).claim("end", leader=["kafka1"]), []),
    "near miss: all of it holds": (
        _split()
        .claim("start", leader=["kafka1"], isr_full=True, preferred=True)
        .claim("during 1", not_leader=["target:1"], isr=["kafka3", "kafka2"], isr_without=["kafka1"])
        .claim("end", leader=["kafka2", "kafka3"], isr_full=True, same_leader_as="during 1"),
        [],
    ),
    "near miss: in sync, and one of them is named twice": (
        _split().claim("before 1", isr=["target:1", "kafka1", "kafka2", "kafka3"]),
        [],
    ),
    "near miss: an answer with an error says nothing": (
        _split().state(29_500, 3, leader=3, epoch=9, error="broken").claim("end", leader=["kafka2"]),
        [],
    ),
    "near miss: no leader, so the forbidden one does not lead": (
        _split()
        .state(29_500, 3, leader=None, epoch=2, isr=(), error="LEADER_NOT_AVAILABLE")
        .claim("end", not_leader=["kafka1"]),
        [],
    ),
    "full, from a broker that does not report the replicas": (
        _unsaid(_split().state(29_500, 3, leader=3, epoch=2)).claim("end", isr_full=True),
        [(1, 0, 3)],
    ),
    "near miss: another partition's leader": (
        _split()
        .log(0, 5, partition=1)
        .state(29_500, 3, leader=3, epoch=0, partition=1)
        .claim("end", "orders/1", leader=["kafka3"]),
        [],
    ),
    "near miss: one follower learns later than another that there is no leader": (
        _split()
        .state(29_400, 1, leader=2, epoch=2)
        .state(29_500, 3, leader=None, epoch=2, isr=(), error="LEADER_NOT_AVAILABLE")
        .claim("end", no_leader=True),
        [],
    ),
    "near miss: a follower that has not learnt of it": (
        _split().state(29_900, 3, leader=2, epoch=1, isr=(2,)).claim("end", isr_full=True),
        [],
    ),
    "near miss: only the other partition": (
        _split().log(0, 5, partition=1).claim("end", "orders/0", isr_full=True),
        [],
    ),
    "near miss: no claims": (_split(), []),
}


@pytest.mark.parametrize("case", CASES)
def test_claims(case: str) -> None:
    assert found("claims", case, CASES, *COLUMNS) == CASES[case][1]


def test_a_claim_tells_how_many_were_acknowledged() -> None:
    history = _acked(8_500).send(2, 2, sent=8_999, done=9_000).claim("before 1", acked=False)
    history.send(3, 0, partition=1, sent=8_999, done=9_000).send(4, 0, topic=1, sent=8_999, done=9_000)
    (row,) = witnesses("claims", history)
    assert row["acks"] == 2


def test_a_view_is_that_of_the_newest_epochs_leader() -> None:
    rows = sorted(witnesses("leadership_history", _split()), key=lambda row: int(row["place"]))
    assert [(row["moment"], row["leader"], row["leader_epoch"], row["isr"]) for row in rows] == [
        ("start", 1, 0, [1, 2, 3]),
        ("before 1", 1, 0, [1, 2, 3]),
        ("during 1", 2, 1, [2, 3]),
        ("end", 2, 1, [1, 2, 3]),
    ]
