"""The checks' answers, from Spark to files: a few questions are one job of Spark, and a few jobs run at once.

A check that cannot be built or computed is named with its reason, and the others go on. Spark writes the rows, apart by
run where there are several; they are then put in a fixed order, one file for each check and run, of which the first
hundred go into the verdict.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
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
_CHECK = "_check"


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

    def ask(names: Sequence[str]) -> dict[str, str]:
        try:
            (_fetch if small else _write)({name: questions[name]() for name in names}, folder)
        except Exception as error:  # noqa: BLE001  whatever a check dies of, the others go on
            if len(names) == 1:
                return {names[0]: first_line(error)}
            again = [name for name in names if not (folder / name).is_dir()]
            return {name: why for alone in again for name, why in ask([alone]).items()}
        return {}

    broken: dict[str, str] = {}
    left = [name for name in questions if not (folder / name).is_dir()]  # the others were answered before
    count = len(questions) - len(left)
    with without_socket_warnings():
        pool = ThreadPoolExecutor(at_once)
        try:
            asked = {pool.submit(ask, names): names for names in _jobs(left, small, at_once)}
            for job in as_completed(asked):
                broken |= job.result()
                count += len(asked[job])
                answered(count, len(questions))
        finally:  # after an interrupt nothing waits for the jobs that run: they end with Spark
            pool.shutdown(wait=False, cancel_futures=True)
    return broken


def _jobs(questions: Sequence[str], small: bool, at_once: int) -> list[Sequence[str]]:
    """The questions of each job. In a small journal a job costs more than the rows of its questions, so a job has
    several of them; each thread is given two such jobs, because they do not all take the same time."""
    size = max(1, -(-len(questions) // (2 * at_once))) if small else 1
    return [questions[first : first + size] for first in range(0, len(questions), size)]


def _fetch(frames: Mapping[str, DataFrame], folder: Path) -> None:
    """Collect the rows, and write them here: for so few rows Spark's own way of writing files would take longer."""
    answers = _in_one(frames).toArrow()
    for name in frames:
        own = answers.filter(pc.field(_CHECK) == name).column(name).combine_chunks()
        table = pa.Table.from_struct_array(own)
        with _aside(folder, name) as aside:
            aside.mkdir(parents=True)
            for run in pc.unique(table.column("run")).to_pylist():
                (aside / f"_run={run}").mkdir()
                rows_of_run = table.filter(pc.field("run") == run)
                pq.write_table(rows_of_run, aside / f"_run={run}" / "part.parquet", compression="none")


def _in_one(frames: Mapping[str, DataFrame]) -> DataFrame:
    """All rows in one frame. Each is a struct in the column of its check, and the columns of other checks are null."""
    types = {name: frame.schema.simpleString() for name, frame in frames.items()}  # in these every field may be null
    nothing = {name: F.lit(None).cast(kind).alias(name) for name, kind in types.items()}
    rows_of_checks = (
        frame.select(
            F.lit(name).alias(_CHECK), *(nothing | {name: F.struct("*").cast(types[name]).alias(name)}).values()
        )
        for name, frame in frames.items()
    )
    return reduce(DataFrame.union, rows_of_checks)


def _write(frames: Mapping[str, DataFrame], folder: Path) -> None:
    for name, frame in frames.items():
        with _aside(folder, name) as aside:
            frame.withColumn("_run", F.col("run")).write.partitionBy("_run").parquet(str(aside))


@contextmanager
def _aside(folder: Path, name: str) -> Iterator[Path]:
    """A place that becomes the folder of a check once it is whole, and else is gone."""
    aside = folder / f".{name}"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        yield aside
        aside.rename(folder / name)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def parts(folder: Path, check: str, run: int) -> list[Path]:
    return sorted(folder.glob(f"{check}/_run={run}/*.parquet"))


def collect(
    folder: Path, check: str, run: int, into: Path | None, marked: str | None, most: int = WITNESSES_SHOWN
) -> Witnesses:
    """Put one check's rows in order into one file below `into`, and keep the first `most` of them."""
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
            head = table.slice(0, most) if total <= SORTED_ROWS else table
            first = _in_order(head if first is None else pa.concat_tables([first, head])).slice(0, most)
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
    """Sort by every column from left to right, so that each way to compute them keeps the same first hundred rows."""
    keys = [(name, "ascending") for name in table.column_names if not pa.types.is_nested(table.field(name).type)]
    return table.sort_by(keys)


def _marked(table: pa.Table, column: str | None) -> int:
    if column is None:
        return int(table.num_rows)
    return int(pc.sum(pc.greater(table.column(column).cast(pa.int64()), 0)).as_py() or 0)
