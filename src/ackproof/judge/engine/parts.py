"""The files of a large journal, a group of rows at a time: worked on by threads of this process, or by Spark's workers.

What is done with a part is a function of arrays, which gives back little; where it runs does not matter to it. Spark's
workers need the files where this process sees them, and nothing else: our own code is sent to them.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from ackproof.judge.engine.kept import NOTHING_KEPT, Kept, Tree
from ackproof.spark.session import collected, cores, without_socket_warnings

TABLES = ("sends", "log", "reads")
CHUNK = 32  # parts between two words of how far it is
TASKS = 16  # of a chunk, for each processor: what a worker that is lost had done is little

SoFar = Callable[[int, int, str], None]  # so many of so many, and of what
Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Part:
    """One group of rows of one file, with the least and the greatest of its columns as far as the file says, and which
    columns may have nulls."""

    table: str
    path: str
    group: int
    rows: int
    bounds: Mapping[str, tuple[int, int]]
    nulls: frozenset[str]

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        with pq.ParquetFile(self.path, page_checksum_verification=True) as file:
            return file.read_row_group(self.group, columns=columns and list(columns), use_threads=False)


def parts_of(files: Mapping[str, Sequence[Path]]) -> list[Part]:
    """Every group of rows of these tables, from the files' footers."""
    return [part for table in TABLES for path in files[table] for part in _of_file(table, path)]


def _of_file(table: str, path: Path) -> Iterator[Part]:
    footer = pq.read_metadata(path)
    for group in range(footer.num_row_groups):
        rows = footer.row_group(group)
        bounds, nulls = {}, set()
        for column in map(rows.column, range(rows.num_columns)):
            said = column.statistics if column.is_stats_set else None
            if said is not None and said.has_min_max and isinstance(said.min, int):
                bounds[column.path_in_schema] = (said.min, said.max)
            if said is None or not said.has_null_count or said.null_count:
                nulls.add(column.path_in_schema)
        yield Part(table, str(path), group, rows.num_rows, bounds, frozenset(nulls))


class Pace:
    """How far it is, how fast, and how long it will take."""

    def __init__(self, so_far: SoFar, what: str) -> None:
        self._so_far = so_far
        self._what = what
        self._begun = time.monotonic(), 0

    def skip(self, done: int, of: int) -> None:
        """So many are done, and were before."""
        self._begun = time.monotonic(), done
        self._so_far(done, of, f"{self._what} before, and kept")

    def __call__(self, done: int, of: int) -> None:
        begun, before = self._begun
        if done > before:
            pace = (done - before) / max(time.monotonic() - begun, 1e-6)
            self._so_far(done, of, f"{self._what}, {pace:,.0f} a second, {(of - done) / pace:,.0f} s left")


@dataclass(frozen=True)
class Hands:
    """Who works on parts: Spark's workers where Spark is given, and else threads of this process."""

    spark: SparkSession | None = None
    so_far: SoFar = lambda *_: None
    kept: Kept = NOTHING_KEPT  # what was done before

    def each(self, work: Callable[[Item], Made], items: Sequence[Item], what: str, chunk: int = CHUNK) -> list[Made]:
        """What becomes of each, in their order, a chunk at a time with word of how far it is."""
        made: list[Made] = []
        pace = Pace(self.so_far, what)
        for first in range(0, len(items), chunk):
            made += self._each(work, items[first : first + chunk])
            pace(len(made), len(items))
        return made

    def _each(self, work: Callable[[Item], Made], items: Sequence[Item]) -> list[Made]:
        return list(_threads().map(work, items)) if self.spark is None else _by_spark(self.spark, work, items)

    def fold(self, work: Callable[[Part], Tree], parts: Sequence[Part]) -> list[Tree]:
        """The same of all parts, told by their rows; what was kept is not done again."""
        made: list[Tree] = []
        rows, done = sum(part.rows for part in parts), 0
        pace = Pace(self.so_far, "events folded")
        for first in range(0, len(parts), CHUNK):
            chunk = parts[first : first + CHUNK]
            done += sum(part.rows for part in chunk)
            own = self.kept.find(f"parts-{first}")
            if own is None:
                own = self._each(work, chunk)
                self.kept.keep(f"parts-{first}", own)
                pace(done, rows)
            else:
                pace.skip(done, rows)
            made += own
        return made


BY_THREADS = Hands()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="parts")


def _by_spark(spark: SparkSession, work: Callable[[Item], Made], items: Sequence[Item]) -> list[Made]:
    numbers = range(len(items))
    tasks = min(len(items), TASKS * cores(spark))
    if not is_remote():
        with without_socket_warnings():
            rows = spark.sparkContext.parallelize(numbers, tasks)
            made = dict(rows.map(lambda number: (number, work(items[number]))).collect())
        return [made[number] for number in numbers]

    def at_work(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield pa.RecordBatch.from_pydict({"id": [number], "made": [pickle.dumps(work(items[number]))]})

    answers = spark.range(0, len(items), 1, tasks).mapInArrow(at_work, "id long, made binary")
    found: dict[int, Made] = {row["id"]: pickle.loads(row["made"]) for row in collected(answers)}  # noqa: S301  our own
    return [found[number] for number in numbers]
