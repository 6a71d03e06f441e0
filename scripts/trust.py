"""Keep what the proofs measured in docs/trust.json, and write docs/trust.md from it.

Results are only added. If a result is missing that the file held in any commit, nothing is written.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import msgspec

HOME = Path(__file__).resolve().parents[1]
PAGE, KEPT, PROMISES = (HOME / "docs" / name for name in ("trust.md", "trust.json", "proofs.toml"))
CHANGED = " with changes"  # follows the commit if the tree has uncommitted changes
SHARE = "all"  # the id of the result that says how long all promises took at quick size
FIGURES_MAX = 300  # characters of figures in a row of the page

HEAD = """# What the laboratory promises, and what proves it

A tool that accuses Kafka of losing data must be beyond doubt itself. This page lists what it promises and what was
measured. `scripts/prove` runs the proofs and writes this page, so do not edit it. [proofs.toml](proofs.toml) has the
bar of each promise. [trust.json](trust.json) has every figure that was kept.

**What we promise.** The judge reports exactly what the journal holds. A fault that is reported as proved had its effect
and was healed when the run says so; while it stood, the laboratory looked at it about once a second, and never left it
alone for more than five seconds. A run that is no evidence is *unknown*, never a pass. The laboratory leaves the
machine as it found it, however it ends. What was flushed to the journal before a crash is there after it. Text that
others write into topics, keys, names and logs stays text in our output.

**What we do not promise.**

- The laboratory sees what clients were told, what brokers said about themselves, and the log after healing. It does not
  see a broker's memory or disk. It reports *that* a message is gone and which message has its offset now. It names an
  epoch only where the rule of [judge.md](judge.md) allows it.
- One machine is not a data centre. All nodes share a clock, a kernel and a disk. Power never fails, and a killed broker
  keeps what the kernel had already taken from it.
- A fault is proved about once a second, and once more just before it is healed. A cut is proved by datagrams (a fault
  of connections by connections) and by the generation of the packet rules, which any change of a rule raises. So a cut
  did not hold if somebody else changed a rule, even for a moment. Other things that come and go between two looks are
  not seen: a route, a queue, a pause that ended and began again, a program on the port of a dead node.
- The port of a killed or stopped node is asked every second, and an answer breaks the fault. How often it was asked is
  not judged.
- Another `ackproof` command on the lab of a run makes that run unfit. Only `exec` does not: the program that it starts
  may change what no look sees.
- No loss in twenty runs does not mean that no loss can happen. It says what these twenty runs showed.
- The journal has checksums against accidents. They do not stop root, or the owner of the laboratory, from changing it.

**How to read the tables.** A figure belongs to the date and the commit beside it; the code may have changed since.
*Full* is the size of the bar; *quick* is the size of CI, and weaker. A **hole** is a case that could not be run on that
machine. *Not tested* is what the bar asks for and no test covers. Real clusters use ZooKeeper unless a figure names
KRaft or both. "Ourselves" is the user who ran the proof, usually root.
"""


class Promise(msgspec.Struct, frozen=True):
    title: str
    promise: str
    bar: str
    lacks: str = ""  # what of the bar no test covers yet
    quick: bool = True


class Result(msgspec.Struct, frozen=True):
    """The result of proving one promise."""

    id: str
    size: str
    passed: bool
    figures: list[str]
    holes: list[str]  # why some cases could not be run on that machine
    date: str
    commit: str
    command: str
    seconds: float
    machine: str = ""


class Kept(msgspec.Struct, frozen=True):
    results: list[Result]


@cache
def read_promises() -> dict[str, Promise]:
    document = tomllib.loads(PROMISES.read_text(encoding="utf-8"))
    return {name: msgspec.convert(table, Promise) for name, table in document.items() if name != "groups"}


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=HOME, check=True, capture_output=True, text=True).stdout.strip()


# -- the kept results ------------------------------------------------------------------------------------------------


def read_results(home: Path) -> list[Result]:
    path = home / "docs" / "trust.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Kept).results
    except (OSError, msgspec.DecodeError) as problem:
        sys.exit(f"{path} cannot be read ({problem}). Put back the version of the last commit")


def keep(new: list[Result]) -> None:
    """Add these results to the kept ones, except those of a tree with uncommitted changes, and write the page."""
    with PROMISES.open() as lock:  # two programs at once would each lose the other's results
        fcntl.flock(lock, fcntl.LOCK_EX)
        results = read_results(HOME)
        if lost := [result for result in ever_kept() if result not in results]:
            names = ", ".join(f"{each.id} ({each.size}, {each.date}, commit {each.commit})" for each in lost)
            sys.exit(f"docs/trust.json lacks results that an earlier commit has: {names}. Put them back first")
        results += [each for each in new if each not in results and not each.commit.endswith(CHANGED)]
        lines = ",\n".join(msgspec.json.encode(result).decode() for result in results)
        write(KEPT, f'{{"results": [\n{lines}\n]}}\n')
        groups = tomllib.loads(PROMISES.read_text(encoding="utf-8"))["groups"]
        write(PAGE, page(groups, read_promises(), results))


@cache
def ever_kept() -> list[Result]:
    """Return every result that docs/trust.json had in a commit. Its first versions had another format, and none."""
    file = str(KEPT.relative_to(HOME))
    commits = git("log", "--format=%h", "--diff-filter=AM", "--", file).split()
    found: dict[str, Result] = {}
    for commit in commits:
        text = git("show", f"{commit}:{file}")
        if text.startswith('{"results":'):
            found |= {repr(result): result for result in msgspec.json.decode(text, type=Kept).results}
    return list(found.values())


def write(path: Path, content: str) -> None:
    """Replace the file as a whole, so that a kill leaves the old one or the new one."""
    aside = path.with_name(f".{path.name}")
    aside.write_text(content, encoding="utf-8")
    aside.replace(path)


# -- the page --------------------------------------------------------------------------------------------------------


def page(groups: dict[str, str], promises: dict[str, Promise], results: list[Result]) -> str:
    """Return the page: a table for each group, with the newest figures of each of its promises."""
    newest = {(each.id, each.size): each for each in sorted(results, key=lambda each: each.date)}
    shown = {name: results_shown(name, newest) for name in promises}
    parts = [HEAD, summary(shown, newest.get((SHARE, "quick")))]
    for letter, title in groups.items():
        own = {name: promise for name, promise in promises.items() if name[0] == letter}
        parts += [f"\n## {letter}. {title}\n", "| Promise | Figure | Date | Commit | Command |"]
        parts.append("| --- | --- | --- | --- | --- |")
        for name, promise in own.items():
            parts += [row(name, promise, each) for each in shown[name]] or [row(name, promise, None)]
        lacks = [f"- **{name}**: {promise.lacks}" for name, promise in own.items() if promise.lacks]
        parts += ["\nNot tested:\n", *lacks] if lacks else []
    machines = dict.fromkeys(each.machine for own in shown.values() for each in own if each.machine)
    return "\n".join([*parts, f"\nMeasured on: {'; '.join(machines) or 'nothing yet'}."]) + "\n"


def results_shown(name: str, newest: dict[tuple[str, str], Result]) -> list[Result]:
    """Return the newest full result, and the newest quick one if there is no full one or if the quick one failed."""
    full, quick = newest.get((name, "full")), newest.get((name, "quick"))
    if full and quick and not quick.passed:
        return [full, quick]
    return [result for result in (full or quick,) if result]


def summary(shown: dict[str, list[Result]], share: Result | None) -> str:
    states = {name: state(results) for name, results in shown.items()}
    order = ("**FAILED**", "**not proved yet**", "passed with a hole", "passed at quick size", "passed at full size")
    lines = []
    for each in order:
        names = [name for name in states if states[name] == each]
        named = "" if each == order[-1] else f" ({', '.join(names)})"
        lines += [f"- {each}: {len(names)}{named}"] if names else []
    if share:
        slow = "" if share.passed else ", **too long**"
        lines.append(f"- at quick size {share.figures[0]}{slow} ({share.date[:10]}, commit {share.commit})")
    return f"**In short**, of {len(shown)} promises:\n\n" + "\n".join(lines)


def state(results: list[Result]) -> str:
    if not results:
        return "**not proved yet**"
    if any(not result.passed for result in results):
        return "**FAILED**"
    return "passed with a hole" if results[0].holes else f"passed at {results[0].size} size"


def row(name: str, promise: Promise, result: Result | None) -> str:
    said = cell(f"**{name} {promise.title}.** {promise.promise}")
    if result is None:
        return f"| {said} | **not proved yet** | | | |"
    holes = [f"**hole**: {hole}" for hole in result.holes]
    figures = cell("; ".join([*holes, *shortened(result.figures)]))
    size = f"{result.size.capitalize()}: " if result.passed else f"**FAILED** at {result.size} size: "
    return f"| {said} | {size}{figures} | {result.date[:10]} | {result.commit} | `{result.command}` |"


def shortened(figures: list[str]) -> list[str]:
    """Return the first figures, at least one and as many as fit into a row, and how many more are kept."""
    taken = 1
    while taken < len(figures) and len("; ".join(figures[: taken + 1])) <= FIGURES_MAX:
        taken += 1
    rest = len(figures) - taken
    return [*figures[:taken], *([f"{rest} more {'figure' if rest == 1 else 'figures'}"] if rest > 0 else [])]


def cell(text: str) -> str:
    """Return the text on one line, without anything that ends a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
