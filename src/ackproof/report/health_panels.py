"""The panel of the health check's alerts, and the table of the rates during each fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ackproof.report.run_reader import Run
from ackproof.report.svg import Axis, Panel, Segment, Strip

_RATES = ("second", "sent", "acked", "read", "fault", "below")


def alerts_panel(run: Run, time: Axis) -> list[Panel]:
    """Return a panel with a strip for each rule that was ever raised, from raised to cleared."""
    rows = sorted(
        run.table("alerts", ("at_ns", "rule", "event", "text")).to_pylist(), key=lambda row: int(row["at_ns"])
    )
    if not rows:
        return []
    strips: dict[str, list[Segment]] = {}
    raised: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if row["event"] == "raised":
            raised[row["rule"]] = row
        elif row["event"] == "cleared" and (begun := raised.pop(row["rule"], None)):
            strips.setdefault(row["rule"], []).append(_segment(run, begun, run.seconds(row["at_ns"])))
        elif row["event"] in ("offset_fell", "query_restarted", "too_late"):
            at = run.seconds(row["at_ns"])
            strips.setdefault(row["event"].replace("_", " "), []).append(_segment(run, row, at + 0.2))
    for rule, begun in raised.items():
        strips.setdefault(rule, []).append(_segment(run, begun, time.high))
    shown = [Strip(rule, tuple(segments)) for rule, segments in sorted(strips.items())]
    note = "What the health check reported while the load ran." + ("" if shown else " It reported nothing.")
    legend = [("b2", "raised, until it was cleared")]
    return [Panel("alerts", "Alerts", note, "", Axis(0, 1), strips=shown, legend=legend)]


def _segment(run: Run, row: Mapping[str, Any], ends: float) -> Segment:
    return Segment(float(run.seconds(row["at_ns"])), float(ends), "b2", row["text"] or row["rule"])


@dataclass(frozen=True)
class TollRow:
    """The rates during one fault: the lowest second, and the seconds below the scenario's line."""

    fault: str
    seconds: int
    lowest: dict[str, int]
    below: dict[str, list[int]]


def toll_rows(run: Run) -> list[TollRow]:
    """Return the rates during each fault, and without one, as the judge counted them. Only a scenario with a
    `rate_line` has them."""
    line = run.record.plan.judge.rate_line
    if not line or run.verdict is None:
        return []
    rows = [row for batch in run.witnesses("rate", _RATES) for row in batch.to_pylist()]
    load = sorted((row for row in rows if row["second"] >= 0 and row["sent"]), key=lambda row: int(row["second"]))
    last = load[-1]["second"] if load else 0  # the last second is hardly ever a full one
    full = [row for row in rows if 0 <= row["second"] < last]
    counted = ("sent", "acked", *(("read",) if run.record.consumers else ()))
    return [
        TollRow(
            "no fault" if fault is None else _fault(run, fault),
            len(own),
            {name: min(row[name] for row in own) for name in counted},
            {name: [row["second"] for row in own if row[name] < line] for name in counted},
        )
        for fault in [None, *sorted({row["fault"] for row in full if row["fault"] is not None})]
        if (own := [row for row in full if row["fault"] == fault])
    ]


def _fault(run: Run, number: int) -> str:
    fault = next((fault for fault in run.record.faults if fault.id == number), None)
    return f"{number}" if fault is None else f"{number}: {fault.kind} {' '.join(fault.asked)}"
