"""Tables of what the judge measured, for the terminal and the page: the rows of a check, with the columns to show.

To add a table, add it to MEASURES.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ackproof.model.verdict import Verdict, Witness


@dataclass(frozen=True)
class Measure:
    title: str
    columns: Mapping[str, str]  # a column of the check's rows, and its heading
    formats: Mapping[str, str] = field(default_factory=dict)  # how a number is formatted, if not as it is
    least: int = 1  # with fewer rows the table says nothing


@dataclass(frozen=True)
class Measured:
    name: str
    title: str
    headings: list[str]
    rows: list[list[str]]
    numbers: list[bool]  # which columns are numbers


MEASURES: dict[str, Measure] = {
    "partition_shares": Measure(
        "How the groups shared",
        {"group": "group", "consumer": "member", "read": "read", "share": "share", "partitions": "partitions"},
        {"share": ".0%"},
        least=2,
    ),
    "rebalances": Measure(
        "Rebalances",
        {"group": "group", "rebalances": "rebalances", "unowned_partition_s": "partition-seconds without an owner"},
        {"unowned_partition_s": ",.2f"},
    ),
    "eligible_leaders": Measure(
        "Replicas that may lead without being in sync",
        {
            "topic": "topic",
            "partition": "partition",
            "moment": "at",
            "eligible": "eligible",
            "last_known": "last known",
        },
    ),
    "alerts": Measure(
        "Alerts: whether the health check reported each fault in time, and nothing else",
        {
            "rule": "alert",
            "told": "a person is notified",
            "fault": "fault",
            "result": "result",
            "after_s": "raised after s",
            "stood_s": "lasted s",
        },
        {"after_s": ",.1f", "stood_s": ",.1f"},
    ),
    "site_gap": Measure(
        "How long no client wrote or read while the clients moved to the other site",
        {"what": "gap of", "group": "group", "from_site": "from", "to_site": "to", "ms": "ms", "again": "read again"},
        {"ms": ",.0f"},
    ),
    "mirror_layout": Measure(
        "How the mirrors differ where they may",
        {
            "topic": "topic",
            "partition": "partition",
            "mirror": "mirror",
            "records": "records",
            "mirror_records": "in the mirror",
            "least_shift": "offsets differ by at least",
            "most_shift": "at most",
        },
    ),
    "offset_translation": Measure(
        "Where groups go on at a mirror",
        {
            "group": "group",
            "topic": "topic",
            "partition": "partition",
            "offset": "offset",
            "mirror": "mirror",
            "mirror_offset": "offset there",
            "again": "would read again",
            "missed": "would miss",
        },
    ),
    "phases": Measure(
        "What became of the messages of each phase",
        {
            "topic": "topic",
            "after": "after",
            "sent": "sent",
            "written": "written",
            "refused": "refused",
            "unknown": "unknown",
            "lost": "lost",
            "settled": "in the end",
        },
    ),
    "receivers": Measure(
        "What each receiver took, and at what cost",
        {
            "strategy": "strategy",
            "topic": "topic",
            "messages": "given",
            "accepted": "taken",
            "duplicate_accepted": "copies through",
            "copies_expected": "expected",
            "wrongly_dropped": "wrongly dropped",
            "drops_expected": "expected",
            "us_each": "µs each",
            "deciding_us_each": "of it deciding",
            "memory_bytes": "memory, bytes",
            "disk_bytes": "database, bytes",
        },
        {"us_each": ",.1f", "deciding_us_each": ",.1f"},
    ),
    "throughput": Measure(
        "Throughput of producers, one after the other",
        {
            "producers": "producers",
            "threads": "threads that share each",
            "acked": "acknowledged",
            "seconds": "seconds",
            "per_second": "a second",
        },
        {"seconds": ",.2f", "per_second": ",.0f"},
    ),
}


def measured(verdict: Verdict) -> list[Measured]:
    """Return the tables for which this verdict has rows."""
    rows_of = {check.name: check.witnesses for check in verdict.checks}
    return [
        _measured(name, measure, rows_of[name])
        for name, measure in MEASURES.items()
        if len(rows_of.get(name, [])) >= measure.least
    ]


def _measured(name: str, measure: Measure, rows: Sequence[Witness]) -> Measured:
    numbers = [all(isinstance(row.get(column), int | float) for row in rows) for column in measure.columns]
    return Measured(
        name,
        measure.title,
        list(measure.columns.values()),
        [[_told(row.get(column), measure.formats.get(column, ",")) for column in measure.columns] for row in rows],
        numbers,
    )


def _told(value: object, form: str) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return " ".join(map(str, value)) or "-"
    return format(value, form) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
