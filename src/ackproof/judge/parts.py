"""The files of a large journal, a group of rows at a time: worked on by threads of this process, or by Spark's workers.

What is done with a part is a function of arrays, which gives back little; where it runs does not matter to it. Spark's
workers need the files where this process sees them, and nothing else: our own code is sent to them.
"""

from __future__ import annotations

import pickle
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import ackproof
from ackproof.judge.spark import collected

TABLES = ("sends", "log", "reads")
TASKS = 16  # for each processor: fine enough for progress and for a worker that is lost

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


def each(spark: SparkSession | None, work: Callable[[Item], Made], items: Sequence[Item]) -> list[Made]:
    """What becomes of each, in their order: by Spark's workers where Spark is given, and else by threads."""
    if spark is None or not items:
        with ThreadPoolExecutor() as pool:
            return list(pool.map(work, items))

    def at_work(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield pa.RecordBatch.from_pydict({"id": [number], "made": [pickle.dumps(work(items[number]))]})

    tasks = min(len(items), TASKS * spark.sparkContext.defaultParallelism)
    answers = spark.range(0, len(items), 1, tasks).mapInArrow(at_work, "id long, made binary")
    made: dict[int, Made] = {row["id"]: pickle.loads(row["made"]) for row in collected(answers)}  # noqa: S301  our own
    return [made[number] for number in range(len(items))]


def send_our_code(spark: SparkSession) -> None:
    """To workers of other machines, which have Python, Spark, numpy and pyarrow, and not us."""
    home = Path(ackproof.__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ackproof.zip"
        with zipfile.ZipFile(path, "w") as packed:
            for file in sorted(home.rglob("*.py")):
                packed.write(file, Path("ackproof") / file.relative_to(home))
        spark.sparkContext.addPyFile(str(path))
