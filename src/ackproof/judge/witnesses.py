"""The checks' answers, from Spark to files: all checks in one job, each check's witnesses in a file of its own.

One job, because on a small machine planning and scheduling twenty of them costs more than the work. Each frame becomes
one struct column of a wide, mostly empty table that Spark writes apart by check and run; the parts are then taken out
of their wrapping. If that one job fails, each check gets a job of its own, and only those that fail again are broken.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.verdict import WITNESSES_SHOWN

# Up to so many witnesses of one check are sorted before they are written; beyond, they stay as Spark left them.
SORTED_ROWS = 2_000_000


@dataclass(frozen=True)
class Witnesses:
    """What one check found in one run."""

    rows: int = 0
    marked: int = 0
    first: list[dict[str, Any]] = field(default_factory=list)


def run_checks(frames: Mapping[str, DataFrame], folder: Path) -> dict[str, str]:
    """Write every frame below `folder`; the answer names those that could not be computed, and why."""
    try:
        _write(frames, folder)
    except Exception as error:  # noqa: BLE001  whatever a job dies of, the other checks go on
        broken: dict[str, str] = {}
        shutil.rmtree(folder, ignore_errors=True)
        if len(frames) == 1:
            return {name: first_line(error) for name in frames}
        for name, frame in frames.items():
            broken |= run_checks({name: frame}, folder / name)
        return broken
    return {}


def _write(frames: Mapping[str, DataFrame], folder: Path) -> None:
    names = list(frames)
    types = {name: F.struct(*(F.col(column) for column in frame.columns)) for name, frame in frames.items()}
    structs = {name: frame.select(types[name].alias(name)).schema[name].dataType for name, frame in frames.items()}

    def wide(name: str) -> DataFrame:
        wrapped = [
            (types[other] if other == name else F.lit(None)).cast(structs[other]).alias(other) for other in names
        ]
        return frames[name].select(F.lit(name).alias("_check"), F.col("run").alias("_run"), *wrapped)

    everything = reduce(DataFrame.union, (wide(name) for name in names))
    everything.write.partitionBy("_check", "_run").parquet(str(folder))


def first_line(error: BaseException) -> str:
    """An error in one line: the rest of what Spark says is for its log."""
    said = error.getMessage() if isinstance(error, PySparkException) else None
    text = str(said or error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def parts(folder: Path, check: str, run: int) -> list[Path]:
    here = sorted(folder.glob(f"_check={check}/_run={run}/*.parquet"))
    return here or sorted(folder.glob(f"{check}/_check={check}/_run={run}/*.parquet"))


def collect(folder: Path, check: str, run: int, into: Path | None, marked: str | None) -> Witnesses:
    """Take one check's rows out of their wrapping into `into`, and keep the first of them in a fixed order."""
    files = parts(folder, check, run)
    if not files:
        return Witnesses()
    total = sum(pq.read_metadata(path).num_rows for path in files)
    tables = _tables(files, check)
    if total <= SORTED_ROWS:
        tables = iter([_in_order(pa.concat_tables(list(tables)))])
    first: pa.Table | None = None
    count = 0
    writer: pq.ParquetWriter | None = None
    try:
        for table in tables:
            count += _marked(table, marked)
            head = table.slice(0, WITNESSES_SHOWN) if total <= SORTED_ROWS else table
            first = _in_order(head if first is None else pa.concat_tables([first, head])).slice(0, WITNESSES_SHOWN)
            if into is not None:
                if writer is None:
                    into.mkdir(parents=True, exist_ok=True)
                    writer = pq.ParquetWriter(into / "part-00000.parquet", table.schema, compression="zstd")
                writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()
    return Witnesses(total, count, first.to_pylist() if first is not None else [])


def rows(folder: Path, name: str, run: int) -> list[dict[str, Any]]:
    """All rows of a frame that is small by nature."""
    found: list[dict[str, Any]] = []
    for table in _tables(parts(folder, name, run), name):
        found.extend(_in_order(table).to_pylist())
    return found


def count_where(folder: Path, name: str, run: int, column: str, value: str) -> int:
    found = 0
    for table in _tables(parts(folder, name, run), name):
        found += int(pc.sum(pc.equal(table.column(column), value)).as_py() or 0)
    return found


def _tables(files: list[Path], name: str) -> Iterator[pa.Table]:
    for path in files:
        for batch in pq.ParquetFile(path).iter_batches(columns=[name], batch_size=1 << 18):
            yield pa.Table.from_batches([batch]).flatten().rename_columns(_names(batch.schema.field(name).type))


def _names(struct: pa.StructType) -> list[str]:
    return [struct.field(place).name for place in range(struct.num_fields)]


def _in_order(table: pa.Table) -> pa.Table:
    """By every column from left to right, so that the first hundred are the same whoever computed them."""
    keys = [(name, "ascending") for name in table.column_names if not pa.types.is_nested(table.field(name).type)]
    return table.sort_by(keys)


def _marked(table: pa.Table, column: str | None) -> int:
    if column is None:
        return int(table.num_rows)
    return int(pc.sum(pc.greater(table.column(column).cast(pa.int64()), 0)).as_py() or 0)
