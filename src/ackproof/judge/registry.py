"""CHECKS: every question that the judge asks, its function, and what is expected where a scenario does not say.

Facts are computed for every check; whether a fact is good or bad is said here and in the scenario, nowhere else. By
default only what no configuration of Kafka permits is forbidden. What follows from acks=1 or from a split is allowed:
an offset given twice, a read that did not last, a second leader, a watermark that fell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from ackproof.judge.checks.dedup.copies_through import copies_through
from ackproof.judge.checks.dedup.receivers import has_receivers, receivers
from ackproof.judge.checks.dedup.wrongly_dropped import wrongly_dropped
from ackproof.judge.checks.durability.duplicated import duplicated
from ackproof.judge.checks.durability.inconsistent_offset import inconsistent_offset
from ackproof.judge.checks.durability.lost import lost
from ackproof.judge.checks.durability.offset_gap import offset_gap
from ackproof.judge.checks.durability.phantom import phantom
from ackproof.judge.checks.durability.realtime_order import realtime_order
from ackproof.judge.checks.durability.refusals import has_refused, refusals
from ackproof.judge.checks.durability.reordered import reordered
from ackproof.judge.checks.durability.resurrected import resurrected
from ackproof.judge.checks.durability.unpublished import has_outbox, unpublished
from ackproof.judge.checks.durability.watermark_fell import watermark_fell
from ackproof.judge.checks.groups.commit_back import commit_back
from ackproof.judge.checks.groups.rebalances import rebalances
from ackproof.judge.checks.groups.shares import shares
from ackproof.judge.checks.groups.two_owners import two_owners
from ackproof.judge.checks.groups.unowned import unowned
from ackproof.judge.checks.groups.vanished import vanished
from ackproof.judge.checks.leadership.claims import claims
from ackproof.judge.checks.leadership.dual_leader import dual_leader
from ackproof.judge.checks.leadership.eligible import eligible
from ackproof.judge.checks.leadership.failover import failover
from ackproof.judge.checks.leadership.moves import moves
from ackproof.judge.checks.leadership.zombie_ack import zombie_ack
from ackproof.judge.checks.mirror.left_behind import left_behind
from ackproof.judge.checks.mirror.mirror_differs import mirror_differs
from ackproof.judge.checks.mirror.mirrored_as import mirrored_as
from ackproof.judge.checks.mirror.site_gap import site_gap
from ackproof.judge.checks.mirror.translated import translated
from ackproof.judge.checks.mirror.unexplained import unexplained
from ackproof.judge.checks.placement.allocation import allocation
from ackproof.judge.checks.placement.key_moved import key_moved
from ackproof.judge.checks.placement.misplaced import misplaced
from ackproof.judge.checks.reads.aborted_read import aborted_read
from ackproof.judge.checks.reads.astray import astray
from ackproof.judge.checks.reads.delivered_twice import delivered_twice
from ackproof.judge.checks.reads.key_overtaken import key_overtaken
from ackproof.judge.checks.reads.repeated_read import repeated_read
from ackproof.judge.checks.reads.skipped_read import skipped_read
from ackproof.judge.checks.reads.uncommitted_read import uncommitted_read
from ackproof.judge.checks.reads.undelivered import undelivered
from ackproof.judge.checks.reads.unstable_read import unstable_read
from ackproof.judge.checks.timing.alerts import alerts
from ackproof.judge.checks.timing.dips import dips
from ackproof.judge.checks.timing.exits import exits
from ackproof.judge.checks.timing.late import late
from ackproof.judge.checks.timing.phases import phases
from ackproof.judge.checks.timing.rate import rate
from ackproof.judge.checks.timing.throughput import in_turn, throughput
from ackproof.judge.checks.timing.unavailable import unavailable
from ackproof.judge.checks.transactions.hung import hung
from ackproof.judge.checks.transactions.inexact import inexact
from ackproof.judge.checks.transactions.torn import torn
from ackproof.judge.doubts import Needs
from ackproof.judge.frames import Tables
from ackproof.judge.run_facts import exits as expected_exits
from ackproof.judge.site_moves import has_runbook
from ackproof.judge.transacted import has_transactions
from ackproof.model.run_record import Expected, RunRecord


def has_mirror(record: RunRecord) -> bool:
    return bool(record.mirrors)


@dataclass(frozen=True)
class Check:
    """A question. A row of its frame is a witness; where `marked` names a column, only rows with it set count."""

    function: Callable[[Tables], DataFrame]
    witness: str  # what one is, in words: "{found} acknowledged messages are lost"
    default: Expected = "allowed"
    needs: tuple[str, ...] = ("sends", "ends")  # tables without which "none found" is no evidence
    marked: str | None = None
    asks_fates: bool = False
    closer: bool = False  # it asks of single messages, so that of a large journal only a part need be looked at
    timed: bool = False  # it asks how long something took: refuted by nothing where the laboratory was late itself
    line: str = ""  # the judge's line that it compares with, in ms
    whole: bool = False  # it asks of all messages, and nothing is counted for it as a large journal is folded
    asked: Callable[[RunRecord], object] = lambda _: True  # whether the scenario asks it; else it is allowed
    given: Needs | None = None  # it asks what consumers were given: see `doubts`
    undecided: tuple[str, str] | None = None  # a column and its value that say that the evidence ended too early


def _has_keys(record: RunRecord) -> bool:
    return any(plan.get("keys") for plan in record.plan.get("producers", []))


CHECKS: dict[str, Check] = {
    "lost": Check(lost, "acknowledged message(s) not in the healed log", asks_fates=True, closer=True),
    "duplicated": Check(duplicated, "message(s) in the healed log more than once", closer=True),
    "reordered": Check(reordered, "step(s) back in the order of a producer", closer=True),
    "inconsistent_offset": Check(inconsistent_offset, "offset(s) that named two messages", closer=True),
    "unstable_read": Check(
        unstable_read, "read(s) of what the healed log does not hold there", needs=("reads", "ends"), closer=True
    ),
    "phantom": Check(phantom, "record(s) that no producer reserved", "forbidden", closer=True),
    "aborted_read": Check(
        aborted_read, "read(s) of a message whose send had failed", "forbidden", needs=("sends",), closer=True
    ),
    "resurrected": Check(
        resurrected, "message(s) in the log whose send had failed", "forbidden", asks_fates=True, closer=True
    ),
    "offset_gap": Check(offset_gap, "unexplained hole(s) in the offsets of the log", "forbidden", needs=("ends",)),
    "realtime_order": Check(
        realtime_order, "ack(s) at or below an offset acked before the send", needs=("sends",), closer=True
    ),
    "skipped_read": Check(skipped_read, "jump(s) of a consumer over records", needs=("reads",), closer=True),
    "repeated_read": Check(repeated_read, "step(s) back of a consumer", needs=("reads",), closer=True),
    "zombie_ack": Check(
        zombie_ack, "ack(s) by a leader of an epoch already past", needs=("state", "ends"), asks_fates=True, closer=True
    ),
    "dual_leader": Check(dual_leader, "time(s) with two brokers claiming one partition", needs=("state",)),
    "watermark_fell": Check(watermark_fell, "fall(s) of the high watermark with a new epoch", needs=("state",)),
    "unavailable": Check(
        unavailable, "wait(s) for an ack above the threshold", needs=("sends",), timed=True, line="unavailable_ms"
    ),
    "failover": Check(
        failover, "fault(s) at a partition", needs=("faults", "state"), asks_fates=True, closer=True, timed=True
    ),
    "late": Check(
        late,
        "kind(s) of latency with an ack later than the line",
        needs=("sends",),
        marked="late",
        timed=True,
        line="late_ms",
    ),
    "undelivered": Check(
        undelivered,
        "record(s) that a group was never given",
        needs=("groups", "reads", "ends"),
        closer=True,
        given="whole",
    ),
    "delivered_twice": Check(
        delivered_twice, "record(s) that a group was given twice", needs=("reads",), closer=True, given="owned"
    ),
    "shares": Check(
        shares,
        "member(s) of groups of which not as many read as expected",
        needs=("reads",),
        marked="wrong",
        given="whole",
    ),
    "rebalances": Check(
        rebalances,
        "group(s) that were shared out anew",
        needs=("groups",),
        marked="disturbed",
        timed=True,
        given="owned",
    ),
    "two_owners": Check(two_owners, "time(s) with two owners of one partition", needs=("groups",), given="owned"),
    "unowned": Check(unowned, "time(s) without an owner of a partition", needs=("groups",), timed=True, given="owned"),
    "commit_back": Check(commit_back, "commit(s) of an offset below an earlier one", needs=("commits",), given="owned"),
    "allocation": Check(
        allocation, "place(s) that the documented rule does not explain", needs=("state",), marked="wrong"
    ),
    "misplaced": Check(
        misplaced, "time(s) that logs were not put where the fewest were", needs=("places",), marked="wrong"
    ),
    "astray": Check(astray, "seek(s) that ended elsewhere", needs=("seeks",)),
    "vanished": Check(vanished, "time(s) in which a broker was no member", needs=("members",), timed=True),
    "unpublished": Check(
        unpublished,
        "message(s) of an outbox that the healed log does not hold",
        "forbidden",
        asks_fates=True,
        asked=has_outbox,
        closer=True,
    ),
    "exits": Check(
        exits, "producer(s) that did not end as expected", "forbidden", needs=("nodes",), asked=expected_exits
    ),
    "key_moved": Check(
        key_moved, "step(s) of a key to another partition", needs=("sends",), asked=_has_keys, whole=True
    ),
    "key_overtaken": Check(
        key_overtaken,
        "message(s) that a group was given after a later one of its key",
        needs=("sends", "reads"),
        asked=_has_keys,
        whole=True,
        given="in time",
    ),
    "phases": Check(
        phases,
        "phase(s) of a topic",
        asks_fates=True,
        asked=lambda record: record.plan.get("judge", {}).get("phases"),
        whole=True,
    ),
    "torn": Check(
        torn,
        "transaction(s) of which the healed log holds some and not all",
        "forbidden",
        needs=("transactions", "ends"),
        asks_fates=True,
        asked=has_transactions,
        whole=True,
    ),
    "uncommitted_read": Check(
        uncommitted_read,
        "read(s) of what was not committed by one who asked for committed messages",
        "forbidden",
        needs=("transactions", "reads"),
        asked=lambda record: has_transactions(record) and record.consumers,
        whole=True,
    ),
    "hung": Check(
        hung,
        "time(s) in which an open transaction held readers up past its time-out",
        "forbidden",
        needs=("transactions", "stable"),
        asked=has_transactions,
        whole=True,
        timed=True,
    ),
    "inexact": Check(
        inexact,
        "message(s) of an input that were not processed exactly once",
        "forbidden",
        needs=("transactions", "ends"),
        asked=has_transactions,
        whole=True,
    ),
    "refusals": Check(
        refusals,
        "message(s) of one who may not write that were not clearly refused",
        "forbidden",
        asks_fates=True,
        asked=has_refused,
        whole=True,
    ),
    "moves": Check(moves, "view(s) of a partition at a moment", needs=("state",)),
    "eligible": Check(eligible, "view(s) of who may lead without being in sync", needs=("eligible",)),
    "claims": Check(
        claims,
        "claim(s) about brokers that did not hold",
        "forbidden",
        needs=("state", "ends"),
        asked=lambda record: record.plan.get("claims"),
        whole=True,
        timed=True,
    ),
    "copies_through": Check(
        copies_through,
        "message(s) that a receiver took more than once",
        needs=("received",),
        asked=has_receivers,
        whole=True,
        given="whole",
    ),
    "wrongly_dropped": Check(
        wrongly_dropped,
        "message(s) that a receiver never took",
        needs=("received", "ends"),
        asked=has_receivers,
        whole=True,
        given="whole",
    ),
    "receivers": Check(
        receivers,
        "receiver(s) with other copies or drops than expected",
        "forbidden",
        needs=("received", "costs", "ends"),
        marked="wrong",
        asked=has_receivers,
        whole=True,
        given="whole",
    ),
    "throughput": Check(throughput, "table(s) of producers, one after the other", needs=("sends",), asked=in_turn),
    "mirror_differs": Check(
        mirror_differs,
        "difference(s) between a topic and its mirror",
        "forbidden",
        needs=("mirror_ends",),
        asks_fates=True,
        asked=has_mirror,
        whole=True,
    ),
    "mirrored_as": Check(mirrored_as, "partition(s) with a mirror", needs=("mirror_ends",), asked=has_mirror),
    "translated": Check(
        translated,
        "group offset(s) at a mirror that would make the group miss something",
        "forbidden",
        needs=("translated", "mirror_ends"),
        marked="ahead",
        asked=has_mirror,
        whole=True,
    ),
    "left_behind": Check(
        left_behind,
        "acknowledged message(s) that the mirror did not have when the writers moved",
        needs=("mirror_ends", "state"),
        asked=has_runbook,
        whole=True,
        timed=True,
    ),
    "unexplained": Check(
        unexplained,
        "message(s) left behind that the mirror's lag does not explain",
        "forbidden",
        needs=("mirror_ends", "state"),
        asked=has_runbook,
        whole=True,
        timed=True,
    ),
    "site_gap": Check(site_gap, "move(s) of clients to another site", needs=("sends",), asked=has_runbook, whole=True),
    "rate": Check(rate, "second(s) with fewer sends than the line", needs=("sends",), marked="below", timed=True),
    "dips": Check(
        dips,
        "second(s) of fewer acks or reads than the line that no fault explains",
        needs=("sends",),
        marked="uncovered",
        timed=True,
        asked=lambda record: (record.plan.get("judge") or {}).get("rate_line"),
    ),
    "alerts": Check(
        alerts,
        "alert(s) missed, late, stuck or false",
        "forbidden",
        needs=("alerts",),
        marked="bad",
        timed=True,
        asked=lambda record: record.plan.get("health"),
        undecided=("result", "unfinished"),
    ),
}
