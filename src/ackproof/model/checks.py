"""CHECKS: every question that the judge asks of a run, in the order of the verdict.

An entry says what a witness is, when the check applies, what it needs and what is expected where a scenario does not
say. The question itself is the function `<name>` in `judge/checks/<topic>/<name>.py`; `judge/registry.py` finds it.
The scenario schema, the validation of `[expect]`, the verdict's words and the tables in the docs come from here.

By default only what no configuration of Kafka permits is forbidden. What follows from acks=1 or from a network split is
allowed: an offset given twice, a read that did not last, a second leader, a high watermark that fell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ackproof.model import check_conditions as conditions
from ackproof.model.run_record import RunRecord
from ackproof.model.scenario import Expected

Topic = Literal["durability", "reads", "leadership", "groups", "transactions", "timing", "placement", "mirror", "dedup"]
# What a check needs of consumers: that they read everything; or that none of them was late or killed; or that none of
# them was so late that its group may have removed it.
ConsumerNeeds = Literal["whole", "in time", "owned"]


@dataclass(frozen=True)
class CheckKind:
    """One check. Each row that its function returns is a witness; with `counted_column`, only rows where it is set."""

    topic: Topic
    witness: str  # what the verdict counts: "{found} acknowledged message(s) not in the healed log"
    definition: str  # what exactly a witness is; a row of the table in docs/judge.md
    default: Expected = "allowed"
    needs: tuple[str, ...] = ("sends", "ends")  # tables without which "none found" is no evidence
    counted_column: str | None = None
    applies_to: Callable[[RunRecord], bool] = conditions.always  # to other runs the check is allowed
    needs_fates: bool = False
    prefilterable: bool = False  # it asks about single messages, so in a large journal it looks at suspect blocks only
    needs_full_scan: bool = False  # it asks about all messages, and nothing is counted for it while blocks are folded
    depends_on_time: bool = False  # it asks how long something took: a lab that was late itself cannot refute it
    threshold: str = ""  # the key of [judge] that it compares with, in ms
    needs_consumers: ConsumerNeeds | None = None  # it asks what consumers were given: see `judge/doubts.py`
    inconclusive_when: tuple[str, str] | None = None  # a column and its value: the evidence ended too early
    needs_epochs: bool = False  # it asks for leader epochs, which a log that is read from Kafka itself does not tell
    # What an external client does not tell, so that the check is not applicable to it:
    producers_lack: str = ""
    consumers_lack: str = ""
    latest_consumers_lack: str = ""  # consumers that start at the latest offset


CHECKS: dict[str, CheckKind] = {
    "lost": CheckKind(
        "durability", "acknowledged message(s) not in the healed log",
        "an ok send with a `lost_*` fate, and who holds its offset now",
        needs_fates=True, prefilterable=True,
    ),
    "duplicated": CheckKind(
        "durability", "message(s) in the healed log more than once",
        "a value at more than one place of the final log",
        prefilterable=True,
    ),
    "reordered": CheckKind(
        "durability", "step(s) back in the order of a producer",
        "within (producer, tp), in the order sent, a first position not above the one before. Each step back counts "
        "once; later copies do not count",
        prefilterable=True,
    ),
    "inconsistent_offset": CheckKind(
        "durability", "offset(s) that named two messages",
        "one (tp, offset) with two values among acks, live reads and final log; `seen` names the lowest and highest "
        "by each",
        prefilterable=True,
    ),
    "unstable_read": CheckKind(
        "reads", "read(s) of what the healed log does not hold there",
        "a live read whose (tp, offset) holds another value, or none, in the final log; not what retention or "
        "compaction took",
        needs=("reads", "ends"), prefilterable=True,
    ),
    "phantom": CheckKind(
        "durability", "record(s) that no producer reserved",
        "a record, in the log or read, of a number that no producer reserved, or that it gave back unused; "
        "one without a number may be a stranger's (see Fitness)",
        default="forbidden", prefilterable=True,
    ),
    "aborted_read": CheckKind(
        "reads", "read(s) of a message whose send had failed",
        "a live read of a value whose send certainly failed",
        default="forbidden", needs=("sends",), prefilterable=True, producers_lack="which sends certainly failed",
    ),
    "resurrected": CheckKind(
        "durability", "message(s) in the log whose send had failed",
        "a send that certainly failed, in the log",
        default="forbidden", needs_fates=True, prefilterable=True, producers_lack="which sends certainly failed",
    ),
    "offset_gap": CheckKind(
        "durability", "unexplained hole(s) in the offsets of the log",
        "a stretch of offsets of a plain topic without records",
        default="forbidden", needs=("ends",),
    ),
    "realtime_order": CheckKind(
        "durability", "ack(s) at or below an offset acked before the send",
        "an ack at or below an offset that was acked before this send began",
        needs=("sends",), prefilterable=True, producers_lack="when a send began",
    ),
    "poll_skip": CheckKind(
        "reads", "jump(s) of a consumer over records",
        "within (consumer, assignment, tp) a step over offsets at which somebody saw a record; in a compacted "
        "topic, over those that still hold one",
        needs=("reads",), prefilterable=True,
    ),
    "nonmonotonic_poll": CheckKind(
        "reads", "step(s) back of a consumer",
        "within (consumer, assignment, tp) a step that does not rise",
        needs=("reads",), prefilterable=True,
    ),
    "stale_leader_ack": CheckKind(
        "leadership", "ack(s) by a leader of an epoch already past",
        "an ok ack of an epoch older than one already seen when it came (an epoch also grows without a new leader, "
        "where a dead replica leaves the in-sync ones: what was under way then counts too)",
        needs=("state", "ends"), needs_fates=True, prefilterable=True, needs_epochs=True,
        producers_lack="when an acknowledgement reached it",
    ),
    "dual_leader": CheckKind(
        "leadership", "time(s) with two brokers claiming one partition",
        "two brokers' claims to a tp that overlap",
        needs=("state",),
    ),
    "watermark_regression": CheckKind(
        "durability", "fall(s) of the high watermark with a new epoch",
        "a high watermark below one that an older epoch had shown",
        needs=("state",),
    ),
    "unavailable": CheckKind(
        "timing", "wait(s) for an ack above the threshold",
        "a wait for an ack of a tp longer than the threshold",
        needs=("sends",), depends_on_time=True, threshold="unavailable_ms", producers_lack="since when a send waited",
    ),
    "failover": CheckKind(
        "leadership", "fault(s) at a partition",
        "a fault at a tp: first error, new epoch, first ack from it, ISR full, in milliseconds from the proof",
        needs=("faults", "state"), needs_fates=True, prefilterable=True, depends_on_time=True,
        producers_lack="when an acknowledgement or an error reached it",
    ),
    "ack_latency": CheckKind(
        "timing", "kind(s) of latency with an ack later than the line",
        "percentiles of latency from due and from sent; counts if an ack was later than the line",
        needs=("sends",), counted_column="late", depends_on_time=True, threshold="late_ms",
        producers_lack="when a send was due, nor when it began",
    ),
    "undelivered": CheckKind(
        "reads", "record(s) that a group was never given",
        "a record of the healed log, at or past the place where a group began, that no consumer of the group was "
        "given; where none of it was ever placed, a group that reads from the earliest on began with the log",
        needs=("groups", "reads", "ends"), prefilterable=True, needs_consumers="whole",
        latest_consumers_lack="from where on a partition was read",
    ),
    "delivered_twice": CheckKind(
        "reads", "record(s) that a group was given twice",
        "a position that a group's consumers were given more than once",
        needs=("reads",), prefilterable=True, needs_consumers="owned",
    ),
    "partition_shares": CheckKind(
        "groups", "member(s) of groups of which not as many read as expected",
        "a measure: what each member of a group read, and of how many partitions; counts members of groups of which "
        "not as many read as the scenario's `readers` say",
        needs=("reads",), counted_column="wrong", needs_consumers="whole",
    ),
    "rebalances": CheckKind(
        "groups", "group(s) that were shared out anew",
        "a measure: how often each group was shared out anew during the load, and how many partition-seconds had no "
        "owner; counts groups that were",
        needs=("groups",), counted_column="disturbed", depends_on_time=True, needs_consumers="owned",
        consumers_lack="when exactly it owned a partition",
    ),
    "dual_ownership": CheckKind(
        "groups", "time(s) with two owners of one partition",
        "a time in which two consumers of a group both believed that a partition was theirs",
        needs=("groups",), needs_consumers="owned", consumers_lack="when exactly it owned a partition",
    ),
    "ownership_gap": CheckKind(
        "groups", "time(s) without an owner of a partition",
        "a time in which no consumer of a group owned a partition of its topic",
        needs=("groups",), depends_on_time=True, needs_consumers="owned",
        consumers_lack="when exactly it owned a partition",
    ),
    "commit_regression": CheckKind(
        "groups", "commit(s) of an offset below an earlier one",
        "an accepted commit below an earlier one of the same group and tp",
        needs=("commits",), needs_consumers="owned", consumers_lack="when exactly it committed",
    ),
    "allocation": CheckKind(
        "placement", "place(s) that the documented rule does not explain",
        "where each partition's replicas stand, and beside it what the documented rule makes of the start and the "
        "shift that were inferred; counts what it does not explain (exactly with ZooKeeper, its properties with "
        "KRaft). What a topic has grown by is left out, for it is placed anew",
        needs=("state",), counted_column="wrong",
    ),
    "log_dir_placement": CheckKind(
        "placement", "time(s) that logs were not put where the fewest were",
        "each time that a broker was given logs: what its directories held before and after, and beside it what the "
        "documented rule (where the fewest are) makes of it; counts where they differ",
        needs=("places",), counted_column="wrong",
    ),
    "seek_mismatch": CheckKind(
        "reads", "seek(s) that ended elsewhere",
        "a seek that ended elsewhere than at its offset, at the first record not older than its time, or where the "
        "policy says; one without an answer, too",
        needs=("seeks",),
    ),
    "membership_gap": CheckKind(
        "groups", "time(s) in which a broker was no member",
        "a time in which ZooKeeper, or a broker, did not name a member of the cluster that it had named before",
        needs=("members",), depends_on_time=True,
    ),
    "unpublished": CheckKind(
        "durability", "message(s) of an outbox that the healed log does not hold",
        "a message of a producer's outbox that the healed log does not hold, acknowledged or not",
        default="forbidden", applies_to=conditions.has_outbox, needs_fates=True, prefilterable=True,
    ),
    "exit_codes": CheckKind(
        "timing", "producer(s) that did not end as expected",
        "a producer that did not end with the exit codes that the scenario expects, life after life",
        default="forbidden", needs=("nodes",), applies_to=conditions.expects_exits,
    ),
    "key_moved": CheckKind(
        "placement", "step(s) of a key to another partition",
        "a step of a key from one partition to another, with the last message before it and the first after it",
        needs=("sends",), applies_to=conditions.has_keys, needs_full_scan=True,
    ),
    "key_reordered": CheckKind(
        "reads", "message(s) that a group was given after a later one of its key",
        "a message that a group was given after a later one of its key, and how much later",
        needs=("sends", "reads"), applies_to=conditions.has_keys, needs_full_scan=True, needs_consumers="in time",
    ),
    "phases": CheckKind(
        "timing", "phase(s) of a topic",
        "a measure, where the scenario's table `judge` says `phases = true`: what became of each topic's messages "
        "between one fault and the next",
        applies_to=conditions.asks_for_phases, needs_fates=True, needs_full_scan=True,
        producers_lack="when a send was made",
    ),
    "torn_transaction": CheckKind(
        "transactions", "transaction(s) of which the healed log holds some and not all",
        "a transaction, whatever became of it, of which the healed log holds some messages and not others",
        default="forbidden", needs=("transactions", "ends"), applies_to=conditions.has_transactions, needs_fates=True,
        needs_full_scan=True,
    ),
    "uncommitted_read": CheckKind(
        "reads", "read(s) of what was not committed by one who asked for committed messages",
        "a live read by a consumer with read_committed of a message whose transaction was aborted, or had not asked "
        "for its commit yet",
        default="forbidden", needs=("transactions", "reads"), applies_to=conditions.reads_transactions,
        needs_full_scan=True,
    ),
    "hanging_transaction": CheckKind(
        "transactions", "time(s) in which an open transaction held readers up past its time-out",
        "a time in which the last stable offset of a tp stood still below the high watermark for longer than the "
        "longest time-out of a transaction and ten seconds",
        default="forbidden", needs=("transactions", "stable"), applies_to=conditions.has_transactions,
        needs_full_scan=True, depends_on_time=True,
    ),
    "not_exactly_once": CheckKind(
        "transactions", "message(s) of an input that were not processed exactly once",
        "a message of a transactional producer's input that has more or fewer answers in the healed log than it "
        "stands there",
        default="forbidden", needs=("transactions", "ends"), applies_to=conditions.has_transactions,
        needs_full_scan=True,
    ),
    "refusals": CheckKind(
        "durability", "message(s) of one who may not write that were not clearly refused",
        "a message of a producer that the scenario calls `refused` that did not certainly fail for want of a "
        "permission, or is in the log; or such a producer that never tried",
        default="forbidden", applies_to=conditions.has_refused_producers, needs_fates=True, needs_full_scan=True,
    ),
    "leadership_history": CheckKind(
        "leadership", "view(s) of a partition at a moment",
        "a measure: who led each tp, and who was in sync, at each moment of the run",
        needs=("state",),
    ),
    "eligible_leaders": CheckKind(
        "leadership", "view(s) of who may lead without being in sync",
        "a measure, of Kafka 4 in KRaft mode: who might have led each tp without being in sync (KIP-966), at each "
        "moment of the run",
        needs=("eligible",),
    ),
    "claims": CheckKind(
        "leadership", "claim(s) about brokers that did not hold",
        "a claim of the scenario about leaders, replicas or acknowledgements at a moment that the brokers' own "
        "words, or the producers', do not bear out; also one about a partition that nobody told of",
        default="forbidden", needs=("state", "ends"), applies_to=conditions.has_claims, needs_full_scan=True,
        depends_on_time=True,
    ),
    "duplicate_accepted": CheckKind(
        "dedup", "message(s) that a receiver took more than once",
        "a value that a receiver took for new more than once",
        needs=("received",), applies_to=conditions.has_receivers, needs_full_scan=True, needs_consumers="whole",
    ),
    "wrongly_dropped": CheckKind(
        "dedup", "message(s) that a receiver never took",
        "a value of the healed log that a receiver of its topic never took: dropped each time that it came "
        "(`dropped` says how often), or never come to. One witness, in however many partitions it stands",
        needs=("received", "ends"), applies_to=conditions.has_receivers, needs_full_scan=True,
        needs_consumers="whole",
    ),
    "receivers": CheckKind(
        "dedup", "receiver(s) with other copies or drops than expected",
        "each receiver: what it let through and dropped, and what it cost; counts those with other copies or drops "
        "than the scenario expects of them",
        default="forbidden", needs=("received", "costs", "ends"), counted_column="wrong",
        applies_to=conditions.has_receivers, needs_full_scan=True, needs_consumers="whole",
    ),
    "throughput": CheckKind(
        "timing", "table(s) of producers, one after the other",
        "a measure: acknowledged messages a second of each table of producers, where they come one after the other; "
        "from the first of them that was sent to the last ack",
        needs=("sends",), applies_to=conditions.has_producers_in_turn,
        producers_lack="when a send began, nor when an acknowledgement reached it",
    ),
    "mirror_differs": CheckKind(
        "mirror", "difference(s) between a topic and its mirror",
        "a value that a topic's mirror lacks, has more often, or holds otherwise (`changed`: another key, value, "
        "header or timestamp), or has before one that came earlier; partition by partition, by value and not by "
        "offset",
        default="forbidden", needs=("mirror_ends",), applies_to=conditions.has_mirrors, needs_fates=True,
        needs_full_scan=True,
    ),
    "mirror_layout": CheckKind(
        "mirror", "partition(s) with a mirror",
        "a measure: each partition that holds anything with its mirror's name, both counts, and by how much the "
        "offsets of our messages differ",
        needs=("mirror_ends",), applies_to=conditions.has_mirrors,
    ),
    "offset_translation": CheckKind(
        "mirror", "group offset(s) at a mirror that would make the group miss something",
        "where a group goes on at a mirror beside where it goes on in the topic itself: how much it would read "
        "again; counts if it would miss something. Of what both hold: read again is what the group has done here "
        "and would be given there, missed what it has not begun here and would not be given there. Not once the "
        "group reads at the mirror, where it then commits by itself",
        default="forbidden", needs=("translated", "mirror_ends"), counted_column="ahead",
        applies_to=conditions.has_mirrors, needs_full_scan=True,
    ),
    "unreplicated": CheckKind(
        "mirror", "acknowledged message(s) that the mirror did not have when the writers moved",
        "an ack of one site that its mirror did not hold when the writers first were acknowledged at the other",
        needs=("mirror_ends", "state"), applies_to=conditions.has_runbook, needs_full_scan=True, depends_on_time=True,
    ),
    "unexplained": CheckKind(
        "mirror", "message(s) left behind that the mirror's lag does not explain",
        "one of these that is not the mirror's lag: the mirror had copied a later offset of its partition",
        default="forbidden", needs=("mirror_ends", "state"), applies_to=conditions.has_runbook, needs_full_scan=True,
        depends_on_time=True,
    ),
    "site_gap": CheckKind(
        "mirror", "move(s) of clients to another site",
        "a measure: each move of writers, or of a group, to another site: from the last ack or read at one to the "
        "first at the other, and what was read again",
        needs=("sends",), applies_to=conditions.has_runbook, needs_full_scan=True,
    ),
    "rate": CheckKind(
        "timing", "second(s) with fewer sends than the line",
        "a second of the load, from its first send to its last, and any other in which something happened: sent, "
        "acked, read, and the fault that covers it; counts if fewer were sent than the line",
        needs=("sends",), counted_column="below", depends_on_time=True, producers_lack="when a send was made",
    ),
    "dips": CheckKind(
        "timing", "second(s) of fewer acks or reads than the line that no fault explains",
        "a second with fewer acked or read (where there is a consumer) than the line, or with more than the line "
        "waiting for an outcome; counts if no fault covers it. Not in the first second, which has none of the "
        "answers to what was sent before",
        needs=("sends",), counted_column="uncovered", applies_to=conditions.has_rate_line, depends_on_time=True,
        producers_lack="when an acknowledgement reached it",
    ),
    "alerts": CheckKind(
        "timing", "alert(s) missed, late, stuck or false",
        "an alert that the scenario expects, or one that it does not, and whether a person is told at once or in "
        "the morning; counts those missed, late, stuck or false",
        default="forbidden", needs=("alerts",), counted_column="bad", applies_to=conditions.has_health_check,
        depends_on_time=True, inconclusive_when=("result", "unfinished"),
    ),
}  # fmt: skip
