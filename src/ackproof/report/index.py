"""An index over several runs: a matrix of scenario by mode and shape, and what a crash costs beside what a split costs.

A cell holds every run of its kind, so that results that differ between repetitions stand side by side. Links are
relative and encoded, so that a folder of runs can be moved or sent as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ackproof.core.errors import UsageProblem
from ackproof.report.page import REPORT
from ackproof.report.phrases import RESULTS
from ackproof.report.public import PUBLIC
from ackproof.report.render import render, share, write_whole
from ackproof.report.run_reader import Run, open_run

_SHAPES = ("base", "slow", "crowd")
_SPLITS = ("isolated", "without-zookeeper")
Loss = tuple[int, int]


@dataclass(frozen=True)
class Mark:
    """One run in its cell."""

    name: str
    result: str
    sign: str
    word: str
    text: str
    link: str | None


@dataclass(frozen=True)
class ResultCount:
    name: str
    sign: str
    word: str
    count: int


@dataclass(frozen=True)
class MatrixRow:
    """A scenario, and its runs in each mode and shape."""

    scenario: str
    cells: list[list[Mark]]


@dataclass(frozen=True)
class LossRow:
    """What one fault cost, run by run."""

    name: str
    lost: str
    share: str


@dataclass(frozen=True)
class Comparison:
    acks: str
    mode: str
    shape: str
    sentence: str
    rows: list[LossRow]


def write_index(run_directories: Iterable[Path], out: Path) -> Path:
    """Write the index page over these runs. It names directories that are not run directories."""
    runs: list[Run] = []
    unreadable: list[str] = []
    for directory in run_directories:
        try:
            runs.append(open_run(directory))
        except UsageProblem as problem:
            unreadable.append(problem.message)
    runs.sort(key=lambda run: run.record.name)
    columns = _columns(runs)
    page = render(
        "index.html.j2",
        total=len(runs),
        counts=_counts(runs),
        columns=columns,
        rows=_rows(runs, columns, out.parent),
        comparisons=compare(runs),
        public=[row for row in PUBLIC if any(run.record.scenario == row.scenario for run in runs)],
        unreadable=unreadable,
    )
    return write_whole(out, page.encode("utf-8", "replace"))


def _counts(runs: Sequence[Run]) -> list[ResultCount]:
    results = [_result(run) for run in runs]
    return [
        ResultCount(name.replace(" ", "-"), sign, word.lower(), results.count(name))
        for name, (sign, word) in RESULTS.items()
        if name in results
    ]


def _result(run: Run) -> str:
    return run.verdict.result if run.verdict else "not judged"


def _columns(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Return the columns, mode and shape, sorted so that the shapes of a mode stand side by side."""
    found = {(run.record.mode, run.record.shape) for run in runs}
    known = {shape: place for place, shape in enumerate(_SHAPES)}
    return sorted(found, key=lambda one: (one[0] != "zookeeper", one[0], known.get(one[1], len(known)), one[1]))


def _rows(runs: Sequence[Run], columns: Sequence[tuple[str, str]], folder: Path) -> list[MatrixRow]:
    ordered = sorted(runs, key=lambda run: (run.record.section, run.record.scenario))
    return [
        MatrixRow(
            scenario, [[_mark(run, folder) for run in runs if _kind(run) == (scenario, *kind)] for kind in columns]
        )
        for scenario in dict.fromkeys(run.record.scenario for run in ordered)
    ]


def _kind(run: Run) -> tuple[str, str, str]:
    return run.record.scenario, run.record.mode, run.record.shape


def _mark(run: Run, folder: Path) -> Mark:
    result = _result(run)
    sign, word = RESULTS[result]
    if run.verdict is None:
        text = "not judged yet"
    elif run.verdict.lost is None:
        text = f"{run.verdict.acked:,} acked, the final log not read"
    else:
        text = f"{run.verdict.lost:,} lost of {run.verdict.acked:,} acked"
    page = run.directory / REPORT
    return Mark(
        run.record.name,
        result.replace(" ", "-"),
        sign,
        word,
        text,
        relative_link(page, folder) if page.is_file() else None,
    )


def relative_link(page: Path, folder: Path) -> str:
    """Return a path that a browser always reads as a relative path, whatever the names in it."""
    relative = os.path.relpath(page.resolve(), folder.resolve())
    return "./" + quote(relative.encode("utf-8", "surrogateescape"), safe="/")


def compare(runs: Sequence[Run]) -> list[Comparison]:
    """Compare a crash with a split, for each acks, mode and shape that has both."""
    made = []
    keys = dict.fromkeys(
        (run.record.scenario.partition("-leader-")[0], run.record.mode, run.record.shape) for run in runs
    )
    for acks, mode, shape in keys:
        of = [run for run in runs if (run.record.mode, run.record.shape) == (mode, shape)]
        crash = _losses(of, f"{acks}-leader-killed")
        splits = {kind: found for kind in _SPLITS if (found := _losses(of, f"{acks}-leader-{kind}"))}
        if crash and splits:
            made.append(Comparison(acks, mode, shape, *_compared(crash, splits)))
    return made


def _losses(runs: Sequence[Run], scenario: str) -> list[Loss]:
    """Return lost and acknowledged of each run of a scenario. Unknown runs prove nothing, so they are left out."""
    verdicts = [run.verdict for run in runs if run.verdict is not None and run.record.scenario == scenario]
    return [(each.lost, each.acked) for each in verdicts if each.result != "unknown" and each.lost is not None]


def _compared(crash: list[Loss], splits: dict[str, list[Loss]]) -> tuple[str, list[LossRow]]:
    rows = [("leader killed", crash)] + [(f"leader {kind.replace('-', ' ')}", found) for kind, found in splits.items()]
    worst_crash = max(lost for lost, _ in crash)
    worst_split = max(lost for found in splits.values() for lost, _ in found)
    if worst_crash == worst_split == 0:
        said = "Neither a crash nor a split lost an acknowledged message."
    elif worst_split > worst_crash:
        said = f"The split is worse: it lost up to {worst_split:,} acknowledged messages, the crash {worst_crash:,}."
    elif worst_split < worst_crash:
        said = f"The crash is worse: it lost up to {worst_crash:,} acknowledged messages, the split {worst_split:,}."
    else:
        said = f"A crash and a split cost the same: up to {worst_crash:,} acknowledged messages."
    return said, [
        LossRow(
            name,
            ", ".join(f"{lost:,}" for lost, _ in found),
            ", ".join(share(lost, acked) for lost, acked in found),
        )
        for name, found in rows
    ]
