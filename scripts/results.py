"""Keep the results: `docs/results.json` has a row for every run, `docs/results.md` one for every line of the catalogue.

A line is a scenario in one shape and mode. No run is ever taken out of `docs/results.json`, also not one that
contradicts its scenario: git's history says which runs stood there, and a file that lacks one of them is not written.
A run that was not confirmed is explained in `docs/explained.toml`.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from ackproof.cli.runs import SECTIONS
from ackproof.core.errors import Refused
from ackproof.report.measure_tables import Measured

HOME = Path(__file__).resolve().parents[1]
DOCS = HOME / "docs"
SHAPES = ("base", "slow", "crowd")
OLDEST = datetime.min.replace(tzinfo=UTC)
PAUSE_S = 600  # the longest pause between two runs of one sitting; a batch is judged in less
Cell = tuple[str, str, str]  # scenario, shape, mode: a line of the page
_EVERY_CHANGE = ("log", "-p", "-U0", "--format=", "--no-color", "--no-ext-diff", "--")
_RUN = re.compile(r'^.?\{"run":"([^"]+)"', re.MULTILINE)  # the first character: git's mark of a line that was added


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facts that are kept of one run."""

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
    found: dict[str, int | None] = {}  # the number of witnesses of each of these checks
    claims: int = 0  # the number of claims about brokers in the scenario
    unavailable_ms: float | None = 0.0
    run_s: float | None = None  # from the command to the verdict, or to the sealed journal where it was judged later
    heal_to_verdict_s: float | None = None
    machine: str = ""
    commit: str = ""  # the newest one when the run began
    measured: list[Measured] = []  # the tables that the report shows, too

    @property
    def cell(self) -> Cell:
        return self.scenario, self.shape, self.mode

    @property
    def began(self) -> datetime | None:
        """When the run began; None for the oldest runs, whose names have no date."""
        dated = re.match(r"\d{8}-\d{6}(?=-)", self.run)
        return datetime.strptime(dated[0] + "+0000", "%Y%m%d-%H%M%S%z") if dated else None


# -- the file --------------------------------------------------------------------------------------------------------


def read(docs: Path = DOCS) -> list[Row]:
    try:
        return msgspec.json.decode((docs / "results.json").read_bytes(), type=list[Row])
    except FileNotFoundError:
        return []
    except msgspec.DecodeError as problem:
        raise Refused(f"docs/results.json cannot be read ({problem}), so nothing is written; mend it first") from None


def explanations(docs: Path = DOCS) -> dict[str, str]:
    path = docs / "explained.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write(rows: Iterable[Row], docs: Path = DOCS) -> None:
    rows = sorted(rows, key=_place)
    refuse_if_incomplete(rows, docs)
    new = docs / "results.json.new"
    new.write_bytes(b"[\n" + b",\n".join(msgspec.json.encode(row) for row in rows) + b"\n]\n")
    new.replace(docs / "results.json")
    (docs / "results.md").write_text(page(rows, docs), encoding="utf-8")


def refuse_if_incomplete(rows: Iterable[Row], docs: Path = DOCS) -> None:
    missing = sorted(runs_ever_kept(docs) - {row.run for row in rows})
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise Refused(
            f"docs/results.json is not written, because it would lack the run {missing[0]}{others}, and no run is ever "
            f"taken out; `git log -p -S '{missing[0]}' -- docs/results.json` shows the row to put back"
        )


def runs_ever_kept(docs: Path = DOCS) -> set[str]:
    """Return the names of the runs in the file and in all of its versions in git, as far as this clone has them."""
    path = docs / "results.json"
    now = path.read_text(encoding="utf-8") if path.exists() else ""
    return {*_RUN.findall(now), *_RUN.findall(git(*_EVERY_CHANGE, path.name, where=docs))}


def commit_at(moment: datetime) -> str:
    return git("rev-list", "-1", "--abbrev-commit", "--abbrev=7", f"--before={moment.isoformat()}", "HEAD").strip()


def git(*words: str, where: Path = HOME) -> str:
    """Return git's answer; an empty text without git, or outside a clone."""
    try:
        return subprocess.run(["git", *words], cwd=where, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


# -- the page --------------------------------------------------------------------------------------------------------

HEAD = """# Results

One row for each scenario, shape and mode: how many runs there were, what became of them, and what the newest found.
`scripts/catalogue` writes this page from the verdicts of real runs. [results.json](results.json) keeps every run, with
the tables that were measured; the name of a run begins with its date and time. [catalogue.md](catalogue.md) says in
words what was seen.

Under each table stand the runs that did not confirm their scenario. *Commit* is the newest one when the run began;
the first 70 runs, of 15 November 2026, have neither date nor commit. *Lost* counts acknowledged messages that the
healed log does not hold. *Waited* is the longest time without an acknowledgement. A number of runs with a † includes
runs from before the scenario's expectation was changed.
"""
TOOK = """
`./scripts/catalogue` without options runs each line once. The longest sitting that is kept has {:,} runs
of {:,} lines and took {:.0f} minutes, from the start of its first lab to the end of its last.
"""
RESULTS = ("confirmed", "refuted", "unknown")
HEADINGS = ("scenario", "shape", "mode", "runs", *RESULTS, "newest run", "commit", "what it found")


def page(rows: list[Row], docs: Path = DOCS) -> str:
    parts = [HEAD]
    if sitting := longest_sitting(rows):
        spent = max(over for _, over in sitting.values()) - min(began for began, _ in sitting.values())
        cells = {row.cell for row in rows if row.run in sitting}
        parts.append(TOOK.format(len(sitting), len(cells), spent.total_seconds() / 60))
    for section in sorted({row.section for row in rows}):
        parts += _section(section, [row for row in rows if row.section == section], docs)
    machines = sorted({re.sub(r", kafka [0-9.]+", "", row.machine) for row in rows if row.machine})
    parts.append(f"\n{len(rows)} runs on {'; and on '.join(machines)}.\n")
    return "".join(parts)


def _section(name: str, rows: list[Row], docs: Path) -> Iterator[str]:
    counts = ", ".join(f"{sum(row.result == result for row in rows)} {result}" for result in RESULTS)
    yield f"\n## {name}. {SECTIONS[name]}\n\n{len(rows)} runs: {counts}.\n\n"
    lines: dict[Cell, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=_place):
        lines[row.cell].append(row)
    yield "".join(f"| {' | '.join(words)} |\n" for words in (HEADINGS, ["---"] * len(HEADINGS)))
    yield "".join(f"| {' | '.join(_line(runs))} |\n" for runs in lines.values())
    explained = explanations(docs)
    if notes := [_note(row, explained, docs) for row in sorted(rows, key=_place) if row.result != "confirmed"]:
        yield "\nNot confirmed:\n\n" + "".join(notes)


def _line(runs: list[Row]) -> list[str]:
    newest = max(runs, key=lambda row: row.began or OLDEST)
    date = f"{newest.began:%Y-%m-%d %H:%M}" if newest.began else "-"
    changed = any((row.expected, row.claims) != (newest.expected, newest.claims) for row in runs)
    counts = [sum(row.result == result for row in runs) for result in RESULTS]
    told = [str(counts[0]), *(f"**{count}**" if count else "0" for count in counts[1:])]
    return [*newest.cell, f"{len(runs)}{' †' * changed}", *told, date, newest.commit or "-", _found(newest, runs)]


def _found(newest: Row, runs: list[Row]) -> str:
    """Return the newest run's figures: witnesses of forbidden and required checks, failed claims, the longest wait."""
    words = [f"{name} {_count(found)}" for name, found in newest.found.items() if name not in ("claims", "lost")]
    if newest.section == "A" or "lost" in newest.found:
        words.insert(0, f"lost {_count(newest.lost)} of {_count(newest.acked)}{_shares(runs)}")
    if newest.claims:
        words.append(f"{_count(newest.found.get('claims'))} of {newest.claims} claims fail")
    if newest.unavailable_ms:
        words.append(f"waited {newest.unavailable_ms / 1000:.1f} s")
    return ", ".join(words) or "-"


def _shares(runs: list[Row]) -> str:
    """Return how much all runs of the line lost, if any run lost something."""
    shares = sorted(row.lost / row.acked for row in runs if row.lost is not None and row.acked)
    return f" ({100 * shares[0]:.2f} to {shares[-1]:.2%} in all)" if len(shares) > 1 and shares[-1] else ""


def _note(row: Row, explained: Mapping[str, str], docs: Path) -> str:
    if row.run not in explained:
        return f"- `{row.run}`: {row.result}, not explained yet\n"
    reason = explained[row.run].strip()
    begin = re.match(r".{60,}?\.(?=\s|$)", reason, re.DOTALL)  # a sentence, or two short ones
    lines = (docs / "explained.toml").read_text(encoding="utf-8").splitlines()
    place = next(number for number, line in enumerate(lines, 1) if line.strip('"').startswith(row.run))
    return f"- `{row.run}`: {row.result}. {begin[0] if begin else reason} [All of it](explained.toml#L{place})\n"


def longest_sitting(rows: Iterable[Row]) -> dict[str, tuple[datetime, datetime]]:
    """Return when each run of the longest sitting began and ended. A sitting is runs without a pause between them."""
    times = {
        row.run: (row.began, row.began + timedelta(seconds=row.run_s))
        for row in rows
        if row.began and row.run_s is not None and is_run_by_default(row.section, row.shape)
    }
    sittings: list[dict[str, tuple[datetime, datetime]]] = []
    for run, (began, over) in sorted(times.items(), key=lambda item: item[1]):
        if not sittings or began - max(end for _, end in sittings[-1].values()) > timedelta(seconds=PAUSE_S):
            sittings.append({})
        sittings[-1][run] = began, over
    return max(sittings, key=len, default={})


def is_run_by_default(section: str, shape: str) -> bool:
    return section in "ABCDE" and (section != "A" or shape == "base")


def shape_place(shape: str) -> int:
    return SHAPES.index(shape) if shape in SHAPES else len(SHAPES)


def _place(row: Row) -> tuple[str, str, int, str, str, str]:
    return row.section, row.scenario, shape_place(row.shape), row.shape, row.mode, row.run


def _count(found: int | None) -> str:
    return "?" if found is None else f"{found:,}"
