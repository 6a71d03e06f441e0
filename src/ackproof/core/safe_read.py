"""Reads files that a user or a stranger named: only regular files, and only up to a bound."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

NO_REGULAR_FILE = "it is not a regular file"
LARGEST = 2**20  # characters; enough for what a person writes: a scenario, the settings of a client


def read_named(path: Path, encoding: str = "utf-8", largest: int = LARGEST, pipe: bool = False) -> str:
    """The text of a file. Raises an OSError with a sentence if it cannot be read.

    With `pipe`, the path may also be a pipe: a shell passes secrets like that, so that they are in no file.
    """

    def opener(name: str, flags: int) -> int:
        """Open without waiting; the opening of a pipe would wait for a process that writes to it."""
        return os.open(name, flags if pipe else flags | os.O_NONBLOCK)

    with open(path, encoding=encoding, opener=opener) as file:  # Path.open has no `opener`
        kind = os.fstat(file.fileno()).st_mode
        if not (stat.S_ISREG(kind) or (pipe and stat.S_ISFIFO(kind))):
            raise OSError(errno.EINVAL, NO_REGULAR_FILE)
        text = file.read(largest)
        if file.read(1):
            raise OSError(errno.EFBIG, f"it has more than {largest:,} characters")
    return text
