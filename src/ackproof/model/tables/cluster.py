"""The tables about the cluster itself, as its nodes report it: leaders, members, topics, directories, processes."""

from __future__ import annotations

from ackproof.model.tables.columns import (
    AT,
    BOOL,
    IDS,
    INT,
    LONG,
    PARTITION,
    RUN,
    TEXT,
    TEXTS,
    TOPIC,
    Column,
    Table,
)

STATE = Table(
    "state",
    "Each broker's own view of each partition. The observer asks over a network that no fault touches.",
    (
        RUN,
        AT,
        Column("took_ns", LONG, "How long the answer took."),
        Column("broker", INT, "The broker whose view it is."),
        TOPIC,
        PARTITION,
        Column("error", TEXT, "Why there is no view: the broker did not answer, or answered with an error.", True),
        Column("leader", INT, "The leader, in this broker's view.", True),
        Column("leader_epoch", INT, "The leader's epoch, in this broker's view.", True),
        Column("replicas", IDS, "The replicas.", True),
        Column("isr", IDS, "The in-sync replicas, in this broker's view.", True),
        Column("high_watermark", LONG, "The high watermark; only if this broker leads.", True),
        Column("log_end", LONG, "The end of this broker's own log.", True),
        Column("log_start", LONG, "The start of this broker's own log.", True),
    ),
    ("topic", "partition", "broker", "at_ns"),
)

MEMBERS = Table(
    "members",
    "The members of the cluster, by ZooKeeper's registrations and by each broker's own metadata, several times a "
    "second.",
    (
        RUN,
        AT,
        Column("source", TEXT, "The node that reported it."),
        Column("brokers", IDS, "The brokers, by Kafka's ids."),
    ),
    ("source", "at_ns"),
)

TOPICS = Table(
    "topics",
    "Each topic's id, replicas, and the settings that decide what can be lost, as each broker, ZooKeeper and the "
    "topic's creation report them. A row for every change, and one at the end.",
    (
        RUN,
        AT,
        Column("source", TEXT, "The node that reported it, or `creation`."),
        Column("topic", INT, "The topic's number; -1 for settings of brokers that were changed at run time."),
        Column("topic_id", TEXT, "Kafka's id of the topic; a topic that is created again has another id.", True),
        Column(
            "replicas",
            TEXTS,
            "The replicas of each partition, in order, as `1,2,3`; an empty list if the topic does not exist.",
            True,
        ),
        Column(
            "settings",
            TEXT,
            "A JSON object of names and values; from ZooKeeper only the settings that were set explicitly.",
            True,
        ),
    ),
    ("source", "topic", "at_ns"),
)

ELIGIBLE = Table(
    "eligible",
    "The replicas that may lead without being in sync, as Kafka 4's controllers keep them (KIP-966); a row for every "
    "change, no rows if the brokers do not know KIP-966.",
    (
        RUN,
        AT,
        Column("broker", INT, "The broker that was asked, by Kafka's id."),
        TOPIC,
        PARTITION,
        Column("eligible", IDS, "Eligible leaders that are not in sync."),
        Column("last_known", IDS, "The last known eligible leaders, if none is left."),
    ),
    ("broker", "at_ns"),
)

PLACES = Table(
    "places",
    "What each log directory of each broker held, before and after topics were created; only for brokers with more "
    "than one directory.",
    (
        RUN,
        Column("step", INT, "The number of the observation, counted from 0."),
        AT,
        Column("broker", INT, "The broker that owns the directory."),
        Column("directory", INT, "Which of its directories, counted from 1."),
        Column("partitions", TEXTS, "The logs in it, as TOPIC-PARTITION."),
    ),
    ("step", "broker", "directory"),
)

STABLE = Table(
    "stable",
    "How far a consumer of committed messages may read, as each leader reports it, several times a second; only for "
    "topics that transactions write to.",
    (
        RUN,
        AT,
        Column("broker", INT, "The leader that was asked."),
        TOPIC,
        PARTITION,
        Column(
            "last_stable",
            LONG,
            "The last stable offset: where the first open transaction begins, or the high watermark if none is open.",
        ),
        Column("high_watermark", LONG, "The high watermark, asked just before."),
    ),
    ("topic", "partition", "at_ns"),
)

NODES = Table(
    "nodes",
    "The ends of the processes of nodes and clients, interference with them from outside the laboratory, and outside "
    "clients that joined the run's groups.",
    (
        RUN,
        AT,
        Column("node", TEXT, "The node or client; for a client that joined a group, its client id."),
        Column(
            "event",
            TEXT,
            "`exited`; `disturbed` (stopped, traced, or its priority, cgroup or processors changed, and no fault of "
            "the run did it), `goes on` (that is over); `joined` (a client that is not part of the run is a member of "
            "one of its groups).",
        ),
        Column("code", INT, "The exit code; null if a signal ended it.", True),
        Column("signal", INT, "The signal that ended it.", True),
        Column("by_itself", BOOL, "Whether it ended without a request of the laboratory."),
        Column("text", TEXT, "What was done to it, in words; null with `exited`.", True, added=True),
    ),
    ("node", "at_ns"),
)

CLUSTER = (STATE, MEMBERS, TOPICS, ELIGIBLE, PLACES, STABLE, NODES)
