"""Read a run directory for the report, however the run ended.

This needs no Spark, no verdict, and not even a run that ended: a stream that was never sealed is read up to its last
whole batch. Whatever cannot be read becomes a line in `problems`, which the page shows. Tables are read in batches, and
only the columns that are needed, so that a journal of millions of rows fits into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from ackproof.core.errors import UsageProblem
from ackproof.core.run_files import TooManyFiles, not_to_be_opened, why_not
from ackproof.journal.bounds import parquet_bomb, stream_bomb
from ackproof.journal.checksums import differs_from_checksum
from ackproof.journal.files import SEALED_SUFFIX, STREAM_SUFFIX, sealed_files
from ackproof.journal.stream import read_stream
from ackproof.model.journal_tables import TABLES
from ackproof.model.run_record import RunRecord, read_record
from ackproof.model.verdict import Verdict, read_verdict

SECOND = 1_000_000_000
BATCH_ROWS = 1 << 18
VALUES_MOST = 3_000_000  # the most values of a table that a page reads row by row
BYTES_MOST = 256 * 2**20


@dataclass
class Run:
    directory: Path
    record: RunRecord
    verdict: Verdict | None
    problems: list[str] = field(default_factory=list)
    _looked_at: dict[Path, bool] = field(default_factory=dict)  # whether a file differs from its checksum
    _bombs: dict[Path, str | None] = field(default_factory=dict)  # why a file is not read, or None

    @property
    def origin_ns(self) -> int:
        """The beginning of the time axis: when the load began."""
        return self.record.marks.load_begun_ns or self.record.marks.ready_ns or self.record.began.monotonic_ns

    def seconds(self, at_ns: Any) -> Any:
        """Convert a moment, or a whole column of moments, to seconds since the load began."""
        return (at_ns - self.origin_ns) / SECOND

    def wall(self, at_ns: float) -> datetime:
        wall_ns = self.record.began.wall_ns + at_ns - self.record.began.monotonic_ns
        return datetime.fromtimestamp(wall_ns / SECOND, UTC)

    def monotonic(self, wall_s: float) -> int:
        return int(wall_s * SECOND) - self.record.began.wall_ns + self.record.began.monotonic_ns

    def node(self, broker: int | None) -> str:
        return "none" if broker is None or broker < 0 else self.record.nodes.get(broker, f"broker {broker}")

    def topic(self, number: int) -> str:
        known = 0 <= number < len(self.record.topics)
        return self.record.topics[number] if known else f"topic {number}"

    def batches(self, table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table of the journal in batches. A file that cannot be read becomes a problem."""
        sealed = sealed_files(self.directory, table)
        for path in sealed:
            yield from self._sealed(path, columns, pa.schema([TABLES[table].schema.field(name) for name in columns]))
        done = {path.stem for path in sealed}
        for path in sorted((self.directory / "journal" / table).glob(f"*{STREAM_SUFFIX}")):
            if path.stem not in done:
                yield from self._stream(path, columns)

    def table(self, table: str, columns: Sequence[str], most: int = VALUES_MOST) -> pa.Table:
        """Return a table with at most `most` values. If it has more, that becomes a problem."""
        fields = [TABLES[table].schema.field(name) for name in columns]
        read: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in self.batches(table, columns):
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows * len(columns) > most or size > BYTES_MOST:
                shown = sum(each.num_rows for each in read)
                self._say(f"journal/{table}: it is too large for a page, which shows its first {shown:,} rows")
                break
            read.append(batch)
        return pa.Table.from_batches(read, pa.schema(fields))

    def witnesses(self, check: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield all witnesses of a check, as the judge wrote them."""
        for path in sorted((self.directory / "verdict" / check).glob(f"*{SEALED_SUFFIX}")):
            yield from self._sealed(path, columns)

    def _sealed(self, path: Path, columns: Sequence[str], schema: pa.Schema | None = None) -> Iterator[pa.RecordBatch]:
        try:
            if why := why_not(path, self.directory) or self._bomb(path):
                self._problem(path, why)
                return
            if self._differs(path):
                self._problem(path, "it differs from its checksum, and was left out")
                return
            with pa.parquet.ParquetFile(path, page_checksum_verification=True) as source:
                for batch in source.iter_batches(batch_size=BATCH_ROWS, columns=list(columns)):
                    own = batch.select(list(columns))
                    yield own if schema is None else own.cast(schema)
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            self._problem(path, str(error).splitlines()[0])

    def _bomb(self, path: Path) -> str | None:
        if path not in self._bombs:
            self._bombs[path] = parquet_bomb(path)
        return self._bombs[path]

    def _differs(self, path: Path) -> bool:
        """Whether a file differs from its checksum. It is computed once, because a page reads a file several times."""
        if path not in self._looked_at:
            self._looked_at[path] = differs_from_checksum(path)
        return self._looked_at[path]

    def _stream(self, path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        try:
            if why := why_not(path, self.directory) or stream_bomb(path):
                self._problem(path, why)
                return
            table, damage = read_stream(path)
        except (pa.ArrowException, OSError) as error:
            self._problem(path, str(error).splitlines()[0])
            return
        if damage is not None:
            self._problem(path, f"{damage.what}; {damage.bytes_torn:,} bytes could not be read")
        yield from table.select(list(columns)).to_batches(BATCH_ROWS)

    def _problem(self, path: Path, what: str) -> None:
        self._say(f"{path.relative_to(self.directory)}: {what}")

    def _say(self, line: str) -> None:
        if line not in self.problems:
            self.problems.append(line)


def open_run(directory: Path) -> Run:
    try:
        record = read_record(directory)
    except FileNotFoundError:
        raise UsageProblem(f"{directory} is no run directory: it has no run.json") from None
    except (msgspec.MsgspecError, OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageProblem(f"{directory / 'run.json'} cannot be read: {why}") from None
    run = Run(directory, record, None, list(record.problems))
    try:
        run.problems += [f"{path.relative_to(directory)}: {why}" for path, why in not_to_be_opened(directory).items()]
    except TooManyFiles as problem:
        raise UsageProblem(f"{directory}: {problem}") from None
    try:
        run.verdict = read_verdict(directory)
    except FileNotFoundError:
        pass
    except (msgspec.MsgspecError, OSError, UnicodeDecodeError) as error:
        run.problems.append(f"verdict/verdict.json cannot be read, so the run counts as not judged: {error}")
    return run


def numbers(column: pa.Array | pa.ChunkedArray, missing: float = np.nan) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a column of numbers as floats. Offsets stay exact up to 2**53."""
    filled = pc.fill_null(pc.cast(column, pa.float64(), safe=False), missing)
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.float64)


def integers(column: pa.Array | pa.ChunkedArray, missing: int = -1) -> np.ndarray[Any, np.dtype[np.int64]]:
    filled = pc.fill_null(pc.cast(column, pa.int64()), missing)
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.int64)
