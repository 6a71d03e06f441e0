"""A large journal: folded and counted part by part, and of what is not known to be dull a smaller one is made.

Nothing here looks at a message more than twice: once as its part is folded, and once more, for the order of sends, in
slabs of offsets. What is left for the checks is small, however large the journal was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ackproof.judge.engine import numbers, order, pauses
from ackproof.judge.engine.block_digests import BITS, Columns, Longs
from ackproof.judge.engine.parts import Hands, Part, parts_of
from ackproof.judge.engine.pauses import Wait
from ackproof.judge.engine.sums import BASES, Lines, Sums, all_whole
from ackproof.judge.engine.suspect_blocks import Folded, closer, first_seen, folded, jumped_over, narrowed
from ackproof.judge.frames import NO_SPAN, Span, Tables, run_row
from ackproof.judge.run_source import Source
from ackproof.judge.schemas import GIVEN, LATENCIES, PRODUCED, SECONDS, STEPS, STRETCHES, WAITS, spark_schema
from ackproof.judge.sequence_audit import Producer
from ackproof.spark.session import few_columns, few_rows

_REPORTED = T.StructType([T.StructField("run", T.LongType()), T.StructField("sends", T.LongType())])
_BLOCK = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("producer", T.IntegerType()),
        T.StructField("block", T.LongType()),
    ]
)


@dataclass(frozen=True)
class Looked:
    """What is known of one large run, and what of it is worth a look."""

    run: int
    producers: list[Producer]
    unequal: Longs  # producer, block: of which other numbers were reported than were reserved
    reserved: list[dict[str, Any]]  # what was reserved of those
    sums: Sums
    steps: Columns
    waits: list[Wait]
    files: dict[str, list[str]]
    rows: int


def look(source: Source, folder: Path, hands: Hands, bits: int = BITS, slab: int = order.SLAB) -> Looked | None:
    """Null where the parts of a consumer's reads are not in the order of its reading, so that folding is of no use."""
    record = source.record
    parts = parts_of(source.files)
    lines = _lines(source, [part for part in parts if part.table == "sends"])
    run = folded(parts, lines, bits, hands)
    if run.steps is None:
        return None
    own = numbers.reservations(source.files["blocks"])
    unequal = numbers.differing(run.folds["sends"], numbers.fold_reserved(own, bits))
    places = [jumped_over(run.steps, bits), *_out_of_order(run, hands, bits, slab)]
    found = closer(record, run.folds, first_seen(source.files["state"]), unequal, places, bits)
    narrow = {table: narrowed(run, table, found, folder, bits, hands) for table in run.parts}
    return Looked(
        record.run,
        numbers.producers(record.run, run.sums["producers"], own, unequal),
        unequal,
        numbers.clipped(own, unequal, record.run, bits),
        run.sums,
        run.steps,
        list(_waits(run, lines, hands)),
        {table: paths for table, (paths, _) in narrow.items()},
        sum(rows for _, rows in narrow.values()),
    )


def _lines(source: Source, sends: Sequence[Part]) -> Lines:
    """When the load began and ended is in the files' footers."""
    sent = [bound for part in sends if (bound := _bounds(part, "sent_ns"))]
    done = [bound for part in sends if (bound := _bounds(part, "done_ns"))]
    last = max((high for _, high in sent), default=None)
    end = None if last is None else max([last, *(high for _, high in done)])
    span: Span = (min(low for low, _ in sent), last, end) if sent else NO_SPAN
    _, _, unavailable_ns, late_ns, begin_ns, _, end_ns = run_row(source.record, span)
    partitions: dict[int, list[int]] = {}
    for row in source.small["ends"]:
        partitions.setdefault(row["topic"], []).append(row["partition"])
    only = {topic: own[0] if len(own) == 1 else -1 for topic, own in partitions.items()}
    return Lines(begin_ns, late_ns, end_ns, unavailable_ns, only)


def _bounds(part: Part, column: str) -> tuple[int, int] | None:
    if column in part.bounds:
        return part.bounds[column]
    found = pc.min_max(part.read([column])[column]).as_py()
    return None if found["min"] is None else (found["min"], found["max"])


def _out_of_order(run: Folded, hands: Hands, bits: int, slab: int) -> list[Longs]:
    """Where what was acknowledged later stands at or below what was acknowledged before."""
    slabs = order.slabs(run.parts["sends"], run.folds["sends"], slab)
    found = order.odd_places(lambda asked: hands.each(order.look_into, asked, "slabs of acks put in order", 16), slabs)
    made = []
    for topic, partition, offsets in found:
        stretches = np.unique(offsets >> bits)
        made.append(np.stack([np.full(len(stretches), topic), np.full(len(stretches), partition), stretches], axis=1))
    return made


def _waits(run: Folded, lines: Lines, hands: Hands) -> Iterable[Wait]:
    found = pauses.pauses(run.sums, lines)
    asked = [part for part in run.parts["sends"] if found and pauses.may_wait(part, found)]
    return pauses.rows_of(
        hands.each(partial(pauses.waited, found=found, lines=lines), asked, "parts with a pause looked at"), lines
    )


def unequal(
    spark: SparkSession, sends: DataFrame, looked: Sequence[Looked], bits: int = BITS
) -> tuple[DataFrame, DataFrame]:
    """Of blocks of which other numbers were reported than were reserved: what was reported, and what was reserved."""
    blocks = few_rows(spark, [(one.run, *row) for one in looked for row in one.unequal.tolist()], _BLOCK)
    reported = sends.withColumn("block", F.shiftright("seq", bits)).join(
        F.broadcast(blocks), on=_BLOCK.names, how="left_semi"
    )
    schema = spark_schema("blocks")
    rows = [tuple(row.get(name) for name in schema.names) for one in looked for row in one.reserved]
    return reported.drop("block"), few_rows(spark, rows, schema)


# -- as tables of the judge --------------------------------------------------------------------------------------------


def counted_tables(spark: SparkSession, tables: Tables, looked: Sequence[Looked]) -> Tables:
    """The tables with what was counted as they were folded."""
    sums = {one.run: one.sums for one in looked}
    whole = all(bool(all_whole(own["stretches"]).all()) for own in sums.values() if own["stretches"])
    return replace(
        tables,
        seconds=_frame(spark, SECONDS, {run: own["seconds"] for run, own in sums.items()}),
        latencies=few_rows(spark, _latencies(sums), LATENCIES),
        stretches=_frame(spark, STRETCHES, {run: own["stretches"] for run, own in sums.items()}) if whole else None,
        given=few_rows(spark, [row for run, own in sums.items() for row in _given(run, own["shares"])], GIVEN),
        produced=_frame(spark, PRODUCED, {run: _produced(own["producers"]) for run, own in sums.items()}),
        steps=_frame(spark, STEPS, {one.run: one.steps for one in looked}),
        waits=few_rows(spark, [(one.run, *row) for one in looked for row in one.waits], WAITS),
    )


def _frame(spark: SparkSession, schema: T.StructType, of_runs: Mapping[int, Columns]) -> DataFrame:
    """Arrays as rows; what nothing was counted of is none."""
    names = schema.names[1:]
    made: dict[str, list[Any]] = {name: [] for name in schema.names}
    for run, columns in of_runs.items():
        size = len(next(iter(columns.values()))) if columns else 0
        made["run"].append(np.full(size, run))
        for name in names:
            made[name].append(columns.get(name, np.zeros(size, np.int64)) if columns else np.zeros(0, np.int64))
    return few_columns(
        spark, {name: np.concatenate([np.zeros(0, np.int64), *own]) for name, own in made.items()}, schema
    )


def _latencies(sums: Mapping[int, Sums]) -> list[tuple[Any, ...]]:
    names = ("basis", "us", "sends", "max_ns", "late")
    return [
        (run, BASES[basis], *others)
        for run, own in sums.items()
        if own["latencies"]
        for basis, *others in zip(*(own["latencies"][name].tolist() for name in names), strict=True)
    ]


def _given(run: int, shares: Columns) -> list[tuple[int, int, int, int]]:
    read: dict[int, list[int]] = {}
    for consumer, count in zip(shares["consumer"].tolist(), shares["read"].tolist(), strict=True) if shares else ():
        read.setdefault(consumer, []).append(count)
    return [(run, consumer, sum(counts), len(counts)) for consumer, counts in read.items()]


def _produced(producers: Columns) -> Columns:
    if not producers:
        return {}
    names = {"producer": "producer", "acked": "ok", "begin_ns": "first_ok_sent_ns", "end_ns": "last_ok_ns"}
    return {name: producers[own][producers["ok"] > 0] for name, own in names.items()}


def left_out(spark: SparkSession, tables: Tables, kept: DataFrame, producers: Sequence[Producer]) -> DataFrame:
    """How many sends of each run are not worth a look: all of them survived."""
    reported = few_rows(spark, [(one.run, one.reported) for one in producers], _REPORTED)
    return (
        tables.union(reported, kept.select("run", F.lit(-1).cast("long").alias("sends")))
        .groupBy("run")
        .agg(F.sum("sends").alias("sends"))
        .select("run", F.lit("survived").alias("fate"), "sends", F.lit(0).cast("long").alias("extra_copies"))
    )
