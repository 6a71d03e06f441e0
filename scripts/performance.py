"""Write `docs/performance.md`: what each bench measured, on which machine, with which commit.

The newest figures of each bench are kept in `docs/performance.json`, and the page is written from all of them.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

HOME = Path(__file__).resolve().parents[1]
PAGE, DATA = HOME / "docs" / "performance.md", HOME / "docs" / "performance.json"
HEAD = """# Performance

`scripts/bench … --write` measures these figures and writes this page. Below each table you find its date, its commit
and the versions. A ratio compares two things that one bench measured one after the other on the same machine. No test
asserts anything about time.
"""


class Bench(msgspec.Struct, frozen=True):
    """The newest figures of one bench."""

    title: str
    command: str
    text: str  # what is measured, and against what goal
    columns: list[str]
    rows: list[list[str]]
    words: str  # what the figures say
    date: str
    commit: str
    machine: str


def kept() -> dict[str, Bench]:
    return msgspec.json.decode(DATA.read_bytes(), type=dict[str, Bench]) if DATA.exists() else {}


def keep(name: str, title: str, command: str, text: str, columns: list[str], rows: list[list[str]], words: str) -> None:
    """Replace a bench's figures, and write the page."""
    date = datetime.now(UTC).date().isoformat()
    bench = Bench(title, command, text, columns, rows, words, date, commit(), machine())
    every = dict(sorted({**kept(), name: bench}.items()))
    DATA.write_bytes(msgspec.json.format(msgspec.json.encode(every)) + b"\n")
    PAGE.write_text(HEAD + "".join(section(bench) for bench in every.values()))


def section(bench: Bench) -> str:
    lines = [bench.columns, ["---", *["---:"] * (len(bench.columns) - 1)], *bench.rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    seen = f"`{bench.command}`, {bench.date}, commit {bench.commit}, {bench.machine}."
    return f"\n## {bench.title}\n\n{bench.text}\n\n{table}\n\n{bench.words}\n\n{seen}\n"


def commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=HOME, check=True, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "scripts")
    return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    names = ("pyspark", "pyarrow", "numpy", "confluent-kafka", "duckdb")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    cores = f"{os.cpu_count()} cores ({processor()}) and {memory:.0f} GiB"
    return f"Linux {platform.release()}, {cores}, Java {java()}, Python {platform.python_version()}, {versions}"


def processor() -> str:
    """Return the processor's model, if the machine says it."""
    found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return " ".join(found[1].split()) if found else platform.machine()


def java() -> str:
    """Return the version of the Java that the judge uses."""
    home = os.environ.get("JAVA_HOME")
    command = [str(Path(home) / "bin" / "java") if home else "java", "-version"]
    said = subprocess.run(command, check=False, capture_output=True, text=True).stderr
    found = re.search(r'version "([^"]+)"', said)
    return found[1] if found else "unknown"
