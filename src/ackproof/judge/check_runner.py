"""The checks' answers, from Spark to files: each check is a job of its own, and a few of them run at once.

A check that cannot be built or computed is named with its reason, and the others go on. Spark writes the rows, apart by
run where there are several; they are then put in a fixed order, one file for each check and run, of which the first
hundred go into the verdict.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.model.verdict import WITNESSES_SHOWN
from ackproof.spark.session import first_line, without_socket_warnings

# Up to so many witnesses of one check are sorted before they are written; beyond, they stay as Spark left them.
SORTED_ROWS = 2_000_000


@dataclass(frozen=True)
class Witnesses:
    """What one check found in one run."""

    rows: int = 0
    marked: int = 0
    first: list[dict[str, Any]] = field(default_factory=list)


def run_checks(
    questions: Mapping[str, Callable[[], DataFrame]],
    folder: Path,
    small: bool,
    at_once: int,
    answered: Callable[[int, int], None],
) -> dict[str, str]:
    """Ask every question and write its rows below `folder`; the answer names those that broke, and why."""

    def ask(name: str) -> str | None:
        if (folder / name).is_dir():
            return None  # it was answered before
        aside = folder / f".{name}"
        try:
            shutil.rmtree(aside, ignore_errors=True)
            (_fetch if small else _write)(questions[name](), aside)
            aside.rename(folder / name)
        except Exception as error:  # noqa: BLE001  whatever a check dies of, the others go on
            shutil.rmtree(aside, ignore_errors=True)
            return first_line(error)
        return None

    with without_socket_warnings():
        pool = ThreadPoolExecutor(at_once)
        try:
            asked = {pool.submit(ask, name): name for name in questions}
            for count, _ in enumerate(as_completed(asked), start=1):
                answered(count, len(asked))
        finally:  # who is interrupted does not wait for what is under way: it ends with Spark
            pool.shutdown(wait=False, cancel_futures=True)
    return {name: reason for future, name in asked.items() if (reason := future.result()) is not None}


def _fetch(frame: DataFrame, folder: Path) -> None:
    """Of a small journal, what Spark answers fits in memory; its way of writing files would cost more than the rows."""
    table = frame.toArrow()
    folder.mkdir(parents=True)
    for run in pc.unique(table.column("run")).to_pylist():
        (folder / f"_run={run}").mkdir(parents=True)
        own = table.filter(pc.field("run") == run)
        pq.write_table(own, folder / f"_run={run}" / "part.parquet", compression="none")


def _write(frame: DataFrame, folder: Path) -> None:
    frame.withColumn("_run", F.col("run")).write.partitionBy("_run").parquet(str(folder))


def parts(folder: Path, check: str, run: int) -> list[Path]:
    return sorted(folder.glob(f"{check}/_run={run}/*.parquet"))


def collect(folder: Path, check: str, run: int, into: Path | None, marked: str | None) -> Witnesses:
    """Put one check's rows in order into one file below `into`, and keep the first of them."""
    files = parts(folder, check, run)
    total = sum(pq.read_metadata(path).num_rows for path in files)
    if not total:
        return Witnesses()
    tables = _tables(files)
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
    for table in _tables(parts(folder, name, run)):
        found.extend(_in_order(table).to_pylist())
    return found


def count_where(folder: Path, name: str, run: int, column: str, value: str) -> int:
    found = 0
    for table in _tables(parts(folder, name, run)):
        found += int(pc.sum(pc.equal(table.column(column), value)).as_py() or 0)
    return found


def count_other(
    folder: Path, name: str, run: int, marked: str | None, passed_over: Callable[[pa.Table], npt.NDArray[np.bool_]]
) -> int:
    """The rows that count, without those passed over."""
    found = 0
    for table in _tables(parts(folder, name, run)):
        counts = ~passed_over(table)
        if marked is not None:
            counts &= table.column(marked).cast(pa.int64()).to_numpy() > 0
        found += int(counts.sum())
    return found


def longest_ms(folder: Path, name: str, run: int) -> float:
    """How long the longest lasted: without end, if it still does; no time, where they are no stretches of time."""
    longest = 0.0
    for table in _tables(parts(folder, name, run)):
        if {"from_ns", "to_ns"} <= set(table.column_names):
            lasted = pc.subtract(table.column("to_ns"), table.column("from_ns"))
            longest = max(longest, math.inf if lasted.null_count else pc.max(lasted).as_py() / 1e6)
    return longest


def _tables(files: list[Path]) -> Iterator[pa.Table]:
    for path in files:
        for batch in pq.ParquetFile(path).iter_batches(batch_size=1 << 18):
            yield pa.Table.from_batches([batch])


def _in_order(table: pa.Table) -> pa.Table:
    """By every column from left to right, so that the first hundred are the same whoever computed them."""
    keys = [(name, "ascending") for name in table.column_names if not pa.types.is_nested(table.field(name).type)]
    return table.sort_by(keys)


def _marked(table: pa.Table, column: str | None) -> int:
    if column is None:
        return int(table.num_rows)
    return int(pc.sum(pc.greater(table.column(column).cast(pa.int64()), 0)).as_py() or 0)
