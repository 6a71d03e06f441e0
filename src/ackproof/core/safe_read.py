"""Files that somebody else wrote or named: read whole, if they are files, and no larger than such a file ever is."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

NO_REGULAR_FILE = "it is no regular file"
LARGEST = 2**20  # characters of what a person writes: a scenario, the settings of a client


def read_named(path: Path, encoding: str = "utf-8", largest: int = LARGEST, pipe: bool = False) -> str:
    """An OSError in words where it cannot be. A `pipe` is how a shell hands over what shall be in no file."""

    def opener(name: str, flags: int) -> int:
        """To open a pipe is to wait for whoever writes to it."""
        return os.open(name, flags if pipe else flags | os.O_NONBLOCK)

    with open(path, encoding=encoding, opener=opener) as file:  # a Path takes no opener
        kind = os.fstat(file.fileno()).st_mode
        if not (stat.S_ISREG(kind) or (pipe and stat.S_ISFIFO(kind))):
            raise OSError(errno.EINVAL, NO_REGULAR_FILE)
        text = file.read(largest)
        if file.read(1):
            raise OSError(errno.EFBIG, f"it has more than {largest:,} characters")
    return text
