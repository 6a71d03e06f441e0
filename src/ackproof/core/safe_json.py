"""Writes JSON that is safe to print, and reads JSON that a stranger may have written.

Characters that a terminal would obey, or that cannot be printed, are written as \\uXXXX. A parser reads the same
document.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ackproof.core.safe_read import read_named

Kind = TypeVar("Kind")
LARGEST_JSON = 8 * 2**20  # characters; a run.json or a verdict.json has some thousands

_BEYOND_ASCII = re.compile(r"[^ -~\n]")  # newlines are only between the parts of JSON; in strings they are escaped


def json_text(document: Any) -> bytes:
    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    return _BEYOND_ASCII.sub(_safe, text).encode()


def read_json(path: Path, kind: type[Kind]) -> Kind:
    try:
        document = msgspec.json.decode(read_named(path, largest=LARGEST_JSON), type=kind)
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None
    _check_numbers(document)
    return document


def _check_numbers(document: Any) -> None:
    """Refuse numbers beyond 64 bits. Python has them; Spark, Parquet and the clock do not."""
    left = [document]
    while left:
        value = left.pop()
        if isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                raise msgspec.DecodeError("it holds a number that is out of range (beyond 64 bits)")
        elif isinstance(value, dict):
            left += [*value, *value.values()]
        elif isinstance(value, (list, tuple)):
            left += value
        elif isinstance(value, msgspec.Struct):
            left += [getattr(value, name) for name in value.__struct_fields__]


def _safe(found: re.Match[str]) -> str:
    char = found[0]
    if char.isprintable():
        return char
    units = char.encode("utf-16-be").hex()  # a character beyond U+FFFF has two units
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))
