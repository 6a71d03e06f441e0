"""The timeline: every panel of the run on one axis of time, seconds since the load began.

The panels tell one story from top to bottom: what the clients sent and got, which broker claimed to lead, how many
replicas were in sync, how far each broker's log reached and how much of it was safe, and how long an answer took. If a
run has many partitions, the story is about the one that lost most; a strip shows who led each of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from ackproof.model.external_clients import not_applicable
from ackproof.report.broker_views import Partition, View
from ackproof.report.health_panels import alerts_panel
from ackproof.report.receiver_panels import cost_panels
from ackproof.report.run_reader import Run, integers, numbers
from ackproof.report.svg import Axis, Band, Panel, Segment, Strip, axis_over
from ackproof.report.time_series import Floats, LatencyOverTime, Series, Traffic, thinned

STRIPS_MOST = 16
NAMED_MOST = 3  # how many targets of a fault its label names


@dataclass(frozen=True)
class Timeline:
    time: Axis
    bands: list[Band]
    panels: list[Panel]

    def hover(self, run: Run) -> dict[str, Any]:
        """Return what the page's script needs to show values at the pointer: the points as drawn."""
        return {
            "low": round(self.time.low, 3),
            "high": round(self.time.high, 3),
            "wall_ms": round(run.wall(run.origin_ns).timestamp() * 1000),
            "bands": [[round(band.begins, 3), round(band.ends, 3)] for band in self.bands if band.kind == "fault"],
            "panels": {panel.name: _points(panel) for panel in self.panels},
        }


def make_timeline(run: Run, traffic: Traffic, partitions: Sequence[Partition], focus: Partition | None) -> Timeline:
    time = _time_axis(run, traffic, focus)
    panels = [_rates(run, traffic, time), *alerts_panel(run, time)]
    if focus is not None:
        panels += [
            _leaders(run, focus),
            *_other_leaders(run, partitions, focus),
            _in_sync(run, focus),
            _offsets(run, focus),
        ]
    panels += [
        *_owners(run),
        *_outbox(run),
        *cost_panels(run, broker_style),
        *(() if "ack_latency" in not_applicable(run.record.plan) else _latency(traffic)),
    ]
    return Timeline(time, _bands(run, time), panels)


def broker_style(broker: int) -> str:
    return f"b{(broker - 1) % 8 + 1}" if broker > 0 else "b0"


def _time_axis(run: Run, traffic: Traffic, focus: Partition | None) -> Axis:
    ends = [span for counter in (traffic.sent, traffic.acked, traffic.read) if (span := counter.span())]
    low, high = min((span[0] for span in ends), default=0), max((span[1] for span in ends), default=1)
    marks = run.record.marks
    seen = [run.seconds(mark) for mark in (marks.healed_ns, marks.drained_ns) if mark is not None]
    if focus is not None:
        seen += [run.seconds(int(view.at_ns[-1])) for view in focus.views if len(view.at_ns)]
    high = max([high, *seen])
    # Half a second before the load shows that nothing happened yet.
    return Axis(min(low, 0) - min(0.5, (high - low) / 50), high + (high - low) * 0.005)


def _bands(run: Run, time: Axis) -> list[Band]:
    """Return a band for each fault, from its proof to its healing, and a line for the end of the load."""
    bands: list[Band] = []
    begun: dict[int, tuple[float, str]] = {}
    events = run.table("faults", ("fault", "at_ns", "event", "kind", "targets"))
    for row in sorted(events.to_pylist(), key=lambda row: int(row["at_ns"])):
        at, fault = run.seconds(row["at_ns"]), row["fault"]
        label = f"{row['kind']} {_few(row['targets'] or [])}"
        if row["event"] == "proved":
            begun[fault] = (at, label)
        elif row["event"] in ("healed", "broken") and fault in begun:
            bands.append(Band(begun.pop(fault)[0], at, label, number=fault))
        elif row["event"].startswith("not"):
            bands.append(Band(at, at, f"{label}: {row['event']}", "bad", fault))
    bands += [Band(at, time.high, f"{label} (never ended)", number=n) for n, (at, label) in begun.items()]
    if run.record.marks.load_ended_ns is not None:
        at = run.seconds(run.record.marks.load_ended_ns)
        bands.append(Band(at, at, "last send", "mark"))
    return bands


def _few(names: Sequence[str]) -> str:
    return " ".join(names) if len(names) <= NAMED_MOST else f"{' '.join(names[: NAMED_MOST - 1])} …"


def _rates(run: Run, traffic: Traffic, time: Axis) -> Panel:
    first, last = int(np.floor(time.low)), int(np.ceil(time.high))
    ends = [span[1] for counter in (traffic.sent, traffic.acked) if (span := counter.span())]
    last = min(last, max(ends, default=last) + 2)
    series = [
        traffic.sent.series("sent", "sent", first, last),
        traffic.acked.series("acknowledged", "acked", first, last),
    ]
    others = (("failed", "failed", traffic.failed), ("outcome unknown", "unknown", traffic.unknown))
    series += [counter.series(name, style, first, last) for name, style, counter in others]
    if run.record.consumers or traffic.read.span():
        series.append(traffic.read.series("read", "read", first, int(np.ceil(time.high))))
    if line := run.record.plan.judge.rate_line:
        ends_at = np.array([first, last], dtype=np.float64)
        series.append(Series("the line", "b0 dashed", ends_at, np.array([line, line], dtype=np.float64), 2))
    note = "Messages in each second: when they were given to the client, and when their outcome was known."
    return Panel("rates", "Rates", note, "messages/s", axis_over(series, headroom=1.4), series)


def _leaders(run: Run, focus: Partition) -> Panel:
    strips = [Strip(f"{run.node(view.broker)} says", _segments(run, view)) for view in focus.views]
    where = f"{run.topic(focus.topic)}/{focus.partition}"
    note = f"Who leads {where}, as each broker itself says. Two colours at one moment: two leaders."
    legend = [(broker_style(view.broker), f"{run.node(view.broker)} leads") for view in focus.views]
    legend.append(("b0", "no answer, or no leader"))
    return Panel("leader", "Leader", note, "", Axis(0, 1), strips=strips, legend=legend)


def _segments(run: Run, view: View) -> tuple[Segment, ...]:
    """Return stretches of one leader and epoch, each until the next answer that differs."""
    if len(view.at_ns) == 0:
        return ()
    seconds = run.seconds(view.at_ns)
    leader = np.where(view.answered, view.leader, -1)
    starts = np.concatenate(([0], np.flatnonzero((np.diff(leader) != 0) | (np.diff(view.epoch) != 0)) + 1))
    ends = np.concatenate((starts[1:], [len(seconds) - 1]))
    made = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        who = int(leader[start])
        label = f"{run.node(who)}, epoch {view.epoch[start]}" if who >= 0 else _silence(view, start)
        made.append(Segment(float(seconds[start]), float(seconds[end]), broker_style(who), label))
    return tuple(made)


def _silence(view: View, place: int) -> str:
    return "no leader" if view.answered[place] else "no answer"


def _other_leaders(run: Run, partitions: Sequence[Partition], focus: Partition) -> list[Panel]:
    if len(partitions) < 2:
        return []
    strips = [
        Strip(f"{run.topic(entry.topic)}/{entry.partition}", _segments(run, max(entry.views, key=_last_epoch)))
        for entry in partitions[:STRIPS_MOST]
    ]
    left = len(partitions) - len(strips)
    note = "As the broker says that ended in the highest epoch." + (f" {left} more are not shown." if left else "")
    legend = [(broker_style(view.broker), run.node(view.broker)) for view in focus.views]
    return [Panel("leaders", "Leaders of all partitions", note, "", Axis(0, 1), strips=strips, legend=legend)]


def _last_epoch(view: View) -> tuple[int, int]:
    return (int(view.epoch[-1]) if len(view.epoch) else -1, view.broker)


def _per_broker(
    run: Run, focus: Partition, name: str, values: Callable[[View], Floats], style: str, steps: bool
) -> list[Series]:
    made = []
    for view in focus.views:
        column = values(view)
        if not np.isnan(column).all():
            label = f"{name} {run.node(view.broker)}"
            made.append(thinned(label, f"{broker_style(view.broker)} {style}", run.seconds(view.at_ns), column, steps))
    return made


def _in_sync(run: Run, focus: Partition) -> Panel:
    series = _per_broker(run, focus, "as", lambda view: np.where(view.claims, view.isr_size, np.nan), "", True)
    series = [
        Series(f"{entry.name} says", entry.style, entry.times, entry.values, entry.total, True) for entry in series
    ]
    note = "How many replicas are in sync, as each broker says while it claims to lead."
    largest = max((float(np.nanmax(entry.values)) for entry in series), default=3.0)
    return Panel("isr", "In-sync replicas", note, "replicas", Axis(0, largest + 0.5), series)


def _offsets(run: Run, focus: Partition) -> Panel:
    ends = _per_broker(run, focus, "log end of", lambda view: view.log_end, "", False)
    marks = _per_broker(run, focus, "high watermark on", lambda view: view.high_watermark, "dashed", False)
    note = (
        "Solid: the end of each broker's own log. Dashed: the high watermark of each broker that claims to lead. "
        "Messages above the dashes can be lost."
    )
    return Panel("offsets", "High watermark and log end", note, "offset", axis_over([*ends, *marks]), [*ends, *marks])


def _owners(run: Run) -> list[Panel]:
    """Draw which consumer owned each partition of each group, as the judge measured it."""
    if run.verdict is None or not run.verdict.owners:
        return []
    numbers = {consumer.name: consumer.id for consumer in run.record.consumers}
    strips: dict[str, list[Segment]] = {}
    for owned in run.verdict.owners:
        # There is room for one name: the group's if there are several groups, else the topic's.
        label = f"{owned.group if len(run.record.groups) > 1 else owned.topic}/{owned.partition}"
        style = broker_style(numbers.get(str(owned.consumer), -1) + 1)
        begins, ends = run.seconds(owned.from_ns), run.seconds(owned.to_ns)
        strips.setdefault(label, []).append(Segment(begins, ends, style, str(owned.consumer)))
    shown = [Strip(label, tuple(strips[label])) for label in sorted(strips)][:STRIPS_MOST]
    note = "Which consumer owned which partition, as the consumers logged it. A gap: no owner."
    if left := len(strips) - len(shown):
        note += f" {left} more are not shown."
    if later := run.verdict.owners_left_out:
        note += f" {later:,} later periods of ownership are not shown."
    legend = [(broker_style(number + 1), name) for name, number in numbers.items()]
    return [Panel("owners", "Owners", note, "", Axis(0, 1), strips=shown, legend=legend)]


def _outbox(run: Run) -> list[Panel]:
    table = run.table("outbox", ("producer", "at_ns", "depth"))
    names = {producer.id: producer.name for producer in run.record.producers}
    series = []
    for number in sorted(set(table["producer"].to_pylist())):
        own = table.filter(pc.field("producer") == number).sort_by("at_ns")
        times, depths = run.seconds(integers(own["at_ns"])), numbers(own["depth"])
        series.append(thinned(names.get(number, f"producer {number}"), broker_style(number + 1), times, depths, True))
    note = "Messages in a producer's outbox that were not acknowledged yet."
    return [Panel("outbox", "Outbox", note, "messages", axis_over(series), series)] if series else []


def _latency(traffic: Traffic) -> list[Panel]:
    if traffic.from_due.total == 0:
        return []
    series: list[Series] = []
    for latency, whence, dashes in ((traffic.from_due, "due", ""), (traffic.from_sent, "sent", " dashed")):
        series += _percentiles(latency, whence, dashes)
    width = traffic.from_due.width_s
    span = "second" if width == 1 else f"{width} seconds"
    note = (
        f"Of acknowledged messages, per {span}. Solid: from when a message was due; dashed: from when it was sent. "
        "The difference is waiting that a benchmark without due times would not see. "
        "Percentiles are within 2 %, the largest is exact."
    )
    return [Panel("latency", "Latency", note, "ms", axis_over(series, logarithmic=True), series)]


def _percentiles(latency: LatencyOverTime, whence: str, dashes: str) -> list[Series]:
    lines = [(f"p{share * 100:g}", latency.percentile(share)) for share in (0.5, 0.99)]
    lines.append(("largest", latency.largest()))
    return [
        thinned(f"{name} since {whence}", f"{name.replace('.', '')}{dashes}", times, values)
        for name, (times, values) in lines
    ]


def _points(panel: Panel) -> list[dict[str, Any]]:
    return [
        {
            "t": [round(float(at), 3) for at in series.times],
            "v": [None if np.isnan(value) else round(float(value), 3) for value in series.values],
            "steps": series.steps,
        }
        for series in panel.series
    ]
