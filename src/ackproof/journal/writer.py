"""Writes rows of one table to Arrow streams of its own.

A stream of 128 MiB is ended, and sealed in the background while its writer continues with the next (`<writer>.2`,
`<writer>.3`). So a long run fills neither the disk with streams nor the memory of the sealer.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from ackproof.host.own_program import own_program
from ackproof.journal import checksums
from ackproof.journal.bounds import cut_texts
from ackproof.journal.checksums import CHECKSUM
from ackproof.journal.files import STREAM_SUFFIX
from ackproof.journal.seal import seal_stream
from ackproof.model.journal_tables import TABLES

FLUSH_EVERY_S = 0.25
FLUSH_ROWS = 65_536
STREAM_BYTES = 1 << 27  # a longer stream is ended, and the next one begins


@cache
def _repeated(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)


def repeated(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    """An array that holds one value `count` times: a slice of a cached array, which costs nothing."""
    size = FLUSH_ROWS
    while size < count:
        size *= 2
    return _repeated(value, kind, size).slice(0, count)


class Writer:
    """Appends rows of one table to a file. No other process writes to that file."""

    def __init__(self, run_directory: Path, table: str, run: int, name: str) -> None:
        self._table = TABLES[table]
        self._schema = self._table.schema
        self._run = run
        self._folder = run_directory / "journal" / table
        self._folder.mkdir(parents=True, exist_ok=True)
        self._name = name
        self._streams = 0
        self._sealer: subprocess.Popen[bytes] | None = None
        self._unsealed: list[Path] = []  # ended streams that no sealer has yet
        self._rows: list[tuple[Any, ...]] = []
        self._names = [column.name for column in self._table.columns if column.name != "run"]
        self._flushed = time.monotonic()
        self._begin()

    def _begin(self) -> None:
        """Begin the next stream; the first has the writer's plain name."""
        self._streams += 1
        number = f".{self._streams}" if self._streams > 1 else ""
        self.path = self._folder / f"{self._name}{number}{STREAM_SUFFIX}"
        self._file = self.path.open("xb")  # buffered: an unbuffered file may write a part, and Arrow would not notice
        self._stream = pa.ipc.new_stream(self._file, self._schema)
        self._file.flush()

    def _end(self) -> None:
        self._stream.close()
        self._file.close()

    def add(self, **values: Any) -> None:
        """Add one row; omitted columns are null."""
        self._rows.append(tuple(values.pop(name, None) for name in self._names))
        if values:
            raise ValueError(f"{self._table.name} has no column {', '.join(values)}")
        self.flush_if_due()

    def flush_if_due(self) -> None:
        if self._rows and (len(self._rows) >= FLUSH_ROWS or time.monotonic() - self._flushed >= FLUSH_EVERY_S):
            self.flush()

    def flush(self) -> None:
        """Write the added rows to the file: now they survive the death of every process, but not of the machine."""
        rows, self._rows = self._rows, []
        if rows:
            self.add_columns(dict(zip(self._names, zip(*rows, strict=True), strict=True)))

    def add_columns(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Write many rows at once, column by column, straight to the file."""
        count = len(next(iter(columns.values())))
        arrays = []
        for field in self._schema:
            if field.name == "run":
                arrays.append(repeated(self._run, field.type, count))
            elif field.name in columns:
                column = columns[field.name]
                array = column if isinstance(column, pa.Array) else pa.array(column, type=field.type)
                arrays.append(cut_texts(array))
            else:
                arrays.append(repeated(None, field.type, count))
        batch = pa.record_batch(arrays, schema=self._schema)
        self._stream.write_batch(batch, custom_metadata={CHECKSUM: checksums.of_batch(batch)})
        self._file.flush()
        self._flushed = time.monotonic()
        if self._file.tell() >= STREAM_BYTES:
            self._end()
            self._unsealed.append(self.path)
            self._seal_in_background()
            self._begin()

    def _seal_in_background(self) -> None:
        """Start a sealer if none is at work. Streams that end while it works wait for the next sealer."""
        if self._sealer is None or self._sealer.poll() is not None:
            self._sealer = subprocess.Popen(own_program("ackproof.journal.seal_worker", *map(str, self._unsealed)))
            self._unsealed = []

    def close(self, seal: bool = True) -> None:
        """End the stream properly. Seal it, unless the run will do that."""
        self.flush()
        self._end()
        if self._sealer is not None:
            self._sealer.wait()
        if seal:
            for path in (*self._unsealed, self.path):
                seal_stream(path)
