"""Panels that compare receivers: what each costs over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow.compute as pc

from ackproof.report.run_reader import Run, integers, numbers
from ackproof.report.svg import Panel, axis_over
from ackproof.report.time_series import Floats, Series, thinned

_COLUMNS = ("consumer", "at_ns", "messages", "handling_ns", "memory_bytes", "disk_bytes")


def cost_panels(run: Run, style: Callable[[int], str]) -> list[Panel]:
    """Return panels of time, memory and disk, with a line for each receiver. `style` returns the style of a number from
    1 on."""
    table = run.table("costs", _COLUMNS)
    if table.num_rows == 0:
        return []

    def lines(value: Callable[[Any], Floats]) -> list[Series]:
        made = []
        for number, name in _names(run).items():
            own = table.filter(pc.field("consumer") == number).sort_by("at_ns")
            if own.num_rows:
                made.append(thinned(name, style(number + 1), run.seconds(integers(own["at_ns"])), value(own)))
        return made

    told = (
        ("time", "Receivers: time", "Time for each message, with its effect and the commit.", "µs", _microseconds),
        ("memory", "Receivers: memory", "The memory of each receiver's process.", "MB",
         lambda own: _mb(own, "memory_bytes")),
        ("disk", "Receivers: disk", "The database of each. The strategy `nothing` shows what all of them write.", "MB",
         lambda own: _mb(own, "disk_bytes")),
    )  # fmt: skip
    return [
        Panel(f"receivers-{name}", title, note, unit, axis_over(series), series)
        for name, title, note, unit, value in told
        for series in (lines(value),)
    ]


def _names(run: Run) -> dict[int, str]:
    return {
        consumer.id: f"{plan.receiver.strategy} ({run.topic(consumer.topic)})"
        for consumer, plan in run.record.planned_consumers
        if plan.receiver is not None
    }


def _microseconds(own: Any) -> Floats:
    messages, spent = numbers(own["messages"]), numbers(own["handling_ns"])
    each: Floats = np.divide(spent / 1e3, messages, out=np.full(len(messages), np.nan), where=messages > 0)
    return each


def _mb(own: Any, column: str) -> Floats:
    return numbers(own[column]) / 1e6
