"""Runs the catalogue and writes `docs/results.md` from the verdicts: every scenario in both modes, resumable.

Without options each line is run once, section A in its base shape and the others in every shape that they have. With
`--repeat 3` a line is run until nothing contradicted it three times in a row. Each run has a lab of its own, for faults
leave traces (epochs, dead brokers, settings) that the next scenario must not meet; one lab starts while another works
(`--at-once`), except for scenarios that measure something, which have the machine to themselves. One Spark session
judges all runs, a batch at a time, for a Spark that is up judges a dozen in little more time than one.
Every run that was judged becomes a row of `docs/results.json`, and the page is written anew from those rows, so it says
what was seen and nothing else. A run that contradicts its scenario stays there, with its directory's name, and is named
at the end until `docs/explained.toml` explains it.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from itertools import takewhile
from pathlib import Path

import msgspec

from ackproof.cli_run import SECTIONS
from ackproof.judging import Judging
from ackproof.record import RunRecord, read_record
from ackproof.report.measures import Measured, measured
from ackproof.scenario import Scenario
from ackproof.scenario_file import bundled, find, load
from ackproof.verdict import Verdict, read_verdict

HOME = Path(__file__).resolve().parents[1]
PAGE, DATA, EXPLAINED = (HOME / "docs" / name for name in ("results.md", "results.json", "explained.toml"))
SECTIONS_RUN = ("A", "B", "C", "D", "E")
SHAPES = ("base", "slow", "crowd")
BATCH = 24
PAUSE_S = 600  # between two runs of one sitting; a batch is judged in less
GOOD = ("confirmed", "not judged")
Cell = tuple[str, str, str]  # scenario, shape, mode


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of one run."""

    run: str
    section: str
    scenario: str
    shape: str
    mode: str
    kafka: str
    result: str
    acked: int
    high_watermark: int | None = None
    lost: int | None = None
    fates: dict[str, int] = {}
    expected: dict[str, str] = {}  # what the scenario forbids or requires
    found: dict[str, int | None] = {}  # how many witnesses each of those has
    claims: int = 0  # how many claims the scenario makes of brokers
    unavailable_ms: float | None = 0.0
    run_s: float | None = None  # from the command to the verdict, or to the sealed journal where it was judged later
    heal_to_verdict_s: float | None = None
    machine: str = ""
    measured: list[Measured] = []  # the tables that the report shows, too

    @property
    def cell(self) -> Cell:
        return self.scenario, self.shape, self.mode

    @property
    def began(self) -> datetime:
        return datetime.strptime(self.run[:15], "%Y%m%d-%H%M%S")

    @property
    def over(self) -> datetime:
        return self.began + timedelta(seconds=self.run_s or 0)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--section", default=",".join(SECTIONS_RUN), help="sections, with commas")
    options.add_argument("--modes", default="zookeeper,kraft")
    options.add_argument("--shapes", help="with commas; by default base for section A, and all for the others")
    options.add_argument(
        "--judge-each", action="store_true", help="judge each run at once, and measure the time to its verdict"
    )
    options.add_argument(
        "--at-once", type=int, default=2, help="labs at the same time; what measures something is alone in any case"
    )
    options.add_argument("--repeat", type=int, default=1, help="confirmed runs in a row; slow and crowd run once")
    options.add_argument("--runs", type=Path, default=HOME / "runs" / "catalogue")
    options.add_argument("--only-write", action="store_true", help="write the page from what is there; run nothing")
    given = options.parse_args()
    wanted = list(cells(given.section.split(","), given.modes.split(","), given.shapes and given.shapes.split(",")))
    if not given.only_write:
        run_all(missing(wanted, given.repeat, outcomes(given.runs)), given.runs, given.at_once, given.judge_each)
    rows = write(given.runs)
    print(f"{PAGE.relative_to(HOME)} is written", file=sys.stderr)
    open_rows = unexplained(rows, explanations())
    for row in open_rows:
        print(f"{row.run} was {row.result}, which {EXPLAINED.relative_to(HOME)} does not explain yet", file=sys.stderr)
    lacking = [] if given.only_write else sorted(set(missing(wanted, given.repeat, outcomes(given.runs))))
    for cell in lacking:
        print(
            f"{' '.join(cell)}: not as many runs in a row as asked for; the same command tries again", file=sys.stderr
        )
    return 1 if open_rows or lacking else 0


def cells(sections: list[str], modes: list[str], shapes: list[str] | None) -> Iterator[Cell]:
    found = []
    for name in bundled():
        source = find(name)
        if load(source).section in sections:
            found += [
                (name, shape, mode)
                for shape in source.shapes
                for mode in modes
                if mode in load(source, shape).modes and _is_wanted(load(source, shape).section, shape, shapes)
            ]
    yield from sorted(found, key=lambda cell: _shape_place(cell[1]))


def _is_wanted(section: str, shape: str, shapes: list[str] | None) -> bool:
    return shape in shapes if shapes is not None else section != "A" or shape == "base"


def outcomes(runs: Path) -> dict[Cell, list[str]]:
    """What came of each line's runs, in their order; nothing of a run that came to no end."""
    found: dict[Cell, list[str]] = defaultdict(list)
    for directory in directories(runs):
        record = read_record(directory)
        if record.ended == "complete":
            judged = (directory / "verdict" / "verdict.json").exists()
            result = read_verdict(directory).result if judged else "not judged"
            found[record.scenario, record.shape, record.mode].append(result)
    return found


def missing(wanted: list[Cell], repeat: int, done: Mapping[Cell, list[str]]) -> list[Cell]:
    """What is still to run, round after round: a line needs so many runs in a row that nothing contradicts."""
    found = []
    for number in range(repeat):
        for cell in wanted:
            rounds = 1 if cell[1] in ("slow", "crowd") else repeat
            in_a_row = list(takewhile(lambda result: result in GOOD, reversed(done.get(cell, []))))
            if number < rounds - len(in_a_row):
                found.append(cell)
    return found


def run_all(to_run: list[Cell], runs: Path, at_once: int, judge_each: bool) -> None:
    began = time.monotonic()
    alone = [cell for cell in to_run if measures(cell)]
    others = [cell for cell in to_run if cell not in alone]
    batches = [(labs, cells[n : n + BATCH]) for labs, cells in ((at_once, others), (1, alone)) for n in _steps(cells)]
    done = 0
    with closing(Judging()) as judging:
        for labs, batch in batches:
            with ThreadPoolExecutor(labs) as pool:
                list(pool.map(lambda cell: run(cell, runs, judge_each), batch))
            judge(judging, runs)
            write(runs)
            done += len(batch)
            print(f"{done} of {len(to_run)} runs, {(time.monotonic() - began) / 60:.0f} min", file=sys.stderr)


def _steps(cells: list[Cell]) -> range:
    return range(0, len(cells), BATCH)


def measures(cell: Cell) -> bool:
    """Whether its claims are of rates, times or costs, which another lab beside it would change."""
    name, shape, _ = cell
    scenario: Scenario = load(find(name), shape)
    timed = any(producer.after for producer in scenario.producers) or any(each.receiver for each in scenario.consumers)
    return timed or bool(scenario.mirrors) or scenario.health is not None or scenario.judge.rate_line is not None


def run(cell: Cell, runs: Path, judged: bool) -> None:
    name, shape, mode = cell
    command = [str(HOME / "ackproof"), "run", name, "--shape", shape, "--mode", mode, "--out", str(runs)]
    print(f"=== {name} {shape} {mode}", file=sys.stderr, flush=True)
    subprocess.run([*command, *([] if judged else ["--no-judge"])], check=False)


def judge(judging: Judging, runs: Path) -> None:
    unjudged = [path for path in directories(runs) if _came_to_its_end(path) and not (path / "verdict").exists()]
    if unjudged:
        for verdict in judging.judge(unjudged, lambda _: None, lambda *_: None):
            print(f"{verdict.result:10} {verdict.run}", file=sys.stderr, flush=True)


def _came_to_its_end(run: Path) -> bool:
    """In good order or not; one that was interrupted is run again."""
    return read_record(run).ended in ("complete", "failed")


def directories(runs: Path) -> list[Path]:
    return sorted(path for path in runs.iterdir() if (path / "run.json").exists()) if runs.is_dir() else []


def rows_of(runs: Path) -> list[Row]:
    return [
        row_of(read_record(directory), read_verdict(directory))
        for directory in directories(runs)
        if (directory / "verdict" / "verdict.json").exists()
    ]


def row_of(record: RunRecord, verdict: Verdict) -> Row:
    marks = record.marks
    asked: dict[str, str] = {name: expected for name, expected in record.expect.items() if expected != "allowed"}
    claims = record.plan.get("claims", [])
    names = [*asked, *(["claims"] if claims else [])]
    printed = marks.verdict_ns
    over = printed if printed or record.ended_at is None else record.ended_at.monotonic_ns
    return Row(
        run=record.name,
        section=record.section,
        scenario=record.scenario,
        shape=record.shape,
        mode=record.mode,
        kafka=record.kafka,
        result=verdict.result,
        acked=verdict.acked,
        high_watermark=verdict.high_watermark,
        lost=verdict.lost,
        fates={name: count for name, count in verdict.fates.items() if count},
        expected=asked,
        found={check.name: check.found for check in verdict.checks if check.name in names},
        claims=len(claims),
        unavailable_ms=verdict.unavailable_ms,
        run_s=None if over is None else (over - record.began.monotonic_ns) / 1e9,
        heal_to_verdict_s=None if printed is None or marks.healed_ns is None else (printed - marks.healed_ns) / 1e9,
        machine=f"Linux {platform.release()}, {os.cpu_count()} cores; "
        + ", ".join(f"{name} {version}" for name, version in sorted(record.versions.items())),
        measured=measured(verdict),
    )


# -- the page --------------------------------------------------------------------------------------------------------

HEAD = """# Results

Written by `scripts/catalogue` from the verdicts of real runs, which are kept in `docs/results.json`. *Lost* counts
acknowledged messages that the healed log does not hold. `docs/catalogue.md` says in words what was seen.
"""
TOOK = """`./scripts/catalogue` without options runs each line once. The longest sitting that is kept has {:,} runs
of {:,} lines and took {:.0f} minutes, from the start of its first lab to the end of its last.
"""
Column = tuple[str, Callable[[list[Row]], str]]


def write(runs: Path) -> list[Row]:
    kept = msgspec.json.decode(DATA.read_bytes(), type=list[Row]) if DATA.exists() else []
    known = {row.run: row for row in [*kept, *rows_of(runs)]}
    rows = sorted(known.values(), key=_row_place)
    DATA.write_bytes(b"[\n" + b",\n".join(msgspec.json.encode(row) for row in rows) + b"\n]\n")
    PAGE.write_text(page(rows, explanations()))
    return rows


def explanations() -> dict[str, str]:
    return tomllib.loads(EXPLAINED.read_text()) if EXPLAINED.exists() else {}


def unexplained(rows: list[Row], explained: Mapping[str, str]) -> list[Row]:
    return [row for row in rows if row.result != "confirmed" and row.run not in explained]


def longest_sitting(rows: list[Row]) -> list[Row]:
    """Of what the command runs without options: the most runs that followed each other without a pause."""
    wanted = [row for row in rows if row.section in SECTIONS_RUN and _is_wanted(row.section, row.shape, None)]
    sittings: list[list[Row]] = []
    for row in sorted((row for row in wanted if row.run_s is not None), key=lambda row: row.began):
        if not sittings or row.began - max(each.over for each in sittings[-1]) > timedelta(seconds=PAUSE_S):
            sittings.append([])
        sittings[-1].append(row)
    return max(sittings, key=len, default=[])


def page(rows: list[Row], explained: Mapping[str, str]) -> str:
    sections: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        sections[row.section].append(row)
    parts = [HEAD]
    if sitting := longest_sitting(rows):
        spent = max(row.over for row in sitting) - sitting[0].began
        parts.append(TOOK.format(len(sitting), len({row.cell for row in sitting}), spent.total_seconds() / 60))
    for section in sorted(sections):
        own = sections[section]
        parts.append(f"\n## {section}. {SECTIONS[section]}\n\n### In short\n")
        groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
        for row in own:
            # A scenario whose expectation was changed has a line for the old one, too.
            expected = "" if section == "A" else str((sorted(row.expected.items()), row.claims))
            groups[(row.scenario, row.shape if section != "A" else "", row.mode, expected)].append(row)
        parts.append(_table(SUMMARY_OF_LOSS if section == "A" else SUMMARY, groups.values()))
        parts.append("\n### Each run\n")
        parts.append(_table(EACH_LOSS if section == "A" else EACH, ([row] for row in own)))
        for row in own:
            if row.result != "confirmed" or row.run in explained:
                parts.append(f"\n**{row.run}**, {row.result}: {explained.get(row.run, 'not explained yet.').strip()}")
        if any(row.measured for row in own):
            parts += ["\n### What was measured", *_measures(own)]
    machines = sorted({re.sub(r", kafka [0-9.]+", "", row.machine) for row in rows if row.machine})
    return "\n".join(parts) + f"\n\n{len(rows)} runs on {'; and on '.join(machines)}.\n"


def _table(columns: list[Column], groups: Iterable[list[Row]]) -> str:
    return _lines([name for name, _ in columns], ([make(group) for _, make in columns] for group in groups))


def _lines(headings: list[str], lines: Iterable[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [headings, ["---"] * len(headings), *lines])


def _measures(rows: list[Row]) -> Iterator[str]:
    """A table of each measure, with all runs that have it."""
    tables: dict[tuple[str, ...], list[list[str]]] = defaultdict(list)
    for row in rows:
        for each in row.measured:
            runs = [row.run, *[""] * len(each.rows)]
            tables[each.title, *each.headings] += [[run, *line] for run, line in zip(runs, each.rows, strict=False)]
    for (title, *headings), lines in tables.items():
        yield f"\n<details><summary>{title}</summary>\n\n{_lines(['run', *headings], lines)}\n\n</details>"


def _row_place(row: Row) -> tuple[str, str, int, str, str, str]:
    return row.section, row.scenario, _shape_place(row.shape), row.shape, row.mode, row.run


def _shape_place(shape: str) -> int:
    return SHAPES.index(shape) if shape in SHAPES else len(SHAPES)


def _expected_loss(rows: list[Row]) -> str:
    return rows[0].expected.get("lost", "allowed")


def _lost_share(rows: list[Row]) -> str:
    shares = sorted((row.lost or 0) / row.acked for row in rows if row.acked)
    return f"{shares[0]:.1%} to {shares[-1]:.1%}" if shares else "?"


def _confirmed(rows: list[Row]) -> str:
    return f"{sum(row.result == 'confirmed' for row in rows)} of {len(rows)}"


def _longest(rows: list[Row]) -> str:
    seconds = [row.heal_to_verdict_s for row in rows if row.heal_to_verdict_s is not None]
    return f"{max(seconds):.1f} s" if seconds else "?"


def _expectation(rows: list[Row]) -> str:
    first = rows[0]
    words = [f"{name} {expected}" for name, expected in first.expected.items()]
    return ", ".join([*words, *([f"{first.claims} claims"] if first.claims else [])]) or "-"


def _found(rows: list[Row]) -> str:
    """Of what is forbidden or required, how many; of the claims, how many do not hold; how long nobody could write."""
    words = []
    for name in rows[0].found:
        counts = sorted({-1 if (count := row.found.get(name)) is None else count for row in rows})
        told = " or ".join("?" if count < 0 else f"{count:,}" for count in counts)
        words.append(f"{name} {told}" if name != "claims" else f"claims that do not hold {told}")
    waits = sorted(row.unavailable_ms / 1000 for row in rows if row.unavailable_ms is not None)
    if waits and waits[-1]:
        words.append(f"waited for an ack {waits[0]:.1f}" + (f" to {waits[-1]:.1f} s" if len(waits) > 1 else " s"))
    return ", ".join(words) or "-"


def _other_fates(rows: list[Row]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in rows[0].fates.items() if name != "survived") or "-"


def _count(found: int | None) -> str:
    return "?" if found is None else f"{found:,}"


def _seconds(spent: float | None) -> str:
    return "?" if spent is None else f"{spent:.1f} s"


_SCENARIO: Column = ("scenario", lambda rows: rows[0].scenario)
_SHAPE: Column = ("shape", lambda rows: rows[0].shape)
_MODE: Column = ("mode", lambda rows: rows[0].mode)
_KAFKA: Column = ("Kafka", lambda rows: rows[0].kafka)
_VERDICT: Column = ("verdict", lambda rows: rows[0].result)
_RUN: Column = ("run", lambda rows: rows[0].run)
SUMMARY_OF_LOSS: list[Column] = [
    _SCENARIO,
    _MODE,
    ("expected loss", _expected_loss),
    ("confirmed", _confirmed),
    ("lost of acknowledged", _lost_share),
    ("heal to verdict, longest", _longest),
]
EACH_LOSS: list[Column] = [
    _SCENARIO,
    _SHAPE,
    _MODE,
    _KAFKA,
    ("expected loss", _expected_loss),
    ("acked", lambda rows: _count(rows[0].acked)),
    ("high watermark", lambda rows: _count(rows[0].high_watermark)),
    ("lost", lambda rows: _count(rows[0].lost)),
    ("other fates", _other_fates),
    _VERDICT,
    ("heal to verdict", lambda rows: _seconds(rows[0].heal_to_verdict_s)),
]
SUMMARY: list[Column] = [
    _SCENARIO,
    _SHAPE,
    _MODE,
    ("expected", _expectation),
    ("found", _found),
    ("confirmed", _confirmed),
]
EACH: list[Column] = [
    _SCENARIO,
    _SHAPE,
    _MODE,
    _KAFKA,
    ("expected", _expectation),
    ("found", _found),
    _VERDICT,
    ("duration", lambda rows: _seconds(rows[0].run_s)),
    _RUN,
]


if __name__ == "__main__":
    sys.exit(main())
