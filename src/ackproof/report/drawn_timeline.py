"""The timeline as the page draws it: each panel with its ticks, and every label at its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ackproof.report.svg import Band, Panel, inner, nice_ticks, percent, short
from ackproof.report.timeline import Timeline

LABEL_ROWS = 4
LETTER = 0.0075  # of the timeline's width, on an ordinary screen
_ROOM_FOR_WORDS = 0.16  # of the timeline's width


@dataclass(frozen=True)
class Tick:
    at: str
    text: str


@dataclass(frozen=True)
class BandLabel:
    label: str
    kind: str
    x: str
    at: str
    y: int
    meant: str  # the band's full label where only its number fits


@dataclass(frozen=True)
class SegmentLabel:
    x: str
    end: str
    at: str
    y: str
    text: str
    hidden: bool


@dataclass(frozen=True)
class DrawnPanel:
    name: str
    title: str
    note: str
    unit: str
    inner: Markup
    y: list[Tick]
    names: list[Tick]
    labels: list[SegmentLabel]
    legend: list[tuple[str, str]]
    lines: bool
    rows: int
    shown: int
    total: int


@dataclass(frozen=True)
class DrawnTimeline:
    ticks: list[Tick]
    bands: list[BandLabel]
    panels: list[DrawnPanel]


def draw_timeline(timeline: Timeline) -> DrawnTimeline:
    time = timeline.time
    ticks = [Tick(percent(_place(timeline, tick)), short(tick)) for tick in nice_ticks(time.low, time.high, 10)]
    bands = labelled([(_place(timeline, band.begins), band) for band in timeline.bands])
    return DrawnTimeline(ticks, bands, [_panel(timeline, panel) for panel in timeline.panels])


def _place(timeline: Timeline, seconds: float) -> float:
    time = timeline.time
    return min(max((seconds - time.low) / (time.high - time.low), 0.0), 1.0)


def _panel(timeline: Timeline, panel: Panel) -> DrawnPanel:
    marks = panel.axis.place_all(panel.axis.ticks()) if panel.series else []
    rows = len(panel.strips)
    return DrawnPanel(
        name=panel.name,
        title=panel.title,
        note=panel.note,
        unit=panel.unit,
        inner=inner(panel, timeline.time, timeline.bands),
        y=[Tick(percent(1 - mark), short(tick)) for mark, tick in marks],
        names=[Tick(percent((row + 0.5) / rows), strip.name) for row, strip in enumerate(panel.strips)],
        labels=_segment_labels(timeline, panel),
        legend=[(entry.style, entry.name) for entry in panel.series] or list(panel.legend),
        lines=bool(panel.series),
        rows=min(rows, 16),
        shown=panel.shown,
        total=panel.total,
    )


def _segment_labels(timeline: Timeline, panel: Panel) -> list[SegmentLabel]:
    labels = []
    for row, strip in enumerate(panel.strips):
        for segment in strip.segments:
            begins, ends = _place(timeline, segment.begins), _place(timeline, segment.ends)
            y = percent((row + 0.5) / len(panel.strips))
            hidden = ends - begins < _ROOM_FOR_WORDS
            labels.append(SegmentLabel(f"{begins:.5f}", f"{ends:.5f}", percent(begins), y, segment.label, hidden))
    return labels


def labelled(bands: Sequence[tuple[float, Band]]) -> list[BandLabel]:
    """Put each label into the first row that has room. If one finds no room, all faults are shown by their numbers."""
    bands = sorted(bands, key=lambda each: each[0])
    names = [band.label for _, band in bands]
    if _rows(bands, names) is None:
        names = [band.label if band.number is None else str(band.number) for _, band in bands]
    rows = _rows(bands, names) or [n % LABEL_ROWS for n in range(len(bands))]
    return [
        BandLabel(name, band.kind, f"{at:.5f}", percent(at), 14 + 15 * row, band.label if name != band.label else "")
        for (at, band), name, row in zip(bands, names, rows, strict=True)
    ]


def _rows(bands: Sequence[tuple[float, Band]], names: Sequence[str]) -> list[int] | None:
    rows, free_from = [], [0.0] * LABEL_ROWS
    for (at, _), name in zip(bands, names, strict=True):
        row = next((row for row, free in enumerate(free_from) if free <= at), None)
        if row is None:
            return None
        rows.append(row)
        free_from[row] = at + (len(name) + 2) * LETTER
    return rows
