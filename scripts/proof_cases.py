"""Read the recorded cases of the proofs, and make a promise's result from them."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from trust import HOME, SHARE, Result

RECORD = HOME / ".proofs" / "cases.jsonl"
SHARE_MAX_S = 12 * 60  # of all promises at quick size


class Sitting(msgspec.Struct, frozen=True):
    """One call of scripts/prove."""

    size: str
    at_once: int
    commit: str


class Case(msgspec.Struct, frozen=True):
    """One case that ended. `void`: the code was changed while the case ran."""

    case: str
    outcome: str  # passed, failed, skipped or void
    size: str
    commit: str
    figures: list[str] = []
    problem: str = ""
    seconds: float = 0.0
    date: str = ""
    machine: str = ""


def last_outcomes(size: str, accepted: set[str], offset: int = 0) -> dict[str, Case]:
    """Return the newest outcome of each case: a case that passed may still fail when its fixtures end."""
    ended = (msgspec.convert(line, Case) for line in read_lines(RECORD, offset))
    return {case.case: case for case in ended if case.size == size and case.commit in accepted}


def void(cases: list[str], sitting: Sitting) -> None:
    lines = (Case(case, "void", sitting.size, sitting.commit) for case in cases)
    with RECORD.open("ab") as record:
        record.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def read_lines(path: Path, offset: int = 0) -> list[Any]:
    """Return the documents of a file of JSON lines, without lines that a kill left torn."""
    found = []
    for line in path.read_bytes()[offset:].splitlines() if path.exists() else ():
        try:
            found.append(msgspec.json.decode(line))
        except msgspec.DecodeError:
            continue
    return found


def result_of(name: str, cases: list[str], known: dict[str, Case], sitting: Sitting) -> Result:
    """Return the result of a promise: it passed if at least one case passed, none failed, and every case ended."""
    wanted = set(cases)
    ended = sorted((case for name, case in known.items() if name in wanted), key=lambda case: case.date)
    silent = [case for case in cases if case not in known]
    by = {outcome: [case for case in ended if case.outcome == outcome] for outcome in ("passed", "failed", "skipped")}
    commits = [case.commit for case in ended] or [sitting.commit]
    failed_before = recorded_failures(sitting.size, set(commits)) & {case.case for case in by["passed"]}
    return Result(
        id=name,
        size=sitting.size,
        passed=bool(by["passed"]) and not by["failed"] and not silent,
        figures=figures_of(by["passed"], by["failed"], silent, len(failed_before)),
        holes=sorted({case.problem.removeprefix("Skipped: ") for case in by["skipped"]}),
        date=ended[-1].date if ended else datetime.now(UTC).strftime("%FT%T"),
        commit=" to ".join(dict.fromkeys((commits[0], commits[-1]))),
        command=f"scripts/prove --only {name}" + " --quick" * (sitting.size == "quick"),
        seconds=round(sum(case.seconds for case in ended), 1),
        machine="; ".join(sorted({case.machine for case in ended if case.machine})),
    )


def recorded_failures(size: str, commits: set[str]) -> set[str]:
    ended = (msgspec.convert(line, Case) for line in read_lines(RECORD))
    return {case.case for case in ended if (case.outcome, case.size) == ("failed", size) and case.commit in commits}


def figures_of(passed: list[Case], failed: list[Case], silent: list[str], failed_before: int) -> list[str]:
    """Return first what failed, then the figures of the tests, then how many cases passed without a figure."""
    first = [f"{counted(len(failed))} failed, first {failed[0].case}: {shortened(failed[0].problem)}"] if failed else []
    first += [f"{case} did not end" for case in silent]
    last = [f"{counted(failed_before)} had failed before with the same commit"] if failed_before else []
    measured = list(dict.fromkeys(figure for case in (*failed, *passed) for figure in case.figures))
    plain = [case.case for case in passed if not case.figures]
    if plain and measured:
        measured.append(f"{len(plain)} more {'case' if len(plain) == 1 else 'cases'} passed")
    elif plain:  # the name of a test says what it shows
        names = Counter(case.partition("[")[0].rpartition("::test_")[2].replace("_", " ") for case in plain)
        measured = [f"{name}: {counted(count)}" for name, count in names.items()]
    return [*first, *measured, *last]


def counted(cases: int) -> str:
    return f"{cases} {'case' if cases == 1 else 'cases'}"


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:200]}…"


def share(cases: list[Case], seconds: float) -> Result:
    """Return how long all promises took at quick size, which is CI's."""
    figure = f"{len(cases):,} cases took {seconds / 60:.1f} minutes of the {SHARE_MAX_S // 60} that they may take"
    at, in_time, command = max(cases, key=lambda case: case.date), seconds <= SHARE_MAX_S, "scripts/prove --quick"
    return Result(SHARE, "quick", in_time, [figure], [], at.date, at.commit, command, round(seconds, 1), at.machine)
