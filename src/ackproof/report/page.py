"""`runs/<id>/report.html`: one page that a person would send to a colleague.

At the top are the verdict in one sentence and the key numbers. Below is the evidence, so that a reader who doubts the
sentence can follow it down to single messages and to the brokers' log lines. Everything comes from the run directory. A
run that was not judged has a page too, which says so first and then shows what is known.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec

from ackproof.model.verdict import FailoverTimes
from ackproof.report import phrases as words
from ackproof.report.broker_logs import LogLine, about, read_log_lines
from ackproof.report.broker_views import Partition, read_partitions
from ackproof.report.check_tables import check_tables, is_silent
from ackproof.report.drawn_timeline import draw_timeline
from ackproof.report.health_panels import toll_rows
from ackproof.report.key_numbers import counted_numbers, fate_bar, key_numbers
from ackproof.report.lost_ranges import LostRange, lost_ranges, tell
from ackproof.report.measure_tables import measured
from ackproof.report.public import SOURCE, public_results
from ackproof.report.render import json_block, render, write_whole
from ackproof.report.run_reader import SECOND, Run, open_run
from ackproof.report.time_series import read_traffic
from ackproof.report.timeline import make_timeline

REPORT = "report.html"
RANGES_SHOWN = 40
LINES_SHOWN = 40


def write_report(run_directory: Path) -> Path:
    """Write the page of a run, judged or not, and return its path."""
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
        result=_headline(run),
        fit=verdict is not None and words.is_fit(verdict),
        began=run.wall(record.began.monotonic_ns).strftime("%Y-%m-%d %H:%M:%S UTC"),
        load_began=words.time_of_day(run, run.origin_ns),
        numbers=key_numbers(verdict) if verdict else counted_numbers(run, traffic),
        fates=words.fate_rows(verdict.fates) if verdict else [],
        bar=fate_bar(verdict) if verdict else [],
        timeline=draw_timeline(timeline),
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
        checks=check_tables(run, verdict) if verdict else [],
        silent=[check.name for check in verdict.checks if is_silent(check)] if verdict else [],
        command=shlex.join(record.argv),
        changed=[value for flag, value in pairwise(record.argv) if flag == "--set"],
        plan=msgspec.json.format(msgspec.json.encode(record.plan), indent=2).decode(),
        problems=run.problems,
    )


@dataclass(frozen=True)
class Headline:
    """The result in one word and one sentence, and its sign for those who do not see colours."""

    name: str
    sign: str
    word: str
    sentence: str


@dataclass(frozen=True)
class ShownLine:
    """A line of a broker's log."""

    at: str
    node: str
    text: str
    cuts: bool


@dataclass(frozen=True)
class ShownRange:
    """A range of lost messages with its story, and what the brokers logged at that time."""

    title: str
    lost: LostRange
    meaning: str
    story: list[tuple[str, str]]
    lines: list[ShownLine]
    lines_total: int


@dataclass(frozen=True)
class ShownFailover:
    title: str
    steps: list[words.FailoverStep]


def _headline(run: Run) -> Headline:
    name = run.verdict.result if run.verdict else "not judged"
    sign, word = words.RESULTS[name]
    if run.verdict is not None:
        sentence = run.verdict.sentence
        told = sentence.removeprefix(f"{word}: ").removeprefix(f"{name}: ")  # the word stands above it already
        return Headline(name, sign, word, told[:1].upper() + told[1:])
    how = {"interrupted": "The run was interrupted", "failed": "The run failed", "complete": "The run is complete"}
    begun = how.get(run.record.ended or "", "The run did not come to its end")
    sentence = f"{begun}, and it was not judged: nothing below says whether anything was lost."
    return Headline("not-judged", sign, word, sentence)


def _focus(partitions: Sequence[Partition], ranges: Sequence[LostRange]) -> Partition | None:
    """Return the partition whose story is drawn: the one with the longest lost range, else the first one."""
    for entry in ranges:
        for partition in partitions:
            if (partition.topic, partition.partition) == (entry.topic, entry.partition):
                return partition
    return partitions[0] if partitions else None


def _range(run: Run, lost: LostRange, partitions: Sequence[Partition], lines: list[LogLine]) -> ShownRange:
    story = tell(lost, partitions)
    begins = int(lost.done_ns[0]) - 2 * SECOND
    ends = max(story.gone_ns or 0, int(lost.done_ns[-1])) + 5 * SECOND
    said = about(lines, run.topic(lost.topic), lost.partition, begins, ends)
    return ShownRange(
        title=words.range_title(run, lost),
        lost=lost,
        meaning=words.FATES.get(lost.fate, ""),
        story=words.range_story(run, lost, story),
        lines=[_line(run, line) for line in said[:LINES_SHOWN]],
        lines_total=len(said),
    )


def _other_lines(run: Run, partitions: Sequence[Partition], lines: list[LogLine]) -> list[ShownLine]:
    """Return what the brokers logged about leaders and logs while the load ran, for a run without losses."""
    ends = run.record.marks.drained_ns or run.origin_ns + 86_400 * SECOND
    chosen: dict[int, LogLine] = {}
    for partition in partitions[:16]:
        said = about(lines, run.topic(partition.topic), partition.partition, run.origin_ns, ends)
        chosen |= {id(line): line for line in said}
    ordered = sorted(chosen.values(), key=lambda line: line.at_ns)
    return [_line(run, line) for line in ordered[: 2 * LINES_SHOWN]]


def _line(run: Run, line: LogLine) -> ShownLine:
    return ShownLine(words.moment(run, line.at_ns), line.node, line.text, line.truncates)


def _failover(run: Run, times: FailoverTimes) -> ShownFailover:
    where = f"{run.topic(times.topic) if isinstance(times.topic, int) else times.topic}/{times.partition}"
    return ShownFailover(f"{times.kind} (fault {times.fault}) at {where}", words.failover_steps(run, times))
