"""A scenario's TOML file as text and as data: found by its name or path, parsed, and its lines found again."""

from __future__ import annotations

import bisect
import re
import tomllib
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from ackproof.core.errors import UsageProblem, did_you_mean
from ackproof.core.safe_read import read_named

Table = dict[str, Any]  # a table of TOML: `shape.py` finds out whether its values fit

_DEEPEST = 50  # tables and lists in one another; a scenario has six


class Source(msgspec.Struct, frozen=True):
    """A scenario's file before shapes and settings are applied."""

    path: str
    text: str
    data: Table
    bundled: bool = False  # it came with this program, so it is not from a stranger

    @property
    def shapes(self) -> list[str]:
        shapes = self.data.get("shapes", {})
        return ["base", *(shapes if isinstance(shapes, dict) else ())]


def bundled() -> list[str]:
    """Return the names of the scenarios that come with this program."""
    folder = resources.files("ackproof.scenario") / "library"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def find(name: str) -> Source:
    """Read a bundled scenario by its name, or any other by the path of its file."""
    if name.endswith(".toml") or "/" in name:
        path = Path(name)
        try:
            return read_source(str(path), read_named(path))
        except OSError as problem:
            raise UsageProblem(f"{name} cannot be read: {problem.strerror}") from problem
        except UnicodeDecodeError:
            raise UsageProblem(f"{name} is no text in UTF-8") from None
    if name not in bundled():
        beside = [path.name for path in Path().glob("*.toml")]
        hint = did_you_mean(name, [f"{name}.toml"] if f"{name}.toml" in beside else bundled())
        raise UsageProblem(f"no scenario {name!r}{hint}: `ackproof list` shows them; a file's name ends in .toml")
    text = (resources.files("ackproof.scenario") / "library" / f"{name}.toml").read_text(encoding="utf-8")
    return read_source(f"{name}.toml", text, bundled=True)


def read_source(path: str, text: str, bundled: bool = False) -> Source:
    try:
        if (data := parsed(text)) is not None:
            return Source(path, text, data, bundled)
    except tomllib.TOMLDecodeError as problem:
        what, line = str(problem), re.search(r" \(at line (\d+), column \d+\)", str(problem))
        if line is None:  # something is missing at the end
            last = text.rstrip().count("\n") + 1
            raise UsageProblem(f"{path}:{last}: not TOML: {what}") from None
        raise UsageProblem(f"{path}:{line[1]}: not TOML: {what.replace(line[0], '')}") from None
    raise UsageProblem(f"{path}:{_first_deep_line(text)}: nested too deeply")


def parsed(text: str) -> Table | None:
    """Parse TOML; None if it is nested so deeply that a recursive function could fail on it."""
    try:
        data = tomllib.loads(text)
    except RecursionError:
        return None
    level: list[Any] = [data]
    for _ in range(_DEEPEST):
        inside = (each.values() if isinstance(each, dict) else each for each in level)
        level = [value for value in chain.from_iterable(inside) if isinstance(value, dict | list)]
    return None if level else data


def _first_deep_line(text: str) -> int:
    lines = text.splitlines(keepends=True)

    def deep(last: int) -> bool:
        try:
            return parsed("".join(lines[: last + 1])) is None
        except tomllib.TOMLDecodeError:
            return False

    return bisect.bisect_left(range(len(lines)), True, key=deep) + 1


def line_numbers(text: str) -> dict[str, int]:
    """Return the line of each key and table by its path, `faults.0.targets`. It knows as much TOML as scenarios use."""
    lines: dict[str, int] = {}
    prefix = ""
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if match := re.match(r"\s*\[\[\s*([^\]]+?)\s*\]\]", line):
            count = counts.get(match[1], 0)
            counts[match[1]] = count + 1
            prefix = f"{match[1]}.{count}"
            lines[prefix] = number
        elif match := re.match(r"\s*\[\s*([^\]]+?)\s*\]", line):
            prefix = match[1]
            lines[prefix] = number
        elif match := re.match(r"\s*([A-Za-z0-9_\"'.-]+)\s*=", line):
            key = match[1].replace('"', "").replace("'", "")
            lines[f"{prefix}.{key}" if prefix else key] = number
    return lines


def located(source: Source, where: str, what: str) -> str:
    """Put the file and the line before a problem. A field that a shape gave has the line of its nearest table."""
    path, lines, place = source.path, line_numbers(source.text), where
    while place and place not in lines:
        place = place.rpartition(".")[0]
    number = lines.get(place) or lines.get(f"{where}.0")  # the first of its [[tables]]
    return f"{path}:{number}: {what}" if number else f"{path}: {what}"
