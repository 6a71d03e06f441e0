"""`runs/<id>/report.html`: one page that a person would send to a colleague.

On top the verdict in one sentence and the few numbers that everybody asks for; below, the evidence, so that whoever
doubts the sentence can follow it down to single messages and to the brokers' own log lines. Everything comes from the
run directory; a run that was not judged has its page too, which says so first and then shows what is known.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from ackproof.model.verdict import CheckResult, Verdict
from ackproof.report import phrases as words
from ackproof.report.broker_logs import LogLine, about, read_log_lines
from ackproof.report.broker_views import Partition, read_partitions
from ackproof.report.health_panels import toll_rows
from ackproof.report.lost_ranges import LostRange, lost_ranges, tell
from ackproof.report.measure_tables import measured
from ackproof.report.public import SOURCE, public_results
from ackproof.report.render import NOTHING, json_block, render, write_whole
from ackproof.report.run_reader import SECOND, Run, open_run
from ackproof.report.svg import Band, inner, nice_ticks, percent, short
from ackproof.report.time_series import Traffic, read_traffic
from ackproof.report.timeline import Timeline, make_timeline

REPORT = "report.html"
RANGES_SHOWN = 40
LINES_SHOWN = 40
WITNESSES_BYTES_MOST = 1_000_000
CELL_LENGTH_MOST = 400
LABEL_ROWS = 4
LETTER = 0.0075  # of the timeline's width, on an ordinary screen


def write_report(run_directory: Path) -> Path:
    """The page of a run, judged or not; written whole."""
    page = report_page(run_directory)
    return write_whole(run_directory / REPORT, page.encode("utf-8", "replace"))


def report_page(run_directory: Path) -> str:
    run = open_run(run_directory)
    traffic = read_traffic(run)
    partitions = read_partitions(run)
    ranges = lost_ranges(run)
    lines = read_log_lines(run)
    timeline = make_timeline(run, traffic, partitions, _focus(partitions, ranges))
    record, verdict = run.record, run.verdict
    return render(
        "report.html.j2",
        run=run,
        record=record,
        verdict=verdict,
        result=_result(run),
        fit=verdict is not None and words.is_fit(verdict),
        began=run.wall(record.began.monotonic_ns).strftime("%Y-%m-%d %H:%M:%S UTC"),
        load_began=words.time_of_day(run, run.origin_ns),
        numbers=_numbers(verdict) if verdict else _unjudged_numbers(run, traffic),
        fates=words.fate_rows(verdict.fates) if verdict else [],
        bar=_bar(verdict) if verdict else [],
        timeline=_timeline(timeline),
        hover=json_block(timeline.hover(run)),
        ranges=[_range(run, entry, partitions, lines) for entry in ranges[:RANGES_SHOWN]],
        ranges_total=len(ranges),
        other_lines=_other_lines(run, partitions, lines) if not ranges else [],
        moves=words.moves_table(run, verdict.moves if verdict else []),
        measures=measured(verdict) if verdict else [],
        runbook=verdict.runbook if verdict else [],
        failover=[_failover(run, row) for row in (verdict.failover if verdict else [])],
        toll=toll_rows(run),
        public=public_results(record.scenario),
        public_source=SOURCE,
        spread=words.rate_times_time(ranges),
        checks=_checks(run, verdict) if verdict else [],
        silent=[check.name for check in verdict.checks if _is_silent(check)] if verdict else [],
        command=shlex.join(record.argv),
        changed=[value for flag, value in pairwise(record.argv) if flag == "--set"],
        plan=msgspec.json.format(msgspec.json.encode(record.plan), indent=2).decode(),
        problems=run.problems,
    )


def _result(run: Run) -> dict[str, str]:
    name = run.verdict.result if run.verdict else "not judged"
    sign, word = words.RESULTS[name]
    if run.verdict is not None:
        sentence = run.verdict.sentence
        told = sentence.removeprefix(f"{word}: ").removeprefix(f"{name}: ")  # the word stands above it already
        return {"name": name, "sign": sign, "word": word, "sentence": told[:1].upper() + told[1:]}
    how = {"interrupted": "The run was interrupted", "failed": "The run failed", "complete": "The run is complete"}
    begun = how.get(run.record.ended or "", "The run never came to its end")
    sentence = f"{begun}, and nobody has judged it: nothing below says whether anything was lost."
    return {"name": "not-judged", "sign": sign, "word": word, "sentence": sentence}


def _focus(partitions: Sequence[Partition], ranges: Sequence[LostRange]) -> Partition | None:
    """The partition whose story is drawn: the one of the longest lost range, else the first that somebody wrote to."""
    for entry in ranges:
        for partition in partitions:
            if (partition.topic, partition.partition) == (entry.topic, entry.partition):
                return partition
    return partitions[0] if partitions else None


def _numbers(verdict: Verdict) -> list[dict[str, Any]]:
    by_name = {check.name: check for check in verdict.checks}
    rows: list[dict[str, Any]] = [
        {"name": "acknowledged", "count": verdict.acked, "text": f"of {verdict.sent:,} sent", "check": None},
        {
            "name": "high watermark",
            "count": verdict.high_watermark,
            "text": "the final log was not read to its end"
            if verdict.high_watermark is None
            else f"acknowledged minus high watermark = {verdict.acked - verdict.high_watermark:,}",
            "check": None,
        },
    ]
    meanings = {
        "lost": "acknowledged, and not in the healed log",
        "duplicated": "in the log more than once",
        "reordered": "in the log in another order than sent",
    }
    counts = {"lost": verdict.lost, "duplicated": verdict.duplicated, "reordered": verdict.reordered}
    rows += [
        {"name": name, "count": counts[name], "text": text, "check": by_name.get(name), "checked": name in by_name}
        for name, text in meanings.items()
    ]
    return rows + [
        {"name": check.name.replace("_", " "), "count": check.found, "text": check.text, "check": check}
        for check in words.expected_besides(verdict)
    ]


def _unjudged_numbers(run: Run, traffic: Traffic) -> list[dict[str, Any]]:
    """What can be counted without a judge, and said as no more than that."""
    counts = traffic.counts
    told = {"sent": ("sent", "messages given to a client"), "ok": ("acknowledged", "as the clients were told")}
    told |= {"fail": ("failed", "certainly not written"), "info": ("unknown", "the client cannot know")}
    rows: list[dict[str, Any]] = [
        {"name": name, "count": counts[key], "text": text, "check": None} for key, (name, text) in told.items()
    ]
    marks = run.table("ends", ("high_watermark",))["high_watermark"].to_pylist()
    if marks:
        rows.append({"name": "high watermark", "count": sum(marks), "text": "over all partitions", "check": None})
    return rows


def _bar(verdict: Verdict) -> list[dict[str, Any]]:
    """The fates side by side; the smallest is still wide enough to be seen."""
    rows = words.fate_rows(verdict.fates)
    total = sum(row["count"] for row in rows) or 1
    widths = [max(row["count"] / total, 0.004) for row in rows]
    scale, left, made = sum(widths), 0.0, []
    for row, width in zip(rows, widths, strict=True):
        made.append(
            {**row, "left": percent(left / scale), "width": percent(width / scale), "wide": width / scale > 0.12}
        )
        left += width
    return made


def labelled(bands: Sequence[tuple[float, Band]]) -> list[dict[str, Any]]:
    """Each label in the first row where nothing stands in its way; if one finds none, faults are shown by numbers."""
    bands = sorted(bands, key=lambda each: each[0])
    names = [band.label for _, band in bands]
    if _rows(bands, names) is None:
        names = [band.label if band.number is None else str(band.number) for _, band in bands]
    rows = _rows(bands, names) or [n % LABEL_ROWS for n in range(len(bands))]
    return [
        {
            "label": name,
            "kind": band.kind,
            "x": f"{at:.5f}",
            "at": percent(at),
            "y": 14 + 15 * row,
            "meant": band.label if name != band.label else "",
        }
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


def _timeline(timeline: Timeline) -> dict[str, Any]:
    time = timeline.time

    def place(seconds: float) -> float:
        return min(max((seconds - time.low) / (time.high - time.low), 0.0), 1.0)

    ticks = [{"at": percent(place(tick)), "text": short(tick)} for tick in nice_ticks(time.low, time.high, 10)]
    bands = labelled([(place(band.begins), band) for band in timeline.bands])
    panels = []
    for panel in timeline.panels:
        marks = panel.axis.place_all(panel.axis.ticks()) if panel.series else []
        rows = len(panel.strips)
        labels = [
            {
                "x": f"{place(entry.begins):.5f}",
                "end": f"{place(entry.ends):.5f}",
                "at": percent(place(entry.begins)),
                "y": percent((row + 0.5) / rows),
                "text": entry.label,
                "hidden": place(entry.ends) - place(entry.begins) < 0.16,
            }
            for row, strip in enumerate(panel.strips)
            for entry in strip.segments
        ]
        panels.append(
            {
                "name": panel.name,
                "title": panel.title,
                "note": panel.note,
                "unit": panel.unit,
                "inner": inner(panel, time, timeline.bands),
                "y": [{"at": percent(1 - mark), "text": short(tick)} for mark, tick in marks],
                "names": [{"at": percent((row + 0.5) / rows), "text": s.name} for row, s in enumerate(panel.strips)],
                "labels": labels,
                "legend": [(entry.style, entry.name) for entry in panel.series] or list(panel.legend),
                "lines": bool(panel.series),
                "rows": min(rows, 16),
                "shown": panel.shown,
                "total": panel.total,
            }
        )
    return {"ticks": ticks, "bands": bands, "panels": panels}


def _range(run: Run, lost: LostRange, partitions: Sequence[Partition], lines: list[LogLine]) -> dict[str, Any]:
    story = tell(lost, partitions)
    begins = int(lost.done_ns[0]) - 2 * SECOND
    ends = max(story.gone_ns or 0, int(lost.done_ns[-1])) + 5 * SECOND
    said = about(lines, run.topic(lost.topic), lost.partition, begins, ends)
    return {
        "title": words.range_title(run, lost),
        "count": lost.count,
        "fate": lost.fate,
        "meaning": words.FATES.get(lost.fate, ""),
        "story": words.range_story(run, lost, story),
        "lines": [_line(run, line) for line in said[:LINES_SHOWN]],
        "lines_total": len(said),
    }


def _other_lines(run: Run, partitions: Sequence[Partition], lines: list[LogLine]) -> list[dict[str, Any]]:
    """Without losses, what the brokers said of leaders and logs while the load ran."""
    ends = run.record.marks.drained_ns or run.origin_ns + 86_400 * SECOND
    chosen: dict[int, LogLine] = {}
    for partition in partitions[:16]:
        said = about(lines, run.topic(partition.topic), partition.partition, run.origin_ns, ends)
        chosen |= {id(line): line for line in said}
    ordered = sorted(chosen.values(), key=lambda line: line.at_ns)
    return [_line(run, line) for line in ordered[: 2 * LINES_SHOWN]]


def _line(run: Run, line: LogLine) -> dict[str, Any]:
    return {"at": words.moment(run, line.at_ns), "node": line.node, "text": line.text, "cuts": line.truncates}


def _failover(run: Run, row: dict[str, Any]) -> dict[str, Any]:
    topic, partition = row.get("topic"), row.get("partition")
    where = f"{run.topic(topic) if isinstance(topic, int) else topic}/{partition}"
    kind = row.get("kind") or "fault"
    return {"title": f"{kind} (fault {row.get('fault', '?')}) at {where}", "steps": words.failover_steps(run, row)}


def _checks(run: Run, verdict: Verdict) -> list[dict[str, Any]]:
    """Every check, those that speak against the expectation first; witnesses until the page would grow too large."""
    order = {"refuted": 0, "unknown": 1, "confirmed": 2, "not applicable": 3}
    left = WITNESSES_BYTES_MOST
    made = []
    told = [check for check in verdict.checks if not _is_silent(check)]
    for check in sorted(told, key=lambda check: order[check.result]):
        columns, rows = _witness_table(run, check)
        size = sum(len(cell) + 10 for row in rows for cell in row)
        shown = rows if size <= left else []
        left -= size if shown else 0
        made.append({"check": check, "columns": columns, "rows": shown, "left_out": len(rows) - len(shown)})
    return made


def _is_silent(check: CheckResult) -> bool:
    """It had nothing to look at, and nothing was expected of it."""
    return check.found is None and check.result == "confirmed"


def _witness_table(run: Run, check: CheckResult) -> tuple[list[str], list[list[str]]]:
    columns = list(dict.fromkeys(key for witness in check.witnesses for key in witness if key != "run"))
    rows = [[_cell(run, name, witness.get(name)) for name in columns] for witness in check.witnesses]
    heads = [name.removesuffix("_ns") + " (s)" if name.endswith("_ns") else name for name in columns]
    return heads, rows


def _cell(run: Run, name: str, value: Any) -> str:
    """A witness's value for a person: moments on the page's axis, ids by name."""
    if value is None:
        return NOTHING
    if isinstance(value, int) and not isinstance(value, bool):
        if name.endswith("_ns") and value > 0:
            return f"{run.seconds(value):.3f}" if not name.endswith(("took_ns", "gap_ns")) else f"{value / SECOND:.3f}"
        if name == "topic":
            return run.topic(value)
        if name.endswith(("broker", "leader")):
            return run.node(value)
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= CELL_LENGTH_MOST else text[:CELL_LENGTH_MOST] + "…"
