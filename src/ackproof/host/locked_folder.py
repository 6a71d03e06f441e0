"""Temporary folders that a killed process cannot leave behind forever: the processes that use a folder lock it.

The kernel releases the lock when the last of them ends, however it ends. So a folder of ours without a lock is unused,
and the next process that needs such a folder removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DRAWN = "?" * 8  # what `mkdtemp` adds to a prefix


def make_locked(prefix: str, place: Path | None = None) -> tuple[Path, int]:
    """A new folder in `place`, by default among the temporary files, and the descriptor that holds its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        try:
            lock = os.open(folder, _FOLDER)
        except FileNotFoundError:  # another process removed it before it was locked
            continue
        with suppress(OSError):  # a file system without locks: nothing is ever removed there
            fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder, lock
        os.close(lock)


@contextmanager
def locked_folder(prefix: str, place: Path | None = None) -> Iterator[Path]:
    folder, lock = make_locked(prefix, place)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def take_away_unlocked(prefix: str, place: Path | None = None) -> None:
    """Remove the folders of ours that killed processes left here."""
    for folder in (place or Path(tempfile.gettempdir())).glob(f"{prefix}{_DRAWN}"):
        with suppress(OSError):  # a link, another user's folder, or one in use
            lock = os.open(folder, _FOLDER)
            try:
                if os.fstat(lock).st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
