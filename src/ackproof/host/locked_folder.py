"""Temporary folders that a kill cannot leave behind for ever: each is locked by the processes that use it.

The kernel gives a lock back when the last of them ends, however it ends. So a folder of ours without a lock belongs to
nobody, and the next process that needs such a folder takes it away.
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
    """A new folder, and the descriptor that holds its lock. Where `place` is not given, it is a temporary one."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        try:
            lock = os.open(folder, _FOLDER)
        except FileNotFoundError:  # another process took it away before it was locked
            continue
        with suppress(OSError):  # not every file system has locks; on one that has none nothing is taken away
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
    """Take away what processes that were killed left here, as far as it is ours."""
    for folder in (place or Path(tempfile.gettempdir())).glob(f"{prefix}{_DRAWN}"):
        with suppress(OSError):  # a link, somebody else's, or of a process that lives
            lock = os.open(folder, _FOLDER)
            try:
                if os.fstat(lock).st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
