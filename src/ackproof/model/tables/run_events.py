"""The tables about the run itself: its faults and their proofs, its alerts, and what makes it weaker evidence."""

from __future__ import annotations

from ackproof.model.tables.columns import AT, BOOL, FAULT, FLOAT, LONG, RUN, TEXT, TEXTS, Column, Table

FAULTS = Table(
    "faults",
    "The events of each fault, one row per event.",
    (
        RUN,
        FAULT,
        AT,
        Column(
            "event",
            TEXT,
            "`asked`, `proved`, `broken` (no longer held), `healing`, `healed`, `not proved`, `not healed`.",
        ),
        Column("kind", TEXT, "The kind of fault: kill, isolate, cut, pause, start, ..."),
        Column("asked", TEXTS, "The targets as the scenario names them: names or roles."),
        Column("targets", TEXTS, "The nodes that these targets meant at that moment."),
        Column(
            "by",
            TEXT,
            "What ended the fault: `the scenario`, `the interrupt`, or `done` (it does not last). If the run did "
            "not end it in time: `the kernel`, its `watchdog` or `its time`.",
            True,
        ),
        Column("text", TEXT, "The proof or the problem, in words.", True),
    ),
    ("fault", "at_ns"),
)

PROBES = Table(
    "probes",
    "Each repeated proof of an active fault, about once a second.",
    (
        RUN,
        FAULT,
        AT,
        Column("held", BOOL, "Whether the fault held."),
        Column("text", TEXT, "What was proved, in words."),
    ),
    ("fault", "at_ns"),
)

LATENESS = Table(
    "lateness",
    "Delays of the laboratory's own processes: clients, the observer, the final read. Each process has a row when it "
    "begins, and one for each time in which it got no processor or was stopped. Nodes are observed about once a "
    "second; a node has a row if one of its threads waited for a processor for a fifth of the time since the "
    "observation before.",
    (
        RUN,
        AT,
        Column("client", TEXT, "The process by its name: a client, `observer`, `final-read`, `health`, a node."),
        Column(
            "behind_ns",
            LONG,
            "How much later than planned the process woke up. For a node: how long the thread that waited longest "
            "waited for a processor since the observation before.",
        ),
    ),
    ("client", "at_ns"),
)

ALERTS = Table(
    "alerts",
    "Alerts that a health check raised and cleared, and the events of its Spark query.",
    (
        RUN,
        AT,
        Column("rule", TEXT, "The rule's name."),
        Column(
            "event",
            TEXT,
            "`raised` or `cleared`. From the query that counts messages: `watching` (it has begun), `armed` (it has "
            "seen the rate above the line), `offset_fell`, `query_restarted`, `too_late` (the first messages that "
            "came too late to count for a second).",
        ),
        Column("value", FLOAT, "The measured value.", True),
        Column("text", TEXT, "The same in words.", True),
    ),
    ("rule", "at_ns"),
)

ODDITIES = Table(
    "oddities",
    "Output of external clients that Ackproof cannot use as an event; the first thousand of each kind.",
    (
        RUN,
        AT,
        Column("client", TEXT, "The client."),
        Column(
            "event",
            TEXT,
            "`no event`, `not ours` (a value or a topic that the client was not given), `contradiction`, `miscount` "
            "(its own count differs from its events), `twice`, `unknown event`, `torn line`.",
        ),
        Column("text", TEXT, "What it was, in words."),
    ),
    ("client", "at_ns"),
)

RUN_EVENTS = (FAULTS, PROBES, LATENESS, ALERTS, ODDITIES)
