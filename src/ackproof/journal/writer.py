"""The journal: everything that happened in a run, in tables; the only contract between the half that runs and the half
that judges.

    runs/<name>/run.json                         what was run: the scenario as resolved, names of ids, versions, clocks
    runs/<name>/journal/<table>/<writer>.arrows   while it grows: an Arrow stream, readable at any moment
    runs/<name>/journal/<table>/<writer>.parquet  sealed: sorted, written aside, synced, renamed into place whole
    runs/<name>/journal/<table>/<a>+<b>.parquet   what the sealed files from <a> to <b> had, if each had little

A stream of 128 MiB is ended and sealed while its writer goes on with the next (`<writer>.2`, `<writer>.3`), so that a
long run takes up neither the disk with streams nor the memory of whoever seals them, be its batches large or tiny.
Whoever seals a stream holds a lock on it: the client that wrote it may have been killed over it, and its sealer goes on
while the run seals the rest.

At its end a run puts neighbours of few rows each together. `<a>+<b>` stands for all files from the one to the other
from the moment at which it is there, so that no kill leaves a row twice.

One writer per file. A stream that was torn by a crash is readable up to its last whole batch; how many bytes were torn
is reported, never an error that hides the rest. Batches of a stream carry a checksum, and so does a sealed file, of all
that is in it: what no crash leaves is told as that.
All times are `time.monotonic_ns()` of the one machine that ran it. Ids are integers; `run.json` holds their names.
Every table carries `run`, so that one Spark job can judge many runs.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from ackproof.core.run_files import why_not
from ackproof.host.own_program import own_program
from ackproof.journal.bounds import cut_texts, stream_bomb
from ackproof.model.journal_tables import TABLES

FLUSH_EVERY_S = 0.25
FLUSH_ROWS = 65_536
STREAM_BYTES = 1 << 27  # after which a writer begins another
TOGETHER = 1_024  # batches of a stream that is read: a tiny one takes ten times its own memory
ROW_GROUP = 1 << 18
FEW_ROWS = ROW_GROUP  # a file with fewer is put together with its neighbours, up to four groups of rows
TOGETHER_ROWS = 4 * ROW_GROUP
FROM_TO = "+"
STREAM_SUFFIX = ".arrows"
SEALED_SUFFIX = ".parquet"
TORN_BYTES, TORN_WHAT = b"ackproof.torn_bytes", b"ackproof.torn"  # in a sealed file's metadata, where it was torn
CHECKSUM = b"ackproof.crc32"  # in the metadata of a stream's batch; older streams have none
DIFFERS = "a batch differs from its checksum"
NO_CRASH = "no crash leaves that"
OTHER_SCHEMA = "it is of another schema than this version knows"
CUT_SHORT = re.compile(r"(Expected to .*read|Corrupted me.*, only) [0-9]+ (metadata |)bytes")  # as Arrow says it
BEGIN_MARK = b"\xff\xff\xff\xff"  # of each message of a stream
END_MARK = b"\xff\xff\xff\xff\x00\x00\x00\x00"
CHECKED_AT_ONCE = 2**20
FILE_CHECKSUM = b"ackproof.file.crc32="  # before a sealed file's footer, of all else that is in it
FOOTER_CHECKSUM = b"ackproof.footer.crc32="  # in older files, of the footer alone; still older ones have none


@cache
def _repeated(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)


def same(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    """One value, so many times. Made once: a part of it costs nothing."""
    size = FLUSH_ROWS
    while size < count:
        size *= 2
    return _repeated(value, kind, size).slice(0, count)


class Writer:
    """Appends rows of one table to one file of its own; other processes have files of their own."""

    def __init__(self, run_directory: Path, table: str, run: int, name: str) -> None:
        self._table = TABLES[table]
        self._schema = self._table.schema
        self._run = run
        self._folder = run_directory / "journal" / table
        self._folder.mkdir(parents=True, exist_ok=True)
        self._name = name
        self._begun = 0
        self._sealing: subprocess.Popen[bytes] | None = None
        self._ended: list[Path] = []  # streams that nobody seals yet
        self._rows: list[tuple[Any, ...]] = []
        self._names = [column.name for column in self._table.columns if column.name != "run"]
        self._flushed = time.monotonic()
        self._begin()

    def _begin(self) -> None:
        """The next stream; the first has the writer's plain name."""
        self._begun += 1
        number = f".{self._begun}" if self._begun > 1 else ""
        self.path = self._folder / f"{self._name}{number}{STREAM_SUFFIX}"
        self._file = self.path.open("xb")  # a file without a buffer may write a part, and Arrow would not ask
        self._stream = pa.ipc.new_stream(self._file, self._schema)
        self._file.flush()

    def _end(self) -> None:
        self._stream.close()
        self._file.close()

    def add(self, **values: Any) -> None:
        """One row; columns that are left out are null."""
        self._rows.append(tuple(values.pop(name, None) for name in self._names))
        if values:
            raise ValueError(f"{self._table.name} has no column {', '.join(values)}")
        self.flush_if_due()

    def flush_if_due(self) -> None:
        if self._rows and (len(self._rows) >= FLUSH_ROWS or time.monotonic() - self._flushed >= FLUSH_EVERY_S):
            self.flush()

    def flush(self) -> None:
        """What was added reaches the file: from here on it survives the death of everything but the machine."""
        rows, self._rows = self._rows, []
        if rows:
            self.add_columns(dict(zip(self._names, zip(*rows, strict=True), strict=True)))

    def add_columns(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Many rows at once, column by column, straight to the file."""
        count = len(next(iter(columns.values())))
        arrays = []
        for field in self._schema:
            if field.name == "run":
                arrays.append(same(self._run, field.type, count))
            elif field.name in columns:
                column = columns[field.name]
                array = column if isinstance(column, pa.Array) else pa.array(column, type=field.type)
                arrays.append(cut_texts(array))
            else:
                arrays.append(same(None, field.type, count))
        batch = pa.record_batch(arrays, schema=self._schema)
        self._stream.write_batch(batch, custom_metadata={CHECKSUM: checksum(batch)})
        self._file.flush()
        self._flushed = time.monotonic()
        if self._file.tell() >= STREAM_BYTES:
            self._end()
            self._ended.append(self.path)
            self._seal_ended()
            self._begin()

    def _seal_ended(self) -> None:
        """In the background, by one process at a time: streams that end while it is at work are for the next."""
        if self._sealing is None or self._sealing.poll() is not None:
            self._sealing = subprocess.Popen(own_program("ackproof.journal.seal_worker", *map(str, self._ended)))
            self._ended = []

    def close(self, seal: bool = True) -> None:
        """End the stream properly and, unless somebody else will, seal it."""
        self.flush()
        self._end()
        if self._sealing is not None:
            self._sealing.wait()
        if seal:
            for path in (*self._ended, self.path):
                seal_stream(path)


@dataclass(frozen=True)
class Damage:
    """What of a stream could not be read: the crash of its writer tore it, or the disk did."""

    path: Path
    bytes_torn: int
    what: str


def checksum(batch: pa.RecordBatch) -> bytes:
    return _crc(batch.serialize())


def is_of_a_crash(what: str) -> bool:
    """Whether this damage is a torn tail, as a writer leaves that was killed, and no wrong byte."""
    return not what.endswith((DIFFERS, NO_CRASH, OTHER_SCHEMA))


def _what_was_torn(path: Path, good: int, problem: str) -> str:
    """A crash leaves the first part of one message behind the last whole one. Whatever else is there was changed by the
    disk, or a person: with it, whole batches may be gone."""
    with path.open("rb") as file:
        file.seek(good)
        tail = file.read()
    begins_well = BEGIN_MARK.startswith(
        tail[: len(BEGIN_MARK)]
    )  # else the batch before was taken for longer than it is
    is_first_part = tail.count(CHECKSUM) < 2 and not tail.endswith(END_MARK) and CUT_SHORT.match(problem)
    return problem if begins_well and is_first_part else f"{problem}; {NO_CRASH}"


def read_stream(path: Path) -> tuple[pa.Table, Damage | None]:
    """Every whole batch of a stream, and what is torn behind the last of them."""
    schema = TABLES[path.parent.name].schema
    older = TABLES[path.parent.name].older
    size = path.stat().st_size
    tables: list[pa.Table] = []
    batches: list[pa.RecordBatch] = []
    good = 0
    problem: str | None = None
    with pa.OSFile(str(path)) as source:
        try:
            reader = pa.ipc.open_stream(source)
            if reader.schema.equals(older):
                schema = older
            if not reader.schema.equals(schema):
                return schema.empty_table(), Damage(path, size, OTHER_SCHEMA)
            good = source.tell()
            for batch, metadata in reader.iter_batches_with_custom_metadata():
                batch.validate(full=True)
                if metadata is not None and metadata.get(CHECKSUM) != checksum(batch):
                    raise pa.ArrowInvalid(DIFFERS)
                batches.append(batch)
                good = source.tell()
                if len(batches) == TOGETHER:
                    tables.append(pa.Table.from_batches(batches, schema).combine_chunks())
                    batches = []
            good = source.tell()  # past the end mark, where there is one
        except (pa.ArrowInvalid, OSError, pa.ArrowException) as error:
            problem = str(error).splitlines()[0]
    table = pa.concat_tables([*tables, pa.Table.from_batches(batches, schema)])
    if problem is None and good >= size:
        return table, None
    # A writer that was killed leaves no end mark; that alone tears nothing.
    if size <= good:
        return table, None
    return table, Damage(path, size - good, _what_was_torn(path, good, problem or "it goes on behind its end"))


def seal_stream(path: Path) -> Damage | None:
    """Turn a stream into a sorted Parquet file beside it, whole or not at all, and take the stream away.

    Where another is at it, wait: what is gone by then, and has its sealed file, is done."""
    sealed = path.with_name(path.name.removesuffix(STREAM_SUFFIX) + SEALED_SUFFIX)
    try:
        with path.open("rb") as stream:
            with suppress(OSError):  # a file system without locks; two who seal one stream write the same
                fcntl.flock(stream, fcntl.LOCK_EX)
            return _seal(path, sealed)
    except FileNotFoundError:
        if path.exists() or not sealed.exists():
            raise
        return None


def _seal(path: Path, sealed: Path) -> Damage | None:
    table, damage = read_stream(path)
    if damage is not None and table.num_rows == 0 and damage.what == OTHER_SCHEMA:
        return damage
    if damage is not None:
        # The stream goes away; what was torn off it stays on record, so that judging again says the same.
        torn = {TORN_BYTES: str(damage.bytes_torn), TORN_WHAT: damage.what}
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **torn})
    write_sealed(table, sealed, TABLES[path.parent.name].order)
    path.unlink(missing_ok=True)
    return damage


def write_sealed(table: pa.Table, path: Path, order: Iterable[str]) -> None:
    """Sorted, aside, synced, renamed."""
    ordered = table.sort_by([(name, "ascending") for name in order])
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with pa.parquet.ParquetWriter(temporary, table.schema, **parquet_options(table.schema)) as rows:
            rows.write_table(ordered, row_group_size=ROW_GROUP)
            rows.add_key_value_metadata(table.schema.metadata or {})
        with temporary.open("r+b") as written:
            _sign(written)
            os.fsync(written.fileno())
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)  # it may be what fills the disk
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _footer(file: BinaryIO) -> bytes:
    """All behind a Parquet file's last page: schema, places and statistics, then their length and four letters."""
    file.seek(-8, os.SEEK_END)
    length = int.from_bytes(file.read(4), "little")
    file.seek(-8 - length, os.SEEK_END)
    return file.read()


def _sign(file: BinaryIO) -> None:
    """Parquet has checksums of what is in its pages, and none of their headers, which say how to read it, nor of the
    footer, which says where: so ours stands between pages and footer, where a reader of Parquet has nothing to read."""
    footer = _footer(file)
    pages = file.tell() - len(footer)
    signature = FILE_CHECKSUM + _crc(footer, _crc_of_pages(file, pages))
    file.seek(pages)
    file.write(signature + footer)


def differs_from_checksum(path: Path) -> bool:
    """Whether a sealed file is another than was written."""
    with path.open("rb") as file:
        footer = _footer(file)
        behind = file.tell() - len(footer)
        for name in (FILE_CHECKSUM, FOOTER_CHECKSUM):
            pages = max(0, behind - len(name) - len(_crc(b"")))
            file.seek(pages)
            signature = file.read(behind - pages)
            if signature.startswith(name):
                return signature != name + _crc(footer, _crc_of_pages(file, pages) if name == FILE_CHECKSUM else 0)
    return False


def _crc(content: bytes, before: int = 0) -> bytes:
    return f"{zlib.crc32(content, before):08x}".encode()


def _crc_of_pages(file: BinaryIO, length: int) -> int:
    """Of the first so many bytes."""
    file.seek(0)
    crc = 0
    while length and (part := file.read(min(length, CHECKED_AT_ONCE))):
        crc, length = zlib.crc32(part, crc), length - len(part)
    return crc


def parquet_options(schema: pa.Schema) -> dict[str, Any]:
    """Numbers, offsets and times rise by little: as differences they take a tenth of the place, and no longer. Arrow's
    own words for the schema, a third of a small file, say nothing that Parquet's do not."""
    others = ("run", "key", "digest", "took_ns")
    rising = [field.name for field in schema if field.type == pa.int64() and field.name not in others]
    return {
        "compression": "zstd",
        "store_schema": False,
        "write_page_checksum": True,
        "use_dictionary": [field.name for field in schema if field.name not in rising],
        "column_encoding": dict.fromkeys(rising, "DELTA_BINARY_PACKED"),
    }


def seal_all(run_directory: Path) -> list[Damage]:
    """Seal every stream that its writer did not: it was killed, or left it to us."""
    streams = sorted((run_directory / "journal").glob(f"*/*{STREAM_SUFFIX}"))
    damages = [damage for path in streams if (damage := _sealed_here(path, run_directory)) is not None]
    for table in TABLES:
        _take_away_twice(run_directory / "journal" / table)
    return damages


def _sealed_here(path: Path, run_directory: Path) -> Damage | None:
    """A run may come from somebody else: nothing is sealed where a link of theirs leads."""
    if any(place.is_symlink() for place in (path, path.parent, path.parent.parent)):
        return Damage(path, path.stat().st_size if path.exists() else 0, "it is a link, which is not followed")
    try:
        if why := why_not(path, run_directory) or stream_bomb(path):
            return Damage(path, path.stat().st_size, why)
    except FileNotFoundError:  # another has sealed it meanwhile
        pass
    return seal_stream(path)


def sealed_files(run_directory: Path, table: str) -> list[Path]:
    """In the order of their writers, and of a writer's streams; what another file stands for is left out, and so is
    what may not be opened (`run_files`)."""
    found = [path for path, stood_for in _in_order(run_directory / "journal" / table) if not stood_for]
    return [path for path in found if why_not(path, run_directory) is None]


def rows_sealed(run_directory: Path) -> dict[str, int]:
    """How many rows each table has; a file that cannot be read counts for none."""
    rows = dict.fromkeys(TABLES, 0)
    for table in TABLES:
        for path in sealed_files(run_directory, table):
            with suppress(OSError, pa.ArrowException):
                rows[table] += pa.parquet.read_metadata(path).num_rows
    return {table: count for table, count in rows.items() if count}


def put_together(run_directory: Path) -> None:
    """Make one file of neighbours that have few rows each. What is torn, or cannot be read, stays by itself; so do all
    where the disk has no room for it, or where a stream is left whose sealed file may yet come between them."""
    for table in TABLES:
        if any((run_directory / "journal" / table).glob(f"*{STREAM_SUFFIX}")):
            continue
        for neighbours in _neighbours(sealed_files(run_directory, table)):
            _put_together(neighbours, TABLES[table].order)
        _take_away_twice(run_directory / "journal" / table)


def _neighbours(paths: Iterable[Path]) -> Iterator[list[Path]]:
    found: list[Path] = []
    rows = 0
    for path in paths:
        own = _few_rows(path)
        if found and (own is None or rows + own > TOGETHER_ROWS):
            yield found
            found, rows = [], 0
        if own is not None:
            found.append(path)
            rows += own
    yield found


def _few_rows(path: Path) -> int | None:
    """How many rows it has, unless it should stay as it is."""
    try:
        footer = pa.parquet.read_metadata(path)
        if path.is_symlink() or differs_from_checksum(path) or TORN_BYTES in (footer.metadata or {}):
            return None
    except (OSError, pa.ArrowException, ValueError):
        return None
    return footer.num_rows if footer.num_rows < FEW_ROWS else None


def _put_together(paths: list[Path], order: Iterable[str]) -> None:
    if len(paths) > 1:
        first, last = _first_and_last(paths[0])[0], _first_and_last(paths[-1])[1]
        with suppress(OSError, pa.ArrowException):  # whoever reads them names what is damaged
            table = pa.concat_tables([_whole(path) for path in paths])
            write_sealed(table, paths[0].with_name(f"{first}{FROM_TO}{last}{SEALED_SUFFIX}"), order)


def _whole(path: Path) -> pa.Table:
    with pa.parquet.ParquetFile(path, page_checksum_verification=True) as file:
        return file.read()


def _take_away_twice(folder: Path) -> None:
    if not any(place.is_symlink() for place in (folder, folder.parent)):
        for path, stood_for in _in_order(folder):
            if stood_for:
                path.unlink(missing_ok=True)


def _in_order(folder: Path) -> list[tuple[Path, bool]]:
    """Each sealed file, and whether another stands for it."""
    found = [(tuple(map(_by_number, _first_and_last(path))), path) for path in folder.glob(f"*{SEALED_SUFFIX}")]
    spans = [span for span, path in found if FROM_TO in path.stem]
    return [
        (path, any(span != wider and wider[0] <= span[0] and span[1] <= wider[1] for wider in spans))
        for span, path in sorted(found)
    ]


def _first_and_last(path: Path) -> tuple[str, str]:
    name = path.name.removesuffix(SEALED_SUFFIX)
    return name.partition(FROM_TO)[0], name.rpartition(FROM_TO)[2]


def _by_number(name: str) -> list[str | int]:
    """The second before the tenth."""
    return [int(word) if place % 2 else word for place, word in enumerate(re.split(r"([0-9]+)", name))]
