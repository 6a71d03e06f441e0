"""What the brokers logged about a partition: evidence besides our own.

These are lines about truncated logs, new leaders and replicas that left the in-sync set, in the wording of Kafka 3.9
and 4.x (both were seen). Log lines carry the time of day of the machine that ran them, without a zone; the zone is
inferred from a node's first line, which is written within minutes of the run's beginning, so that a page made elsewhere
is right too. Only regular files inside `logs/` are read: a planted link leads nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from ackproof.report.run_reader import Run

LINES_MOST = 5_000
LINE_LENGTH_MOST = 2_000
BYTES_AT_ONCE = 2**16
_QUARTER_HOUR_S = 900

_STAMPED = re.compile(rb"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\] (.*)$")
# A cheap search in the bytes comes first, because most of the hundred thousand lines are about something else.
_OF_INTEREST = re.compile(
    rb"Truncat(?:ing|ed)|starts at leader epoch|Shrinking ISR|Expanding ISR|ISR updated to|Changed partition"
    rb"|state changed to|[Uu]nclean|UNCLEAN|[Ll]ost leadership|becomes? leader|Session expired|has expired"
    rb"|Fencing broker|to unfence has been"
)
_ABOUT_NO_PARTITION = re.compile(r"Session expired\.|has expired|Fencing broker|to unfence has been")
_SAYS_NOTHING = re.compile(
    r"has no effect|TruncationState\(offset=0|NonExistentPartition|starts at leader epoch \d+ from offset 0 "
)


@dataclass(frozen=True)
class LogLine:
    at_ns: int
    node: str
    text: str
    truncates: bool


def read_log_lines(run: Run) -> list[LogLine]:
    """Return the lines of interest of all nodes in the order of time. A log that cannot be read becomes a problem of
    the run."""
    folder = run.directory / "logs"
    lines: list[LogLine] = []
    for path in sorted(folder.glob("*.log")) if folder.is_dir() and not folder.is_symlink() else []:
        if path.is_symlink() or not path.is_file():
            run.problems.append(f"logs/{path.name} is no regular file and was not read")
            continue
        try:
            for line in _lines(run, path):
                lines.append(line)
                if len(lines) >= LINES_MOST * 20:
                    run.problems.append(f"logs/{path.name}: only its first lines of interest were read")
                    break
        except OSError as error:
            run.problems.append(f"logs/{path.name} could not be read: {error.strerror}")
    return sorted(lines, key=lambda line: line.at_ns)


def about(lines: list[LogLine], topic: str, partition: int, begins_ns: float, ends_ns: float) -> list[LogLine]:
    """Return the lines of a span of time that are about one partition, or about sessions and fencing."""
    named = re.compile(rf"(?<![\w.-]){re.escape(topic)}-{partition}(?!\d)")
    return [
        line
        for line in lines
        if begins_ns <= line.at_ns <= ends_ns and (named.search(line.text) or _ABOUT_NO_PARTITION.search(line.text))
    ][:LINES_MOST]


def _lines(run: Run, path: Path) -> Iterator[LogLine]:
    zone_s: int | None = None
    with path.open("rb") as source:
        for raw in iter(partial(source.readline, BYTES_AT_ONCE), b""):  # a very long line is read in pieces
            if zone_s is not None and not _OF_INTEREST.search(raw):
                continue
            stamped = _STAMPED.match(raw[:LINE_LENGTH_MOST].rstrip())
            if stamped is None or (wall_s := _seconds(stamped[1], stamped[2])) is None:
                continue
            if zone_s is None:
                zone_s = round((wall_s - run.record.began.wall_ns / 1e9) / _QUARTER_HOUR_S) * _QUARTER_HOUR_S
            text = stamped[3].decode("utf-8", "replace")
            if _OF_INTEREST.search(raw) and not _SAYS_NOTHING.search(text):
                yield LogLine(run.monotonic(wall_s - zone_s), path.stem, text, "Truncating to" in text)


def _seconds(stamp: bytes, millis: bytes) -> float | None:
    try:
        moment = datetime.strptime(stamp.decode("ascii"), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return moment.timestamp() + int(millis) / 1000
