"""Checks of what consumers read, while the cluster failed and afterwards."""

from __future__ import annotations

from ackproof.model import check_conditions as conditions
from ackproof.model.checks.kind import CheckKind

CHECKS: dict[str, CheckKind] = {
    "unstable_read": CheckKind(
        "read(s) of a record that the healed log does not hold there",
        "a live read of an offset at which the healed log holds another message, or none. Records that retention or "
        "compaction removed do not count",
        needs=("reads", "ends"), prefilterable=True,
        meaning="A consumer read a message that the healed log does not hold at that offset.",
        advice="Expect it if an old leader still serves reads; write with acks=all, so that consumers see only what "
        "lasts.",
    ),
    "aborted_read": CheckKind(
        "read(s) of a message whose send had failed",
        "a live read of a message whose send certainly failed",
        default="forbidden", needs=("sends",), prefilterable=True, producers_lack="which sends certainly failed",
        meaning="A consumer read a message although the client had said that the send certainly failed.",
        advice="Check how your client tells a certain failure from an unknown outcome: it must not call a timeout a "
        "failure.",
    ),
    "poll_skip": CheckKind(
        "jump(s) of a consumer over records",
        "a step of a consumer, within one assignment of a partition, over offsets at which the final read or a "
        "consumer saw a record; in a compacted topic, over offsets that still hold one",
        needs=("reads",), prefilterable=True,
        meaning="A consumer jumped over records in a partition that it owned the whole time.",
        advice="Look at the log truncation and at auto.offset.reset: the consumer may have been sent to a later "
        "offset.",
    ),
    "nonmonotonic_poll": CheckKind(
        "step(s) back of a consumer",
        "a step of a consumer, within one assignment of a partition, to an offset that is not above the one before",
        needs=("reads",), prefilterable=True,
        meaning="A consumer was given an offset again, or a lower one, while it owned the partition without "
        "interruption.",
        advice="Let consumers recognise copies, and look for a log that was cut off below the position of the "
        "consumer.",
    ),
    "undelivered": CheckKind(
        "record(s) never delivered to a group",
        "a record of the healed log, at or past the offset where a group began, that was delivered to no consumer "
        "of the group. In a partition that the group was never assigned, a group that reads from the earliest "
        "offset began with the log",
        needs=("groups", "reads", "ends"), prefilterable=True, needs_consumers="whole",
        latest_consumers_lack="from where on a partition was read",
        meaning="The log holds a message that no consumer of the group was ever given.",
        advice="Commit an offset only after its message was processed, and check where the group starts to read.",
    ),
    "delivered_twice": CheckKind(
        "record(s) delivered to a group more than once",
        "an offset that was delivered to consumers of one group more than once",
        needs=("reads",), prefilterable=True, needs_consumers="owned",
        meaning="Consumers of one group were given the same offset more than once, usually after a rebalance or a "
        "restart.",
        advice="Let the processing recognise copies, or store the offset in the same transaction as the result.",
    ),
    "seek_mismatch": CheckKind(
        "seek(s) that ended at a wrong place",
        "a seek that did not end at its offset, at the first record that is not older than its time, or where the "
        "reset policy says; also a seek without an answer",
        needs=("seeks",),
        meaning="A consumer asked for a place in the log and ended up at another one.",
        advice="Check auto.offset.reset: if the offset is deleted, this setting decides where the consumer goes on.",
    ),
    "key_reordered": CheckKind(
        "message(s) delivered to a group after a later one of the same key",
        "a message that was delivered to a group after a later message of the same key, and how much later",
        needs=("sends", "reads"), applies_to=conditions.has_keys, needs_full_scan=True, needs_consumers="in time",
        meaning="A group was given a message after a later message with the same key.",
        advice="Keep each key in one partition, and enable the idempotent producer.",
    ),
    "uncommitted_read": CheckKind(
        "read(s) of an uncommitted message by a read_committed consumer",
        "a live read, by a `read_committed` consumer, of a message whose transaction was aborted, or whose producer "
        "had not asked for its commit yet",
        default="forbidden", needs=("transactions", "reads"), applies_to=conditions.reads_transactions,
        needs_full_scan=True,
        meaning="A consumer with isolation.level=read_committed was given a message whose transaction was not "
        "committed.",
        advice="Check the isolation level of the consumer; if it is right, report it as a bug in Kafka.",
    ),
}  # fmt: skip
