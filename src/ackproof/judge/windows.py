"""The times in a run that its faults explain: when rates may dip, and when alerts are due.

All of it is small, and made without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ackproof.model.run_record import RunRecord

Row = Mapping[str, Any]
DIP_S = 10.0  # unless the scenario says otherwise
_NS = 1_000_000_000


def covers(record: RunRecord, faults: Sequence[Row]) -> Iterator[tuple[int, int, int, int | None]]:
    """Run, fault, begin and end of the time in which rates may dip.

    It ends `dip_s` after the fault was healed, or done if it does not last; the end is None if that never happened.
    """
    asked_s = record.plan.judge.dip_s
    dip_ns = int((DIP_S if asked_s is None else asked_s) * _NS)
    for fault in record.faults:
        began, over = _at(faults, fault.id, "asked"), _at(faults, fault.id, "healed")
        if began is not None:
            yield record.run, fault.id, began, None if over is None else over + dip_ns


class Awaited(NamedTuple):
    """An alert that the scenario expects.

    A time is null if it never came: a fault that never began raises no alert, and one that was never healed need not
    clear it.
    """

    run: int
    rule: str
    fault: int
    from_ns: int | None
    proved_ns: int | None
    raise_by_ns: int | None
    clear_by_ns: int | None
    watched_ns: int | None  # the health check ends with the load


def awaited(record: RunRecord, faults: Sequence[Row]) -> list[Awaited]:
    """The alerts that the scenario expects, with the times by which each must be raised and cleared."""
    rows = []
    for plan in record.plan.alerts:
        undone = plan.undone_by
        over = _at(faults, plan.fault, "healed") if undone is None else _at(faults, undone, "proved")
        proved = _at(faults, plan.fault, "proved")
        rows.append(
            Awaited(
                record.run,
                plan.rule,
                plan.fault,
                _at(faults, plan.fault, "asked"),
                proved,
                None if proved is None else proved + int(plan.within_s * _NS),
                None if over is None else over + int(plan.clears_within_s * _NS),
                record.marks.load_ended_ns,
            )
        )
    return [row._replace(clear_by_ns=_clear_by(row, rows)) for row in rows]


def _clear_by(row: Awaited, rows: Sequence[Awaited]) -> int | None:
    """When the alert must be cleared. If faults of one rule overlap, it may stand until the last of them allows."""
    clear_by = row.clear_by_ns
    for other in sorted(rows, key=lambda other: other.from_ns or 0):
        begun = other.rule == row.rule and other.from_ns is not None
        if begun and clear_by is not None and (other.from_ns or 0) <= clear_by:
            clear_by = None if other.clear_by_ns is None else max(clear_by, other.clear_by_ns)
    return clear_by


def _at(faults: Sequence[Row], fault: int, event: str) -> int | None:
    return min((row["at_ns"] for row in faults if row["fault"] == fault and row["event"] == event), default=None)
