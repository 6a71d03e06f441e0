"""Checks of what the healed log holds of each message, and in which order."""

from __future__ import annotations

from ackproof.model import check_conditions as conditions
from ackproof.model.checks.kind import CheckKind

CHECKS: dict[str, CheckKind] = {
    "lost": CheckKind(
        "acknowledged message(s) missing from the healed log",
        "an acknowledged message with a `lost_*` fate, and which message holds its offset now",
        needs_fates=True, prefilterable=True,
        meaning="A message was acknowledged to the producer, and the log does not hold it after the cluster healed.",
        advice="Use acks=all, replication factor 3 and min.insync.replicas=2, and keep unclean leader election "
        "disabled.",
    ),
    "duplicated": CheckKind(
        "message(s) in the healed log more than once",
        "a message at more than one place of the healed log",
        prefilterable=True,
        meaning="The log holds a message more than once, usually because the producer sent it again after an error.",
        advice="Enable the idempotent producer, or let consumers recognise copies.",
    ),
    "reordered": CheckKind(
        "message(s) out of the order of their producer",
        "a message whose first copy does not stand above that of the message which the same producer sent to the "
        "partition just before. Each such step back counts once; later copies do not count",
        prefilterable=True,
        meaning="Messages of one producer stand in a partition in another order than they were sent.",
        advice="Enable the idempotent producer, or set max.in.flight.requests.per.connection=1.",
    ),
    "inconsistent_offset": CheckKind(
        "offset(s) seen with two messages",
        "one offset of a partition with two messages among acknowledgements, live reads and healed log; `seen` "
        "names the lowest and highest message of each of these",
        prefilterable=True,
        meaning="Two different messages had the same offset of a partition at different times, because a new leader "
        "overwrote the log of the old one.",
        advice="Do not treat an offset as the name of a message unless the message was written with acks=all.",
    ),
    "phantom": CheckKind(
        "record(s) with a number that no producer reserved",
        "a record, in the healed log or read, with a message number that no producer reserved, or that its producer "
        "gave back unused. A record without a number may come from a stranger (see Fitness)",
        default="forbidden", prefilterable=True,
        meaning="The log or a consumer holds a message that no producer of the run announced.",
        advice="Look for another program that writes to the topic; without one, report a bug in Kafka or in Ackproof.",
    ),
    "resurrected": CheckKind(
        "message(s) in the healed log whose send had failed",
        "a message in the healed log whose send certainly failed",
        default="forbidden", needs_fates=True, prefilterable=True, producers_lack="which sends certainly failed",
        meaning="The log holds a message although the client had said that the send certainly failed.",
        advice="Check how your client tells a certain failure from an unknown outcome: sending it again would make a "
        "copy.",
    ),
    "offset_gap": CheckKind(
        "unexplained hole(s) in the offsets of the log",
        "a stretch of offsets without records, in a topic without transactions and compaction",
        default="forbidden", needs=("ends",),
        meaning="Offsets are missing in the log of a plain topic, where every offset should hold a record.",
        advice="Check whether the topic is compacted or uses transactions; if not, treat it as damage of the log.",
    ),
    "realtime_order": CheckKind(
        "message(s) at or below an offset that was acknowledged before the send",
        "a message acknowledged at or below an offset of its partition that had been acknowledged before its send "
        "began",
        needs=("sends",), prefilterable=True, producers_lack="when a send began",
        meaning="A message that was sent after another was acknowledged got an offset at or below that one.",
        advice="Expect it if two leaders accept writes at once; use acks=all, so that the old leader cannot "
        "acknowledge.",
    ),
    "watermark_regression": CheckKind(
        "fall(s) of the high watermark with a new leader epoch",
        "a high watermark below one that an older leader epoch of the partition had shown",
        needs=("state",),
        meaning="The high watermark, below which messages count as safe, fell when a new leader took over.",
        advice="Expect it after an unclean leader election or with acks=1; keep unclean leader election disabled.",
    ),
    "unpublished": CheckKind(
        "message(s) of an outbox missing from the healed log",
        "a message of a producer's outbox, acknowledged or not, that is missing from the healed log and did not "
        "expire",
        default="forbidden", applies_to=conditions.has_outbox, needs_fates=True, prefilterable=True,
        meaning="A producer's outbox holds a message that never reached the log.",
        advice="Let the publisher of the outbox run until it is empty, and delete a row only after its "
        "acknowledgement.",
    ),
    "refusals": CheckKind(
        "message(s) that a refused producer did not clearly fail to write",
        "a message of a producer that the scenario calls `refused`, if it did not certainly fail for lack of "
        "permission, or is in the log; also such a producer that never tried to write",
        default="forbidden", applies_to=conditions.has_refused_producers, needs_fates=True, needs_full_scan=True,
        meaning="A producer without the permission to write was not clearly refused, or its message is in the log.",
        advice="Check the access rules of the topic, and that the brokers run an authorizer.",
    ),
}  # fmt: skip
