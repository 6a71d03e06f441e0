"""Merges small sealed files of a finished run: neighbours with few rows become one file `<a>+<b>`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from ackproof.journal.checksums import differs_from_checksum
from ackproof.journal.files import FROM_TO, SEALED_SUFFIX, STREAM_SUFFIX, delete_replaced, first_and_last, sealed_files
from ackproof.journal.seal import ROW_GROUP, TORN_BYTES, write_sealed
from ackproof.model.journal_tables import TABLES

FEW_ROWS = ROW_GROUP  # a file with fewer rows is merged with its neighbours
MERGED_ROWS_MOST = 4 * ROW_GROUP


def merge_small_files(run_directory: Path) -> None:
    """Merge neighbours that have few rows each.

    Torn and unreadable files stay as they are. So does everything if the disk has no room. A table with an unsealed
    stream is left alone, because the stream's sealed file could belong between the merged ones.
    """
    for table in TABLES:
        if any((run_directory / "journal" / table).glob(f"*{STREAM_SUFFIX}")):
            continue
        for neighbours in _neighbours(sealed_files(run_directory, table)):
            _merge(neighbours, TABLES[table].order)
        delete_replaced(run_directory / "journal" / table)


def _neighbours(paths: Iterable[Path]) -> Iterator[list[Path]]:
    """Groups of adjacent files that make one file together."""
    found: list[Path] = []
    rows = 0
    for path in paths:
        own = _few_rows(path)
        if found and (own is None or rows + own > MERGED_ROWS_MOST):
            yield found
            found, rows = [], 0
        if own is not None:
            found.append(path)
            rows += own
    yield found


def _few_rows(path: Path) -> int | None:
    """How many rows a file has; None if it should stay as it is."""
    try:
        footer = pa.parquet.read_metadata(path)
        if path.is_symlink() or differs_from_checksum(path) or TORN_BYTES in (footer.metadata or {}):
            return None
    except (OSError, pa.ArrowException, ValueError):
        return None
    return footer.num_rows if footer.num_rows < FEW_ROWS else None


def _merge(paths: list[Path], order: Iterable[str]) -> None:
    if len(paths) > 1:
        first, last = first_and_last(paths[0])[0], first_and_last(paths[-1])[1]
        with suppress(OSError, pa.ArrowException):  # the judge reads these files too, and reports the damage
            table = pa.concat_tables([_read(path) for path in paths])
            write_sealed(table, paths[0].with_name(f"{first}{FROM_TO}{last}{SEALED_SUFFIX}"), order)


def _read(path: Path) -> pa.Table:
    with pa.parquet.ParquetFile(path, page_checksum_verification=True) as file:
        return file.read()
