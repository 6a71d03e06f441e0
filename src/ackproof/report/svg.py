"""Draw panels as SVG that needs no script: lines, steps, strips, bands and axes.

A panel has an outer drawing in the page's pixels, which holds the words, and an inner one on a fixed grid, which is
stretched and holds the lines. So words are never distorted, a narrow screen needs no other drawing, and to zoom, the
page's small script only changes the view box of all inner drawings. Numbers and words are inserted with
`Markup.format`, which escapes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from markupsafe import Markup

from ackproof.report.time_series import Floats, Series

WIDTH, HEIGHT = 10_000, 1_000  # the inner grid


@dataclass(frozen=True)
class Axis:
    """Maps values to the inner grid; the largest is at the top."""

    low: float
    high: float
    logarithmic: bool = False

    def place(self, values: Floats) -> Floats:
        if self.logarithmic:
            low, high, values = np.log(self.low), np.log(self.high), np.log(np.maximum(values, self.low))
        else:
            low, high = self.low, self.high
        return np.asarray((values - low) / (high - low), dtype=np.float64)

    def place_all(self, values: Sequence[float]) -> list[tuple[float, float]]:
        """Return the place of each value, with the value."""
        return list(zip(self.place(np.array(values, dtype=np.float64)).tolist(), values, strict=True))

    def ticks(self, count: int = 4) -> list[float]:
        if self.logarithmic:
            powers = range(int(np.floor(np.log10(self.low))), int(np.ceil(np.log10(self.high))) + 1)
            return [10.0**power for power in powers if self.low * 0.999 <= 10.0**power <= self.high * 1.001]
        return nice_ticks(self.low, self.high, count)


@dataclass(frozen=True)
class Band:
    """A span of time that is shaded in every panel."""

    begins: float
    ends: float
    label: str
    kind: str = "fault"
    number: int | None = None  # the number of the fault, which replaces the label if there is no room


@dataclass(frozen=True)
class Segment:
    """A stretch of a strip, for example the time in which one broker led."""

    begins: float
    ends: float
    style: str
    label: str


@dataclass(frozen=True)
class Strip:
    name: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class Panel:
    name: str
    title: str
    note: str
    unit: str
    axis: Axis
    series: Sequence[Series] = ()
    strips: Sequence[Strip] = ()
    legend: Sequence[tuple[str, str]] = field(default=())  # styles and words, if the legend is not made from the series

    @property
    def shown(self) -> int:
        return sum(series.shown for series in self.series)

    @property
    def total(self) -> int:
        return sum(series.total for series in self.series)


def nice_ticks(low: float, high: float, count: int) -> list[float]:
    """Return round numbers inside a range, about `count` of them."""
    span = max(high - low, 1e-9)
    raw = span / max(count, 1)
    magnitude = 10.0 ** np.floor(np.log10(raw))
    step = next(magnitude * factor for factor in (1, 2, 5, 10) if magnitude * factor >= raw * 0.999)
    first = np.ceil(low / step - 1e-9)
    return [float(place * step) + 0.0 for place in np.arange(first, np.floor(high / step + 1e-9) + 1)]


def short(value: float) -> str:
    """Shorten a number for an axis: 12 k instead of 12,000, 0.5 instead of 0.500."""
    for limit, divisor, suffix in ((1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e4, 1e3, " k")):
        if abs(value) >= limit:
            return f"{value / divisor:.4g}{suffix}"
    return f"{value:,.6g}"


def axis_over(series: Iterable[Series], logarithmic: bool = False, headroom: float = 1.06) -> Axis:
    """Return an axis for all values, from 0, or, if logarithmic, from the decade below the smallest value."""
    values = np.concatenate([entry.values for entry in series] or [np.zeros(1)])
    values = values[~np.isnan(values)]
    largest = float(values.max()) if len(values) else 1.0
    if not logarithmic:
        return Axis(0.0, largest * headroom if largest > 0 else 1.0)
    positive = values[values > 0]
    smallest = float(positive.min()) if len(positive) else 1.0
    low = 10.0 ** np.floor(np.log10(smallest))
    return Axis(low, max(largest * 1.3, low * 10), logarithmic=True)


def percent(share: float) -> str:
    return f"{share * 100:.3f}%"


def inner(panel: Panel, time: Axis, bands: Sequence[Band]) -> Markup:
    """Draw the inner part of a panel, which is stretched."""
    parts = [Markup('<g class="bands">'), *(_band(band, time) for band in bands), Markup("</g>")]
    parts += [
        Markup('<line class="grid" x1="0" x2="{}" y1="{}" y2="{}"/>').format(WIDTH, y, y)
        for y in (_down(place) for place in panel.axis.place(np.array(panel.axis.ticks())))
        if panel.series
    ]
    rows = len(panel.strips)
    for row, strip in enumerate(panel.strips):
        parts += [_segment(segment, time, row, rows) for segment in strip.segments]
    parts += [_line(series, time, panel.axis) for series in panel.series]
    return Markup("").join(parts)


def _down(place: float) -> int:
    return round((1 - min(max(place, -0.1), 1.1)) * HEIGHT)


def _across(time: Axis, seconds: float) -> int:
    return round(float(np.clip((seconds - time.low) / (time.high - time.low), 0, 1)) * WIDTH)


def _band(band: Band, time: Axis) -> Markup:
    left, right = _across(time, band.begins), _across(time, band.ends)
    shape = Markup('<rect class="band {}" x="{}" y="0" width="{}" height="{}"/>')
    return shape.format(band.kind, left, max(right - left, 8), HEIGHT)


def _segment(segment: Segment, time: Axis, row: int, rows: int) -> Markup:
    left, right = _across(time, segment.begins), _across(time, segment.ends)
    height = HEIGHT / rows
    shape = Markup('<rect class="strip {}" x="{}" y="{:.0f}" width="{}" height="{:.0f}"><title>{}</title></rect>')
    told = f"{segment.label}: {segment.begins:,.2f} to {segment.ends:,.2f} s"
    return shape.format(segment.style, left, (row + 0.14) * height, max(right - left, 1), height * 0.72, told)


def _line(series: Series, time: Axis, axis: Axis) -> Markup:
    across = np.round((series.times - time.low) / (time.high - time.low) * WIDTH)
    down = np.round((1 - axis.place(series.values)) * HEIGHT)
    pieces, begun, last = [], False, 0
    for x, y in zip(across.tolist(), down.tolist(), strict=True):
        if np.isnan(y):
            begun = False
            continue
        if not begun:
            # A single point has no length and would be invisible: a line to itself, with round ends, is a dot.
            pieces.append(f"M{x:.0f} {y:.0f}h0")
        else:
            pieces.append(f"H{x:.0f}V{y:.0f}" if series.steps and y != last else f"L{x:.0f} {y:.0f}")
        begun, last = True, y
    return Markup('<path class="line {}" d="{}"/>').format(series.style, "".join(pieces))
