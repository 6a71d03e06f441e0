"""Stretches of a run that its faults explain: in which rates may dip, and in which alerts are due.

All of it is small, and made without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ackproof.record import RunRecord

Row = Mapping[str, Any]
DIP_S = 10.0  # unless the scenario says otherwise
_NS = 1_000_000_000


def covers(record: RunRecord, faults: Sequence[Row]) -> Iterator[tuple[int, int, int, int | None]]:
    """Run, fault, from its beginning until `dip_s` after it was healed or, if it does not last, done; or for ever."""
    asked = record.plan.get("judge") or {}
    dip_ns = int((asked.get("dip_s") or DIP_S) * _NS)
    for fault in record.faults:
        began, over = _at(faults, fault.id, "asked"), _at(faults, fault.id, "healed")
        if began is not None:
            yield record.run, fault.id, began, None if over is None else over + dip_ns


def awaited(record: RunRecord, faults: Sequence[Row]) -> Iterator[tuple[Any, ...]]:
    """Each alert that the scenario expects: run, rule, fault, from when, and by when it is to be raised, and cleared.

    Null where it did not come to that: a fault that never began raises nothing, one that was never healed need not
    clear.
    """
    for plan in record.plan.get("alerts") or []:
        undone = plan["undone_by"]
        over = _at(faults, plan["fault"], "healed") if undone is None else _at(faults, undone, "proved")
        proved = _at(faults, plan["fault"], "proved")
        yield (
            record.run,
            plan["rule"],
            plan["fault"],
            _at(faults, plan["fault"], "asked"),
            proved,
            None if proved is None else proved + int(plan["within_s"] * _NS),
            None if over is None else over + int(plan["clears_within_s"] * _NS),
        )


def _at(faults: Sequence[Row], fault: int, event: str) -> int | None:
    return min((row["at_ns"] for row in faults if row["fault"] == fault and row["event"] == event), default=None)
