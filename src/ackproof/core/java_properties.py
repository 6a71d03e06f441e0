"""Files of settings as Java reads them (`java.util.Properties.load`), and so as all of Kafka's tools do.

A name ends at `=`, `:` or a blank; a backslash at the end of a line goes on with the next one, and anywhere else takes
what follows as it is, or as \\t, \\n, \\r, \\f or \\uXXXX; a line that begins with `#` or `!` is a comment.
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
    """Each setting with the number of its first line; null where nothing stands behind its name, not even a `=`."""
    for number, line in _logical_lines(read_named(path, "latin-1", largest, pipe=True)):
        ((name, separator, value),) = _ENTRY.findall(line)
        try:
            yield number, _unescaped(name), _unescaped(value) if separator else None
        except ValueError:
            raise ValueError(f"line {number}: after \\u come four hexadecimal digits") from None


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
    told = _ESCAPE.sub(lambda match: _meant(match[1]), text)
    return told.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")  # two halves make one character


def _meant(escaped: str) -> str:
    if escaped == "u":
        raise ValueError
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else ESCAPES.get(escaped, escaped)
