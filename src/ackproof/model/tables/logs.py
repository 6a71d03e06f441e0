"""The tables of the final read: what the healed cluster holds, in the topics themselves and in their mirrors."""

from __future__ import annotations

from ackproof.model.tables.columns import (
    AT,
    BOOL,
    EPOCH,
    IDS,
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

_RECORDS = (
    RUN,
    TOPIC,
    PARTITION,
    Column("offset", LONG, "The record's offset."),
    EPOCH,
    PRODUCER,
    SEQ,
    Column(
        "digest",
        LONG,
        "A hash of the record's key, value, headers and timestamp; null in runs without a mirror.",
        True,
        added=True,
    ),
)
_ENDS = (
    RUN,
    TOPIC,
    PARTITION,
    Column("log_start", LONG, "The first offset that the log still holds."),
    Column("high_watermark", LONG, "One past the last offset that a consumer may read."),
    Column("log_end", LONG, "One past the last offset on the leader; null if not known.", True),
    Column("read_to", LONG, "One past the last offset that the final read reached."),
    Column("leader", INT, "The leader's id.", True),
    EPOCH,
    Column("replicas", IDS, "The replicas' ids, the preferred leader first."),
    Column("isr", IDS, "The ids of the in-sync replicas."),
    Column("min_isr", INT, "min.insync.replicas of the topic."),
    Column("compacted", BOOL, "Whether the topic is compacted, so that records may rightly disappear."),
    Column("transactional", BOOL, "Whether transactions wrote to it, so that markers occupy offsets."),
    AT,
    Column("topic_id", TEXT, "Kafka's id of the topic; null if the broker did not report it.", True, added=True),
)

LOG = Table(
    "log",
    "The records of the healed cluster: every partition, from its start to its high watermark.",
    _RECORDS,
    ("topic", "partition", "offset"),
)
ENDS = Table(
    "ends",
    "Each partition at the time of the final read: where it ends, and whether the read reached that end.",
    _ENDS,
    ("topic", "partition"),
)
MIRRORED = Table(
    "mirrored",
    "The records that the healed cluster holds in mirrored topics: the copies of the originals in `log`.",
    _RECORDS,
    ("topic", "partition", "offset"),
)
MIRROR_ENDS = Table(
    "mirror_ends",
    "Each partition of the mirrored topics at the time of the final read, as in `ends`.",
    _ENDS,
    ("topic", "partition"),
)

LOGS = (LOG, ENDS, MIRRORED, MIRROR_ENDS)
