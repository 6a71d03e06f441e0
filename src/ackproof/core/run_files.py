"""Which files of a run directory may be opened: regular files inside it, and not more of them than a run can write.

A run directory may come from a stranger. A reader of a FIFO would wait forever, a device would never end, and a link
would show the reader's own files. So judge and report check each file before they open it.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from ackproof.core.safe_read import NO_REGULAR_FILE

FILES_MOST = 20_000  # in a table of the journal; a thousand million messages need a few hundred


class TooManyFiles(Exception):
    """Says in one sentence which table has too many files."""


def why_not(path: Path, run_directory: Path) -> str | None:
    """Why a file of a run directory may not be opened, in words; None if it may be opened."""
    try:
        if not path.resolve().is_relative_to(run_directory.resolve()):
            return "it is a link that leads out of the run directory, and is not followed"
        return None if stat.S_ISREG(path.stat().st_mode) else NO_REGULAR_FILE
    except OSError as error:
        return error.strerror or str(error)
    except RuntimeError:  # Python up to 3.12 raises it for a loop of links
        return os.strerror(errno.ELOOP)


def require_own(path: Path, run_directory: Path) -> None:
    """Raise an OSError with a sentence if a file of a run directory may not be opened."""
    if why := why_not(path, run_directory) if os.path.lexists(path) else None:
        raise OSError(errno.EINVAL, why)


def not_to_be_opened(run_directory: Path) -> dict[Path, str]:
    """The files of the journal that may not be opened, and why. Raises TooManyFiles if a table has too many files."""
    found: dict[Path, str] = {}
    journal = run_directory / "journal"
    for folder in sorted(journal.iterdir()) if journal.is_dir() else []:
        if not folder.is_dir():
            continue
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries, start=1):
                if count > FILES_MOST:
                    raise TooManyFiles(f"its journal has more than {FILES_MOST:,} files in {folder.name}")
                path = Path(entry.path)
                if why := why_not(path, run_directory):
                    found[path] = why
    return found
