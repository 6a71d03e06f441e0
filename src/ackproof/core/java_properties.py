"""Reads files of settings as Java does (`java.util.Properties.load`), and therefore as Kafka's tools do.

A name ends at `=`, `:` or a blank. A backslash at the end of a line continues it on the next line. Any other backslash
makes \\t, \\n, \\r, \\f and \\uXXXX, or keeps the next character as it is. Lines that begin with `#` or `!` are
comments.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ackproof.core.safe_read import read_named

BLANKS = " \t\f"
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ENTRY = re.compile(rf"^((?:\\.|[^\\=:{BLANKS}])*)([{BLANKS}]*[=:]?)[{BLANKS}]*(.*)$")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)")


def read_properties(path: Path, largest: int = sys.maxsize) -> Iterator[tuple[int, str, str | None]]:
    """Each setting: the number of its first line, its name, its value. The value is None if not even a `=` follows."""
    for number, line in _logical_lines(read_named(path, "latin-1", largest, pipe=True)):
        ((name, separator, value),) = _ENTRY.findall(line)
        try:
            yield number, _unescaped(name), _unescaped(value) if separator else None
        except ValueError:
            raise ValueError(f"line {number}: \\u needs four hexadecimal digits") from None


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    begun, first = "", 0
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = line.lstrip(BLANKS)
        if not begun and (not line or line[0] in "#!"):
            continue
        first = first if begun else number
        begun += line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun = begun[:-1]
        else:
            yield first, begun
            begun = ""
    if begun:
        yield first, begun


def _unescaped(text: str) -> str:
    plain = _ESCAPE.sub(lambda match: _character(match[1]), text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")  # joins surrogate pairs


def _character(escaped: str) -> str:
    if escaped == "u":
        raise ValueError
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else ESCAPES.get(escaped, escaped)
