"""Runs the catalogue and writes `docs/results.md` from the verdicts: shape after shape, mode after mode, resumable.

The table is written anew from the run directories each time, so it says what was seen and nothing else. A run that
contradicts its scenario stays in the table, with its directory's name.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from ackproof.record import RunRecord, read_record
from ackproof.scenario_file import bundled, find, load
from ackproof.verdict import Verdict, read_verdict

HOME = Path(__file__).resolve().parents[1]
RESULTS = HOME / "docs" / "results.md"
Cell = tuple[str, str, str]  # scenario, shape, mode
Found = dict[Cell, list[tuple[RunRecord, Verdict]]]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--section", default="A", help="sections, with commas")
    options.add_argument("--modes", default="zookeeper,kraft")
    options.add_argument("--shapes", default="base,slow,crowd")
    options.add_argument("--repeat", type=int, default=3, help="runs of the base shape; slow and crowd run once")
    options.add_argument("--runs", type=Path, default=HOME / "runs" / "catalogue")
    options.add_argument("--only-write", action="store_true", help="write the table from what is there; run nothing")
    given = options.parse_args()
    wanted = list(cells(given.section.split(","), given.modes.split(","), given.shapes.split(",")))
    if not given.only_write:
        for number in range(given.repeat):
            for cell in wanted:
                rounds = given.repeat if cell[1] == "base" else 1
                if number < rounds and len(found_in(given.runs)[cell]) <= number:
                    run(cell, given.runs)
                    write(found_in(given.runs))
    write(found_in(given.runs))
    print(f"{RESULTS.relative_to(HOME)} is written", file=sys.stderr)
    return 0


def cells(sections: list[str], modes: list[str], shapes: list[str]) -> Iterator[Cell]:
    for shape in shapes:
        for name in bundled():
            source = find(name)
            scenario = load(source)
            if scenario.section in sections and shape in source.shapes:
                yield from ((name, shape, mode) for mode in modes if mode in scenario.modes)


def run(cell: Cell, runs: Path) -> None:
    name, shape, mode = cell
    command = [str(HOME / "ackproof"), "run", name, "--shape", shape, "--mode", mode, "--out", str(runs)]
    print(f"=== {name} {shape} {mode}", file=sys.stderr, flush=True)
    subprocess.run(command, check=False)


def found_in(runs: Path) -> Found:
    found: Found = defaultdict(list)
    for directory in sorted(runs.iterdir()) if runs.is_dir() else []:
        if (directory / "verdict" / "verdict.json").exists():
            record, verdict = read_record(directory), read_verdict(directory)
            found[(record.scenario, record.shape, record.mode)].append((record, verdict))
    return found


HEAD = """# Results

Written by `scripts/catalogue` from the verdicts of real runs. *Lost* counts acknowledged messages that the healed log
does not hold.

## In short

"""
SUMMARY = "| scenario | mode | expected loss | runs | confirmed | lost of acknowledged | heal to verdict, longest |"
EACH = """
## Each run

"""
COLUMNS = (
    "| scenario | shape | mode | Kafka | expected loss | acked | high watermark | lost | other fates | verdict "
    "| heal to verdict |"
)


def write(found: Found) -> None:
    lines = [HEAD + SUMMARY, "| --- | --- | --- | ---: | ---: | ---: | ---: |"]
    groups: dict[tuple[str, str], list[tuple[RunRecord, Verdict]]] = defaultdict(list)
    for cell in sorted(found, key=_place):
        groups[(cell[0], cell[2])] += found[cell]
    lines += [_summary(name, mode, groups[(name, mode)]) for name, mode in sorted(groups)]
    lines += [EACH + COLUMNS, "| --- | --- | --- | --- | --- | ---: | ---: | ---: | --- | --- | ---: |"]
    for cell in sorted(found, key=_place):
        lines += [_line(record, verdict) for record, verdict in found[cell]]
    RESULTS.write_text("\n".join(lines) + "\n" + _machine(found))


def _place(cell: Cell) -> tuple[str, int, str]:
    name, shape, mode = cell
    return name, ("base", "slow", "crowd").index(shape) if shape in ("base", "slow", "crowd") else 9, mode


def _summary(name: str, mode: str, runs: list[tuple[RunRecord, Verdict]]) -> str:
    shares = sorted((verdict.lost or 0) / verdict.acked for _, verdict in runs if verdict.acked)
    spread = f"{shares[0]:.1%} to {shares[-1]:.1%}" if shares else "?"
    seconds = [spent for record, _ in runs if (spent := _heal_to_verdict_s(record)) is not None]
    cells = (
        name,
        mode,
        runs[0][0].expect.get("lost", "allowed"),
        str(len(runs)),
        str(sum(verdict.result == "confirmed" for _, verdict in runs)),
        spread,
        f"{max(seconds):.1f} s" if seconds else "?",
    )
    return f"| {' | '.join(cells)} |"


def _line(record: RunRecord, verdict: Verdict) -> str:
    others = ", ".join(f"{name} {count:,}" for name, count in verdict.fates.items() if count and name != "survived")
    expected = record.expect.get("lost", "allowed")
    cells = (
        record.scenario,
        record.shape,
        record.mode,
        record.kafka,
        expected,
        _count(verdict.acked),
        _count(verdict.high_watermark),
        _count(verdict.lost),
        others or "-",
        verdict.result,
        _seconds(record),
    )
    return f"| {' | '.join(cells)} |"


def _count(found: int | None) -> str:
    return "?" if found is None else f"{found:,}"


def _heal_to_verdict_s(record: RunRecord) -> float | None:
    """From the end of healing to the printed verdict."""
    healed, printed = record.marks.healed_ns, record.marks.verdict_ns
    return None if healed is None or printed is None else (printed - healed) / 1e9


def _seconds(record: RunRecord) -> str:
    spent = _heal_to_verdict_s(record)
    return "?" if spent is None else f"{spent:.1f} s"


def _machine(found: Found) -> str:
    records = [record for runs in found.values() for record, _ in runs]
    versions = (
        ", ".join(f"{name} {version}" for name, version in sorted(records[-1].versions.items())) if records else ""
    )
    return f"\n{len(records)} runs on Linux {platform.release()}, {os.cpu_count()} cores; {versions}.\n"


if __name__ == "__main__":
    sys.exit(main())
