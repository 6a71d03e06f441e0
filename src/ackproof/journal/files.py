"""The names of a journal's files, their order, and which of them a merged file replaces.

A merged file `<a>+<b>` replaces every file from <a> to <b> from the moment at which it exists, so no kill leaves a row
twice. The files that it replaces may still exist: readers skip them.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from ackproof.core.run_files import why_not
from ackproof.model.journal_tables import TABLES

STREAM_SUFFIX = ".arrows"
SEALED_SUFFIX = ".parquet"
FROM_TO = "+"


def sealed_files(run_directory: Path, table: str) -> list[Path]:
    """The sealed files of a table, by writer and then by stream, without replaced files and files that may not be
    opened (`run_files`)."""
    found = [path for path, replaced in _in_order(run_directory / "journal" / table) if not replaced]
    return [path for path in found if why_not(path, run_directory) is None]


def rows_sealed(run_directory: Path) -> dict[str, int]:
    """How many rows each table has. A file that cannot be read counts as empty."""
    rows = dict.fromkeys(TABLES, 0)
    for table in TABLES:
        for path in sealed_files(run_directory, table):
            with suppress(OSError, pa.ArrowException):
                rows[table] += pa.parquet.read_metadata(path).num_rows
    return {table: count for table, count in rows.items() if count}


def delete_replaced(folder: Path) -> None:
    """Delete the files that a merged file replaces."""
    if not any(place.is_symlink() for place in (folder, folder.parent)):
        for path, replaced in _in_order(folder):
            if replaced:
                path.unlink(missing_ok=True)


def first_and_last(path: Path) -> tuple[str, str]:
    """The names <a> and <b> of a merged file; twice the same name for any other file."""
    name = path.name.removesuffix(SEALED_SUFFIX)
    return name.partition(FROM_TO)[0], name.rpartition(FROM_TO)[2]


def _in_order(folder: Path) -> list[tuple[Path, bool]]:
    """Each sealed file, and whether a merged file replaces it."""
    found = [(tuple(map(_by_number, first_and_last(path))), path) for path in folder.glob(f"*{SEALED_SUFFIX}")]
    spans = [span for span, path in found if FROM_TO in path.stem]
    return [
        (path, any(span != wider and wider[0] <= span[0] and span[1] <= wider[1] for wider in spans))
        for span, path in sorted(found)
    ]


def _by_number(name: str) -> list[str | int]:
    """A sort key that puts `w.2` before `w.10`."""
    return [int(word) if place % 2 else word for place, word in enumerate(re.split(r"([0-9]+)", name))]
