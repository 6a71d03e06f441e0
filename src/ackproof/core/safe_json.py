"""JSON that is safe to look at: what cannot be printed, or would be obeyed by a terminal, stands there as \\uXXXX.

It is the same document to whoever parses it. What is read may have been written by anybody.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ackproof.core.safe_read import read_named

Kind = TypeVar("Kind")
LARGEST_JSON = 8 * 2**20  # characters: a run.json or a verdict.json has some thousands

_BEYOND_ASCII = re.compile(r"[^ -~\n]")  # between its parts JSON has newlines; in a string they are \n already


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
    """Refuse numbers beyond 64 bits, wherever they are. Python has them; Spark, Parquet and the clock have not."""
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
    units = char.encode("utf-16-be").hex()  # two of them beyond U+FFFF
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))
