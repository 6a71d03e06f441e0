"""Measure what a journal costs on disk: `scripts/bench journal --folder runs/catalogue`.

It counts the files, the bytes and the events (rows of sends, log and reads) of every run below a folder that has ended
and is sealed. All tables count, also those that grow with time and not with messages. It changes nothing in the folder.
`--anew` seals the same rows again in another place, as this version does it. `--write` adds the figures to
docs/performance.md.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from performance import keep

from ackproof.cli.ui.console import console, say_json, table
from ackproof.journal.compaction import merge_small_files
from ackproof.journal.files import STREAM_SUFFIX, sealed_files
from ackproof.journal.seal import write_sealed
from ackproof.model.journal_tables import TABLES
from ackproof.model.run_record import read_record

HOME = Path(__file__).resolve().parents[1]
EVENTS = ("sends", "log", "reads")
GOAL = 12.0  # bytes for each event of a base scenario


@dataclass(frozen=True)
class Weight:
    run: str
    section: str
    shape: str
    files: int
    bytes: int
    events: int

    @property
    def each(self) -> float:
        return self.bytes / max(1, self.events)


def main() -> int:
    options = argparse.ArgumentParser(description="What a journal costs on disk.")
    options.add_argument("--folder", type=Path, default=HOME / "runs" / "catalogue")
    options.add_argument("--shape", default="base")
    options.add_argument("--anew", action="store_true", help="seal the same rows again as this version does")
    options.add_argument("--json", action="store_true")
    options.add_argument("--write", action="store_true", help="write the figures to docs/performance.md too")
    given = options.parse_args()
    found = [weight for weight in weights(given.folder, given.anew) if weight.shape == given.shape]
    if not found:
        print(f"there is no sealed run of shape {given.shape} in {given.folder}")
        return 4
    rows = [[each.run, f"{each.files}", f"{each.events:,}", f"{each.bytes:,}", f"{each.each:.2f}"] for each in found]
    names = ["run", "files", "events", "bytes", "bytes/event"]
    if given.write:
        write(found, f"scripts/bench journal --shape {given.shape}{' --anew' if given.anew else ''} --write")
    if given.json:
        say_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        shown = table(*names, right=names[1:])
        for row in rows:
            shown.add_row(*row)
        console().print(shown)
    return 0


def weights(folder: Path, anew: bool = False) -> Iterator[Weight]:
    for path in sorted(folder.glob("*/run.json")):
        directory = path.parent
        if read_record(directory).ended_at is not None and not list(directory.glob(f"journal/*/*{STREAM_SUFFIX}")):
            yield weigh(directory, anew)


def weigh(directory: Path, anew: bool = False) -> Weight:
    record = read_record(directory)
    with tempfile.TemporaryDirectory() as aside:
        if anew:
            _seal_anew(directory, Path(aside))
        files = [(name, path) for name in TABLES for path in sealed_files(Path(aside) if anew else directory, name)]
        events = sum(pq.read_metadata(path).num_rows for name, path in files if name in EVENTS)
        size = sum(path.stat().st_size for _, path in files)
    return Weight(directory.name, record.section, record.shape, len(files), size, events)


def _seal_anew(directory: Path, aside: Path) -> None:
    for name in TABLES:
        for path in sealed_files(directory, name):
            copy = aside / "journal" / name / path.name
            copy.parent.mkdir(parents=True, exist_ok=True)
            write_sealed(pq.read_table(path), copy, TABLES[name].order)
    merge_small_files(aside)


def write(found: list[Weight], command: str) -> None:
    sections: dict[str, list[Weight]] = defaultdict(list)
    for weight in found:
        sections[weight.section].append(weight)
    rows = [
        [
            f"section {section}",
            f"{len(own)}",
            _range([each.files for each in own]),
            _range([each.events for each in own]),
            _range([each.each for each in own], ".2f"),
        ]
        for section, own in sorted(sections.items())
    ]
    keep(
        "journal",
        "The journal on disk",
        command,
        "The size of sealed journals of the catalogue's runs, with all their tables, for each event (goal: at most"
        f" {GOAL:g} bytes in the base scenarios). An event is a row of `sends`, `log` or `reads`. With `--anew` the"
        " rows of kept runs are sealed again in another place, with the code of this commit.",
        ["", "runs", "files in a run", "events in a run", "bytes for each event"],
        rows,
        in_words(found),
    )


def in_words(found: list[Weight]) -> str:
    above = [each for each in found if each.each > GOAL]
    told = f"{len(found) - len(above)} of {len(found)} runs cost at most {GOAL:g} bytes for each event."
    if above:
        listed = ", ".join(
            f"{each.run} ({each.each:.1f}: {each.events:,} events in {each.files} files)" for each in above
        )
        told += f" Runs above it: {listed}. An empty file takes about 1 KB, and the observer's tables grow with time:"
        told += " both matter only in a run with few messages."
    return told


def _range(values: list[float] | list[int], form: str = ",") -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


if __name__ == "__main__":
    raise SystemExit(main())
