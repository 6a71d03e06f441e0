"""Text that is safe to show on a terminal."""

from __future__ import annotations


def plain(text: object) -> str:
    """The text without characters that a terminal would obey."""
    return "".join(char if char.isprintable() else "�" for char in str(text).replace("\t", " "))
