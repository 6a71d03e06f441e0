"""Seals a stream: turns it into a sorted Parquet file, whole or not at all, and deletes the stream.

Every sealer locks the stream. The client that wrote it may be killed while its sealer still works, and the run then
seals the same stream.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from ackproof.core.run_files import why_not
from ackproof.journal import checksums
from ackproof.journal.bounds import stream_bomb
from ackproof.journal.files import SEALED_SUFFIX, STREAM_SUFFIX, delete_replaced
from ackproof.journal.stream import OTHER_SCHEMA, Damage, read_stream
from ackproof.model.journal_tables import TABLES

ROW_GROUP = 1 << 18
TORN_BYTES, TORN_WHAT = (
    b"ackproof.torn_bytes",
    b"ackproof.torn",
)  # a sealed file has them if its stream was torn


def seal_all(run_directory: Path) -> list[Damage]:
    """Seal every stream that its writer did not seal because it was killed or left it to the run."""
    streams = sorted((run_directory / "journal").glob(f"*/*{STREAM_SUFFIX}"))
    damages = [damage for path in streams if (damage := _seal_inside(path, run_directory)) is not None]
    for table in TABLES:
        delete_replaced(run_directory / "journal" / table)
    return damages


def _seal_inside(path: Path, run_directory: Path) -> Damage | None:
    """Seal a stream that lies in the run directory. A stranger's run may hold links that lead elsewhere."""
    if any(place.is_symlink() for place in (path, path.parent, path.parent.parent)):
        return Damage(path, path.stat().st_size if path.exists() else 0, "it is a link, and links are not followed")
    try:
        if why := why_not(path, run_directory) or stream_bomb(path):
            return Damage(path, path.stat().st_size, why)
    except FileNotFoundError:  # another process has sealed it meanwhile
        pass
    return seal_stream(path)


def seal_stream(path: Path) -> Damage | None:
    """Seal one stream. If another process is sealing it, wait until that is done."""
    sealed = path.with_name(path.name.removesuffix(STREAM_SUFFIX) + SEALED_SUFFIX)
    try:
        with path.open("rb") as stream:
            with suppress(OSError):  # on a file system without locks, two sealers of one stream write the same file
                fcntl.flock(stream, fcntl.LOCK_EX)
            return _seal(path, sealed)
    except FileNotFoundError:
        if path.exists() or not sealed.exists():
            raise
        return None  # another process has sealed it


def _seal(path: Path, sealed: Path) -> Damage | None:
    table, damage = read_stream(path)
    if damage is not None and table.num_rows == 0 and damage.what == OTHER_SCHEMA:
        return damage
    if damage is not None:
        # The stream is deleted, so the sealed file records its damage: a second judgement then reports the same.
        torn = {TORN_BYTES: str(damage.bytes_torn), TORN_WHAT: damage.what}
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **torn})
    write_sealed(table, sealed, TABLES[path.parent.name].order)
    path.unlink(missing_ok=True)
    return damage


def write_sealed(table: pa.Table, path: Path, order: Iterable[str]) -> None:
    """Write a sorted, signed Parquet file under another name, sync it, and rename it to `path`."""
    ordered = table.sort_by([(name, "ascending") for name in order])
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with parquet_writer(temporary, table.schema) as rows:
            rows.write_table(ordered, row_group_size=ROW_GROUP)
            rows.add_key_value_metadata(table.schema.metadata or {})
        with temporary.open("r+b") as written:
            checksums.sign(written)
            os.fsync(written.fileno())
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)  # this file may be what fills the disk
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def parquet_writer(path: Path, schema: pa.Schema) -> pa.parquet.ParquetWriter:
    """Return a writer of a sealed file.

    Numbers, offsets and times rise in small steps: stored as differences, they take a tenth of the space and no more
    time. Arrow's own copy of the schema is left out: it is a third of a small file and repeats Parquet's schema.
    """
    others = ("run", "key", "digest", "took_ns")
    rising = [field.name for field in schema if field.type == pa.int64() and field.name not in others]
    return pa.parquet.ParquetWriter(
        path,
        schema,
        compression="zstd",
        store_schema=False,
        write_page_checksum=True,
        use_dictionary=[field.name for field in schema if field.name not in rising],
        column_encoding=dict.fromkeys(rising, "DELTA_BINARY_PACKED"),
    )
