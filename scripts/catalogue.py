"""Run every scenario in both modes, and write `docs/results.md` from the verdicts. A second call goes on.

A line is a scenario in one shape and mode. Without options each line runs once: section A in its base shape, the others
in every shape. With `--repeat 3` a line runs until nothing contradicted it three times in a row. Each run has a lab of
its own, because faults leave traces (epochs, dead brokers, settings) that the next scenario must not meet. Several labs
run at once (`--at-once`), except for scenarios that measure something: they run alone. One Spark session judges all
runs in batches, because a dozen runs take it little longer than one.

Every judged run becomes a row of `docs/results.json` (`results.py`), and the row is never changed. The page is written
from these rows. A run that contradicts its scenario is named at the end until `docs/explained.toml` explains it.
Exit codes: 0 done, 1 something is missing or not explained, 5 refused because a kept run would be removed.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

from results import (
    HOME,
    Cell,
    Row,
    commit_at,
    explanations,
    is_run_by_default,
    read,
    refuse_if_incomplete,
    shape_place,
    write,
)

from ackproof.core.errors import Refused
from ackproof.judge.worker import Judging
from ackproof.model.run_record import RunRecord, read_record
from ackproof.model.scenario import Scenario
from ackproof.model.verdict import Verdict, read_verdict
from ackproof.report.measure_tables import measured
from ackproof.scenario.load import load
from ackproof.scenario.source import bundled, find

SECTIONS_RUN = ("A", "B", "C", "D", "E")
BATCH = 24
GOOD = ("confirmed", "not judged")


def main() -> int:
    try:
        return _main()
    except Refused as problem:
        print(problem.message, file=sys.stderr)
        return problem.exit_code


def _main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--section", default=",".join(SECTIONS_RUN), help="sections, separated by commas")
    options.add_argument("--modes", default="zookeeper,kraft")
    options.add_argument(
        "--shapes", help="shapes, separated by commas; default: base for section A, all for the others"
    )
    options.add_argument(
        "--judge-each", action="store_true", help="judge each run when it ends, and measure the time to its verdict"
    )
    options.add_argument(
        "--at-once",
        type=int,
        default=2,
        help="labs at the same time; a scenario that measures something always runs alone",
    )
    options.add_argument("--repeat", type=int, default=1, help="confirmed runs in a row; slow and crowd run once")
    options.add_argument("--runs", type=Path, default=HOME / "runs" / "catalogue")
    options.add_argument("--only-write", action="store_true", help="write the page from the kept results; run nothing")
    given = options.parse_args()
    wanted = list(cells(given.section.split(","), given.modes.split(","), given.shapes and given.shapes.split(",")))
    refuse_if_incomplete(read())  # before hours of work
    if not given.only_write:
        run_all(missing(wanted, given.repeat, outcomes(given.runs)), given.runs, given.at_once, given.judge_each)
    keep(given.runs)
    print("docs/results.md is written", file=sys.stderr)
    explained = explanations()
    open_rows = [row for row in read() if row.result != "confirmed" and row.run not in explained]
    for row in open_rows:
        print(f"{row.run} was {row.result}, which docs/explained.toml does not explain yet", file=sys.stderr)
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
    yield from sorted(found, key=lambda cell: shape_place(cell[1]))


def _is_wanted(section: str, shape: str, shapes: list[str] | None) -> bool:
    return shape in shapes if shapes is not None else is_run_by_default(section, shape)


def outcomes(runs: Path) -> dict[Cell, list[str]]:
    """Return the results of each line's runs, in their order, without runs that did not end."""
    found: dict[Cell, list[str]] = defaultdict(list)
    for directory in directories(runs):
        record = read_record(directory)
        if record.ended == "complete":
            judged = (directory / "verdict" / "verdict.json").exists()
            result = read_verdict(directory).result if judged else "not judged"
            found[record.scenario, record.shape, record.mode].append(result)
    return found


def missing(wanted: list[Cell], repeat: int, done: Mapping[Cell, list[str]]) -> list[Cell]:
    """Yield the lines to run in each round, until each line has so many runs in a row that nothing contradicts."""
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
            keep(runs)
            done += len(batch)
            print(f"{done} of {len(to_run)} runs, {(time.monotonic() - began) / 60:.0f} min", file=sys.stderr)


def _steps(cells: list[Cell]) -> range:
    return range(0, len(cells), BATCH)


def measures(cell: Cell) -> bool:
    """Return whether it claims rates, times or costs, which another lab on the machine would change."""
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
    """Return whether the run ended, in good order or not. An interrupted run is repeated."""
    return read_record(run).ended in ("complete", "failed")


def directories(runs: Path) -> list[Path]:
    return sorted(path for path in runs.iterdir() if (path / "run.json").exists()) if runs.is_dir() else []


def keep(runs: Path) -> None:
    """Add a row for each judged run. Rows that are kept already stay as they are."""
    rows = {row.run: row for row in read()}
    for directory in directories(runs):
        if directory.name not in rows and (directory / "verdict" / "verdict.json").exists():
            row = row_of(read_record(directory), read_verdict(directory))
            rows.setdefault(row.run, row)
    write(rows.values())


def row_of(record: RunRecord, verdict: Verdict) -> Row:
    marks = record.marks
    asked: dict[str, str] = {name: expected for name, expected in record.expect.items() if expected != "allowed"}
    claims = record.plan.claims
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
        commit=commit_at(datetime.fromtimestamp(record.began.wall_ns / 1e9, UTC)),
        measured=measured(verdict),
    )


if __name__ == "__main__":
    sys.exit(main())
