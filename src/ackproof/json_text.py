"""JSON that is safe to look at: what cannot be printed, or would be obeyed by a terminal, stands there as \\uXXXX.

It is the same document to whoever parses it.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

_BEYOND_ASCII = re.compile(r"[^ -~\n]")  # between its parts JSON has newlines; in a string they are \n already


def json_text(document: Any) -> bytes:
    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    return _BEYOND_ASCII.sub(_safe, text).encode()


def _safe(found: re.Match[str]) -> str:
    char = found[0]
    if char.isprintable():
        return char
    units = char.encode("utf-16-be").hex()  # two of them beyond U+FFFF
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))
