"""CHECKS: every question that the judge asks of a run, in the order of the verdict.

An entry says what a witness is, when the check applies, what it needs, and what a run may show if its scenario does not
say. The question itself is the function `<name>` in `judge/checks/<topic>/<name>.py`; `judge/registry.py` finds it.
The scenario schema, the validation of `[expect]`, the words of the verdict and the tables in the docs come from here.

By default a check forbids only what no configuration of Kafka permits. It allows what follows from acks=1 or from a
network split: an offset given twice, a read that did not last, a second leader, a high watermark that fell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ackproof.model import check_conditions as conditions
from ackproof.model.run_record import RunRecord
from ackproof.model.scenario import Expected

Topic = Literal["durability", "reads", "leadership", "groups", "transactions", "timing", "placement", "mirror", "dedup"]
# What a check needs of consumers: "whole": they read everything; "in time": none was late or killed; "owned": none was
# so late that its group may have removed it.
ConsumerNeeds = Literal["whole", "in time", "owned"]


@dataclass(frozen=True)
class CheckKind:
    """One check. Each row that its function returns is a witness; with `counted_column`, only rows where it is set."""

    topic: Topic
    witness: str  # the unit that the verdict counts: "{found} acknowledged message(s) missing from the healed log"
    definition: str  # exactly what a witness is; a row of the table in docs/judge.md
    default: Expected = "allowed"
    needs: tuple[str, ...] = ("sends", "ends")  # if one of these tables is empty, finding no witness proves nothing
    counted_column: str | None = None
    applies_to: Callable[[RunRecord], bool] = conditions.always  # in other runs nothing is expected of it
    needs_fates: bool = False
    prefilterable: bool = False  # it asks about single messages; in a large journal it reads the suspect blocks only
    needs_full_scan: bool = False  # it asks about all messages, and the prefilter counts nothing for it
    depends_on_time: bool = False  # it asks how long something took; if the lab was late, it is not refuted
    threshold: str = ""  # the key of [judge] that it compares with, in ms
    needs_consumers: ConsumerNeeds | None = None  # it asks what consumers received: see `judge/doubts.py`
    inconclusive_when: tuple[str, str] | None = None  # a column and its value: the observation ended too early
    needs_epochs: bool = False  # it asks for leader epochs, which a log read from a live cluster does not contain
    # Facts that an external client does not report. The check is then not applicable to it.
    producers_lack: str = ""
    consumers_lack: str = ""
    latest_consumers_lack: str = ""  # consumers that start at the latest offset


CHECKS: dict[str, CheckKind] = {
    "lost": CheckKind(
        "durability", "acknowledged message(s) missing from the healed log",
        "an acknowledged message with a `lost_*` fate, and which message holds its offset now",
        needs_fates=True, prefilterable=True,
    ),
    "duplicated": CheckKind(
        "durability", "message(s) in the healed log more than once",
        "a message at more than one place of the healed log",
        prefilterable=True,
    ),
    "reordered": CheckKind(
        "durability", "message(s) out of the order of their producer",
        "a message whose first copy does not stand above that of the message which the same producer sent to the "
        "partition just before. Each such step back counts once; later copies do not count",
        prefilterable=True,
    ),
    "inconsistent_offset": CheckKind(
        "durability", "offset(s) seen with two messages",
        "one offset of a partition with two messages among acknowledgements, live reads and healed log; `seen` "
        "names the lowest and highest message of each of these",
        prefilterable=True,
    ),
    "unstable_read": CheckKind(
        "reads", "read(s) of a record that the healed log does not hold there",
        "a live read of an offset at which the healed log holds another message, or none. Records that retention or "
        "compaction removed do not count",
        needs=("reads", "ends"), prefilterable=True,
    ),
    "phantom": CheckKind(
        "durability", "record(s) with a number that no producer reserved",
        "a record, in the healed log or read, with a message number that no producer reserved, or that its producer "
        "gave back unused. A record without a number may come from a stranger (see Fitness)",
        default="forbidden", prefilterable=True,
    ),
    "aborted_read": CheckKind(
        "reads", "read(s) of a message whose send had failed",
        "a live read of a message whose send certainly failed",
        default="forbidden", needs=("sends",), prefilterable=True, producers_lack="which sends certainly failed",
    ),
    "resurrected": CheckKind(
        "durability", "message(s) in the healed log whose send had failed",
        "a message in the healed log whose send certainly failed",
        default="forbidden", needs_fates=True, prefilterable=True, producers_lack="which sends certainly failed",
    ),
    "offset_gap": CheckKind(
        "durability", "unexplained hole(s) in the offsets of the log",
        "a stretch of offsets without records, in a topic without transactions and compaction",
        default="forbidden", needs=("ends",),
    ),
    "realtime_order": CheckKind(
        "durability", "message(s) at or below an offset that was acknowledged before the send",
        "a message acknowledged at or below an offset of its partition that had been acknowledged before its send "
        "began",
        needs=("sends",), prefilterable=True, producers_lack="when a send began",
    ),
    "poll_skip": CheckKind(
        "reads", "jump(s) of a consumer over records",
        "a step of a consumer, within one assignment of a partition, over offsets at which the final read or a "
        "consumer saw a record; in a compacted topic, over offsets that still hold one",
        needs=("reads",), prefilterable=True,
    ),
    "nonmonotonic_poll": CheckKind(
        "reads", "step(s) back of a consumer",
        "a step of a consumer, within one assignment of a partition, to an offset that is not above the one before",
        needs=("reads",), prefilterable=True,
    ),
    "stale_leader_ack": CheckKind(
        "leadership", "acknowledgement(s) from a leader whose epoch was over",
        "an acknowledgement from a leader epoch older than one that a broker had shown before the acknowledgement "
        "came. An epoch also ends without a new leader, when a dead replica leaves the in-sync replicas; a send that "
        "was in flight then counts too",
        needs=("state", "ends"), needs_fates=True, prefilterable=True, needs_epochs=True,
        producers_lack="when an acknowledgement reached it",
    ),
    "dual_leader": CheckKind(
        "leadership", "period(s) in which two brokers claimed one partition",
        "two brokers whose claims to lead a partition overlap in time",
        needs=("state",),
    ),
    "watermark_regression": CheckKind(
        "durability", "fall(s) of the high watermark with a new leader epoch",
        "a high watermark below one that an older leader epoch of the partition had shown",
        needs=("state",),
    ),
    "unavailable": CheckKind(
        "timing", "wait(s) for an acknowledgement longer than the threshold",
        "a wait for an acknowledgement from a partition that lasted longer than `unavailable_ms`",
        needs=("sends",), depends_on_time=True, threshold="unavailable_ms", producers_lack="since when a send waited",
    ),
    "failover": CheckKind(
        "leadership", "pair(s) of a fault and a partition",
        "a measure: for each fault and partition, the milliseconds from the fault's proof to the first error, the "
        "new leader epoch, the first acknowledgement from that epoch, and the full in-sync set",
        needs=("faults", "state"), needs_fates=True, prefilterable=True, depends_on_time=True,
        producers_lack="when an acknowledgement or an error reached it",
    ),
    "ack_latency": CheckKind(
        "timing", "kind(s) of latency with an acknowledgement later than the line",
        "a measure: percentiles of the time until the acknowledgement, from when the send was due and from when it "
        "was made; counts if an acknowledgement took longer than `late_ms`",
        needs=("sends",), counted_column="late", depends_on_time=True, threshold="late_ms",
        producers_lack="when a send was due, nor when it began",
    ),
    "undelivered": CheckKind(
        "reads", "record(s) never delivered to a group",
        "a record of the healed log, at or past the offset where a group began, that was delivered to no consumer "
        "of the group. In a partition that the group was never assigned, a group that reads from the earliest "
        "offset began with the log",
        needs=("groups", "reads", "ends"), prefilterable=True, needs_consumers="whole",
        latest_consumers_lack="from where on a partition was read",
    ),
    "delivered_twice": CheckKind(
        "reads", "record(s) delivered to a group more than once",
        "an offset that was delivered to consumers of one group more than once",
        needs=("reads",), prefilterable=True, needs_consumers="owned",
    ),
    "partition_shares": CheckKind(
        "groups", "member(s) of a group with an unexpected number of readers",
        "a measure: how many records each member of a group read, and from how many partitions; counts the members of "
        "a group if the number of its members that read is not the scenario's `readers`",
        needs=("reads",), counted_column="wrong", needs_consumers="whole",
    ),
    "rebalances": CheckKind(
        "groups", "group(s) that rebalanced",
        "a measure: how often each group rebalanced during the load (its initial assignment is not counted), and "
        "for how many partition-seconds its partitions had no owner; counts groups that rebalanced",
        needs=("groups",), counted_column="disturbed", depends_on_time=True, needs_consumers="owned",
        consumers_lack="when exactly it owned a partition",
    ),
    "dual_ownership": CheckKind(
        "groups", "period(s) in which a partition had two owners",
        "a period in which two consumers of a group both believed that they owned a partition",
        needs=("groups",), needs_consumers="owned", consumers_lack="when exactly it owned a partition",
    ),
    "ownership_gap": CheckKind(
        "groups", "period(s) in which a partition had no owner",
        "a period in which no consumer of a group owned a partition of its topic",
        needs=("groups",), depends_on_time=True, needs_consumers="owned",
        consumers_lack="when exactly it owned a partition",
    ),
    "commit_regression": CheckKind(
        "groups", "commit(s) of an offset below an earlier commit",
        "an accepted commit below an earlier one of the same group and partition",
        needs=("commits",), needs_consumers="owned", consumers_lack="when exactly it committed",
    ),
    "allocation": CheckKind(
        "placement", "replica placement(s) that the documented rule does not explain",
        "a measure: the replicas of each partition, and beside them the result of Kafka's documented rule with the "
        "start and the shift that the judge inferred; counts what the rule does not explain (with ZooKeeper the "
        "exact sequence, with KRaft only the rule's properties). Partitions that were added to a topic are left "
        "out, because Kafka places them anew",
        needs=("state",), counted_column="wrong",
    ),
    "log_dir_placement": CheckKind(
        "placement", "placement(s) of logs in directories that did not hold the fewest",
        "a measure: each time that a broker got new logs, how many its directories held before and after, and "
        "beside it the result of the documented rule (each log goes to the directory with the fewest); counts where "
        "they differ",
        needs=("places",), counted_column="wrong",
    ),
    "seek_mismatch": CheckKind(
        "reads", "seek(s) that ended at a wrong place",
        "a seek that did not end at its offset, at the first record that is not older than its time, or where the "
        "reset policy says; also a seek without an answer",
        needs=("seeks",),
    ),
    "membership_gap": CheckKind(
        "groups", "period(s) in which a broker was not listed as a member",
        "a period in which ZooKeeper, or a broker, did not list a member of the cluster that it had listed before",
        needs=("members",), depends_on_time=True,
    ),
    "unpublished": CheckKind(
        "durability", "message(s) of an outbox missing from the healed log",
        "a message of a producer's outbox, acknowledged or not, that is missing from the healed log and did not "
        "expire",
        default="forbidden", applies_to=conditions.has_outbox, needs_fates=True, prefilterable=True,
    ),
    "exit_codes": CheckKind(
        "timing", "producer(s) with unexpected exit codes",
        "a producer whose processes did not end, one after the other, with the exit codes that the scenario expects",
        default="forbidden", needs=("nodes",), applies_to=conditions.expects_exits,
    ),
    "key_moved": CheckKind(
        "placement", "move(s) of a key to another partition",
        "a move of a key from one partition to another, with the last message before it and the first after it",
        needs=("sends",), applies_to=conditions.has_keys, needs_full_scan=True,
    ),
    "key_reordered": CheckKind(
        "reads", "message(s) delivered to a group after a later one of the same key",
        "a message that was delivered to a group after a later message of the same key, and how much later",
        needs=("sends", "reads"), applies_to=conditions.has_keys, needs_full_scan=True, needs_consumers="in time",
    ),
    "phases": CheckKind(
        "timing", "phase(s) of a topic",
        "a measure, if the scenario's `[judge]` table says `phases = true`: what became of each topic's messages "
        "between one fault and the next",
        applies_to=conditions.asks_for_phases, needs_fates=True, needs_full_scan=True,
        producers_lack="when a send was made",
    ),
    "torn_transaction": CheckKind(
        "transactions", "transaction(s) that the healed log holds only in part",
        "a transaction, whatever its outcome, of which the healed log holds some messages and not others",
        default="forbidden", needs=("transactions", "ends"), applies_to=conditions.has_transactions, needs_fates=True,
        needs_full_scan=True,
    ),
    "uncommitted_read": CheckKind(
        "reads", "read(s) of an uncommitted message by a read_committed consumer",
        "a live read, by a `read_committed` consumer, of a message whose transaction was aborted, or whose producer "
        "had not asked for its commit yet",
        default="forbidden", needs=("transactions", "reads"), applies_to=conditions.reads_transactions,
        needs_full_scan=True,
    ),
    "hanging_transaction": CheckKind(
        "transactions", "period(s) in which an open transaction blocked readers past its timeout",
        "a period in which the last stable offset of a partition stood still below the high watermark for longer "
        "than the longest transaction timeout plus ten seconds",
        default="forbidden", needs=("transactions", "stable"), applies_to=conditions.has_transactions,
        needs_full_scan=True, depends_on_time=True,
    ),
    "not_exactly_once": CheckKind(
        "transactions", "input message(s) that were not processed exactly once",
        "a message of a transactional producer's input that has more or fewer answers in the healed log than it has "
        "copies in the input",
        default="forbidden", needs=("transactions", "ends"), applies_to=conditions.has_transactions,
        needs_full_scan=True,
    ),
    "refusals": CheckKind(
        "durability", "message(s) that a refused producer did not clearly fail to write",
        "a message of a producer that the scenario calls `refused`, if it did not certainly fail for lack of "
        "permission, or is in the log; also such a producer that never tried to write",
        default="forbidden", applies_to=conditions.has_refused_producers, needs_fates=True, needs_full_scan=True,
    ),
    "leadership_history": CheckKind(
        "leadership", "view(s) of a partition at a moment",
        "a measure: which broker led each partition, and which replicas were in sync, at each moment of the run",
        needs=("state",),
    ),
    "eligible_leaders": CheckKind(
        "leadership", "view(s) with a replica that may lead without being in sync",
        "a measure, with Kafka 4 in KRaft mode: which replicas might have led each partition without being in sync "
        "(KIP-966), at each moment of the run",
        needs=("eligible",),
    ),
    "claims": CheckKind(
        "leadership", "claim(s) of the scenario that did not hold",
        "a claim of the scenario about leaders, replicas or acknowledgements at a moment that the observations "
        "contradict; also a claim about a partition without observations",
        default="forbidden", needs=("state", "ends"), applies_to=conditions.has_claims, needs_full_scan=True,
        depends_on_time=True,
    ),
    "duplicate_accepted": CheckKind(
        "dedup", "message(s) that a receiver accepted more than once",
        "a message that a receiver accepted as new more than once",
        needs=("received",), applies_to=conditions.has_receivers, needs_full_scan=True, needs_consumers="whole",
    ),
    "wrongly_dropped": CheckKind(
        "dedup", "message(s) that a receiver never accepted",
        "a message of the healed log that a receiver of its topic never accepted: it dropped the message each time "
        "(`dropped` says how often), or never read it. A message that stands in several partitions is one witness",
        needs=("received", "ends"), applies_to=conditions.has_receivers, needs_full_scan=True,
        needs_consumers="whole",
    ),
    "receivers": CheckKind(
        "dedup", "receiver(s) with unexpected copies or drops",
        "a measure: what each receiver accepted and dropped, and what that cost; counts receivers whose copies or "
        "drops are not what the scenario expects",
        default="forbidden", needs=("received", "costs", "ends"), counted_column="wrong",
        applies_to=conditions.has_receivers, needs_full_scan=True, needs_consumers="whole",
    ),
    "throughput": CheckKind(
        "timing", "table(s) of producers that ran one after the other",
        "a measure, if producers run one after the other: the acknowledged messages per second of each "
        "`[[producers]]` table, from the first acknowledged send to the last acknowledgement",
        needs=("sends",), applies_to=conditions.has_producers_in_turn,
        producers_lack="when a send began, nor when an acknowledgement reached it",
    ),
    "mirror_differs": CheckKind(
        "mirror", "difference(s) between a topic and its mirror",
        "a message that the mirror of a topic lacks, has more often, holds otherwise (`changed`: another key, "
        "value, header or timestamp), or holds before an earlier one. Each partition is compared by message, not by "
        "offset",
        default="forbidden", needs=("mirror_ends",), applies_to=conditions.has_mirrors, needs_fates=True,
        needs_full_scan=True,
    ),
    "mirror_layout": CheckKind(
        "mirror", "partition(s) with a mirror",
        "a measure: each partition that holds records, with the name of its mirror, both counts, and by how much "
        "the offsets of our messages differ",
        needs=("mirror_ends",), applies_to=conditions.has_mirrors,
    ),
    "offset_translation": CheckKind(
        "mirror", "translated offset(s) that would make a group miss records",
        "a measure: the offset at which a group would continue at a mirror, beside its offset in the original "
        "topic. `again` counts the records that the group has processed here and would be given again there; "
        "`missed` counts those that it has not processed here and would not be given there; only records that both "
        "topics hold count. A row counts if records would be missed. Once the group reads at the mirror it commits "
        "there by itself, and its offsets are left out",
        default="forbidden", needs=("translated", "mirror_ends"), counted_column="ahead",
        applies_to=conditions.has_mirrors, needs_full_scan=True,
    ),
    "unreplicated": CheckKind(
        "mirror", "acknowledged message(s) missing from the mirror when the producers moved",
        "a message acknowledged at one site that the mirror did not hold when producers were first acknowledged at "
        "the other site",
        needs=("mirror_ends", "state"), applies_to=conditions.has_runbook, needs_full_scan=True, depends_on_time=True,
    ),
    "unexplained": CheckKind(
        "mirror", "message(s) missing from the mirror that its lag does not explain",
        "a witness of `unreplicated` that the mirror's lag does not explain: the mirror had already copied a later "
        "offset of the partition",
        default="forbidden", needs=("mirror_ends", "state"), applies_to=conditions.has_runbook, needs_full_scan=True,
        depends_on_time=True,
    ),
    "site_gap": CheckKind(
        "mirror", "move(s) of clients to another site",
        "a measure: each move of the producers, or of a group, to another site: the time from the last "
        "acknowledgement or read at one site to the first at the other, and how many records were read again",
        needs=("sends",), applies_to=conditions.has_runbook, needs_full_scan=True,
    ),
    "rate": CheckKind(
        "timing", "second(s) with fewer sends than the line",
        "a measure: each second from the first send of the load to the last, and any other in which something "
        "happened: messages sent, acknowledged and read, and the fault that covers the second; counts if fewer were "
        "sent than `rate_line`",
        needs=("sends",), counted_column="below", depends_on_time=True, producers_lack="when a send was made",
    ),
    "dips": CheckKind(
        "timing", "second(s) with too few acknowledgements or reads, or too many open sends, that no fault explains",
        "a second with fewer acknowledgements, or reads (if there is a consumer), than `rate_line`, or with more "
        "sends than that waiting for an outcome; counts if no fault covers the second. The first second is left "
        "out: it has no answers to earlier sends",
        needs=("sends",), counted_column="uncovered", applies_to=conditions.has_rate_line, depends_on_time=True,
        producers_lack="when an acknowledgement reached it",
    ),
    "alerts": CheckKind(
        "timing", "alert(s) missed, late, stuck or false",
        "a measure: each alert that the scenario expects, and each that it does not, and whether a person is told "
        "at once or in the morning; counts alerts that were missed, late, stuck or false",
        default="forbidden", needs=("alerts",), counted_column="bad", applies_to=conditions.has_health_check,
        depends_on_time=True, inconclusive_when=("result", "unfinished"),
    ),
}  # fmt: skip
