"""The tables that producers write: reserved numbers, sent messages, the outbox, transactions."""

from __future__ import annotations

from ackproof.model.tables.columns import AT, INT, LONG, PRODUCER, RUN, SEQ, TEXT, TOPIC, Column, Table

BLOCKS = Table(
    "blocks",
    "Numbers that a producer reserved on disk before it used them; after a crash each of them is at least `info`. A "
    "block has one row when the producer reserves it (`used` is null) and one when the producer closes it.",
    (
        RUN,
        PRODUCER,
        Column("first_seq", LONG, "The first number of the block."),
        Column("count", LONG, "How many numbers the producer reserved."),
        Column("used", LONG, "How many of them it used; null if it did not live to report this.", True),
        AT,
        Column(
            "behind_ns",
            LONG,
            "The largest delay until then that the producer itself caused: the time that one turn of its loop took "
            "beyond the wait that it had planned. Null if the client does not measure it.",
            True,
            added=True,
        ),
    ),
    ("producer", "first_seq", "at_ns"),
)

SENDS = Table(
    "sends",
    "Every message that a producer gave to its client. The row is written when the outcome is known, or when the "
    "producer ends.",
    (
        RUN,
        PRODUCER,
        SEQ,
        TOPIC,
        Column("partition", INT, "The partition that the client reported; -1 if it reported none."),
        Column("key", LONG, "The message's key, a number; null for a message without a key.", True),
        Column("due_ns", LONG, "When the message was due by the requested rate."),
        Column(
            "sent_ns",
            LONG,
            "When the producer gave it to the client. An external client reports neither time: both are the time of "
            "its report.",
        ),
        Column("done_ns", LONG, "When its outcome was known; null if it never was.", True),
        Column("outcome", TEXT, "`ok`, `fail` (certainly not written) or `info` (unknown)."),
        Column("error", TEXT, "The name of the client's error.", True),
        Column("offset", LONG, "The acknowledged offset; null without one (acks=0, errors).", True),
    ),
    ("producer", "seq"),
)

OUTBOX = Table(
    "outbox",
    "How many messages waited in a producer's outbox, a few times a second.",
    (
        RUN,
        PRODUCER,
        AT,
        Column("depth", LONG, "Messages that are not acknowledged yet."),
        Column("failures", INT, "How many attempts to publish failed in a row."),
    ),
    ("producer", "at_ns"),
)

TRANSACTIONS = Table(
    "transactions",
    "The events of each transaction of a producer, one row per event.",
    (
        RUN,
        PRODUCER,
        Column("transaction", LONG, "The transaction's number, counted from 1 for each producer."),
        Column(
            "event",
            TEXT,
            "`begun`; `committing` or `aborting`, before the producer requests it; then `committed`, `aborted`, or "
            "`unknown` (the producer requested a commit, and the result is unknown).",
        ),
        Column("first_seq", LONG, "The number of its first message."),
        Column("last_seq", LONG, "The number of its last message; with `begun`, the last reserved number."),
        Column("timeout_ms", LONG, "The time after which the coordinator aborts it."),
        AT,
        Column("text", TEXT, "Why it was aborted.", True),
    ),
    ("producer", "transaction", "at_ns"),
)

PRODUCING = (BLOCKS, SENDS, OUTBOX, TRANSACTIONS)
