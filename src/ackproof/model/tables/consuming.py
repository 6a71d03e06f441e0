"""The tables about consumers: what they read, which partitions they owned, where they stood, what they accepted."""

from __future__ import annotations

from ackproof.model.tables.columns import (
    AT,
    BOOL,
    CONSUMER,
    EPOCH,
    FAULT,
    GROUP,
    INT,
    LONG,
    PARTITION,
    PRODUCER,
    RUN,
    SEQ,
    TEXT,
    TOPIC,
    Column,
    Table,
)

READS = Table(
    "reads",
    "Every message that a consumer got.",
    (
        RUN,
        CONSUMER,
        GROUP,
        TOPIC,
        PARTITION,
        Column("offset", LONG, "The message's offset."),
        EPOCH,
        PRODUCER,
        SEQ,
        Column("read_ns", LONG, "When the consumer got it."),
        Column("poll", LONG, "Which poll of this consumer returned it, counted from 1."),
        Column("assignment", INT, "Under which assignment of this consumer it was read, counted from 1."),
    ),
    ("consumer", "topic", "partition", "read_ns", "offset"),
)

GROUPS = Table(
    "groups",
    "The partitions that consumers were assigned, and those that they gave back or lost.",
    (
        RUN,
        CONSUMER,
        GROUP,
        AT,
        Column("event", TEXT, "`assigned`, `revoked` or `lost`."),
        TOPIC,
        PARTITION,
        Column("assignment", INT, "Which assignment of this consumer it was, counted from 1."),
        Column(
            "position", LONG, "The offset at which it begins to read an assigned partition; null if not known.", True
        ),
    ),
    ("consumer", "at_ns"),
)

COMMITS = Table(
    "commits",
    "Offsets that consumers committed.",
    (
        RUN,
        CONSUMER,
        GROUP,
        AT,
        TOPIC,
        PARTITION,
        Column("offset", LONG, "The committed offset."),
        Column("outcome", TEXT, "`ok`, `fail` or `info`."),
        Column("error", TEXT, "The name of the client's error.", True),
    ),
    ("consumer", "at_ns"),
)

POSITIONS = Table(
    "positions",
    "Where a consumer stood when it ended, in each partition that it owned then. For an external consumer: in each "
    "partition that it reported. A killed consumer has no row.",
    (
        RUN,
        CONSUMER,
        GROUP,
        AT,
        TOPIC,
        PARTITION,
        Column("position", LONG, "The offset that it would have read next; null if not known.", True),
        Column(
            "log_end",
            LONG,
            "One past the last offset that it could have read, as the leader reported; null if it did not ask.",
            True,
        ),
    ),
    ("consumer", "topic", "partition", "at_ns"),
)

SEEKS = Table(
    "seeks",
    "Each seek of a consumer to one place of a partition, and where the consumer landed.",
    (
        RUN,
        FAULT,
        AT,
        TOPIC,
        PARTITION,
        Column("by", TEXT, "`offset` or `time`."),
        Column("asked", LONG, "The requested offset, or the requested time in milliseconds since 1970."),
        Column("policy", TEXT, "What the consumer does if that offset is gone: `earliest`, `latest` or `error`."),
        Column(
            "answer",
            LONG,
            "The offset that the broker gave for that time; null if every record is older.",
            True,
        ),
        Column("landed", LONG, "The first offset that the consumer read; null if it read none.", True),
        Column("landed_ms", LONG, "The timestamp of that record.", True),
        Column("before_ms", LONG, "The timestamp of the record before it; only for a seek by time.", True),
        Column("log_start", LONG, "The log's start before the seek."),
        Column("log_end", LONG, "The log's end before the seek, as consumers see it."),
        Column("log_start_after", LONG, "The log's start after the seek."),
        Column("log_end_after", LONG, "The log's end after the seek."),
        Column("error", TEXT, "The name of the client's error.", True),
    ),
    ("fault", "at_ns"),
)

TRANSLATED = Table(
    "translated",
    "The offsets at which groups continue, as both clusters reported them. The mirror's cluster is asked first.",
    (
        RUN,
        AT,
        GROUP,
        TOPIC,
        PARTITION,
        Column("mirror", INT, "The number of the topic that the mirror made from this one."),
        Column("mirror_offset", LONG, "Where the group continues in the mirror; null if its cluster has none.", True),
        Column("offset", LONG, "Where the group continues in the topic itself; null if its cluster has none.", True),
    ),
    ("group", "topic", "partition", "at_ns"),
)

RECEIVED = Table(
    "received",
    "What a receiver did with each message that it handled. The rows come from its own database after it ended.",
    (
        RUN,
        CONSUMER,
        AT,
        TOPIC,
        PARTITION,
        Column("offset", LONG, "The message's offset."),
        PRODUCER,
        SEQ,
        Column("accepted", BOOL, "Whether the receiver accepted it as new; if not, it dropped it as a copy."),
    ),
    ("consumer", "at_ns", "partition", "offset"),
)

COSTS = Table(
    "costs",
    "What a receiver spent in about a second, and its memory and disk use at the end of it.",
    (
        RUN,
        CONSUMER,
        AT,
        Column("messages", LONG, "How many messages it handled since the row before."),
        Column("deciding_ns", LONG, "The time it spent to decide which of them are new."),
        Column("handling_ns", LONG, "The whole time it spent on them: the decision, their effect, the commit."),
        Column("memory_bytes", LONG, "The resident memory of its process."),
        Column("disk_bytes", LONG, "The size of its database, including the effects."),
    ),
    ("consumer", "at_ns"),
)

CONSUMING = (READS, GROUPS, COMMITS, POSITIONS, SEEKS, TRANSLATED, RECEIVED, COSTS)
