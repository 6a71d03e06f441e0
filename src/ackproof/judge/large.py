"""A large journal: folded and counted part by part, and of what is not known to be dull a smaller one is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ackproof.judge.folds import BITS, Columns
from ackproof.judge.narrow import closer, first_seen, folded, narrowed
from ackproof.judge.reserved import Producer
from ackproof.judge.sources import Source
from ackproof.judge.spark import collected, few_rows
from ackproof.judge.sums import BASES, Lines, Sums, all_whole
from ackproof.judge.tables import (
    LATENCIES,
    NO_SPAN,
    SECONDS,
    STRETCHES,
    Span,
    Tables,
    looking_closer,
    read_table,
    reserved,
    run_row,
)

_REPORTED = T.StructType([T.StructField("run", T.LongType()), T.StructField("sends", T.LongType())])


@dataclass(frozen=True)
class Large:
    everything: Tables  # with what was counted
    looked: Tables  # what is worth a look
    left_out: DataFrame  # how many sends of each run are not: all of them survived


def look_closer(
    spark: SparkSession,
    sources: Sequence[Source],
    tables: Tables,
    missing: DataFrame | None,
    producers: Sequence[Producer],
    spans: Mapping[int, Span],
    folder: Path,
) -> Large:
    """`missing` holds the numbers that were reserved and never reported, where there are any."""
    holes = _holes(sources, missing)
    files: dict[str, list[str]] = {"sends": [], "log": [], "reads": []}
    counted: dict[int, Sums] = {}
    for source in sources:
        run = source.record.run
        _, _, _, late_ns, begin_ns, *_ = run_row(source.record, spans.get(run, NO_SPAN))
        parts, counted[run] = folded(source.files, Lines(begin_ns, late_ns))
        found = closer(source.record, parts, first_seen(source.files["state"]), holes[run])
        for table, paths in files.items():
            paths.append(str(narrowed(source.files[table], table, parts[table], found, folder / str(run))))
    sends, log, reads = (read_table(spark, table, paths, tables.small) for table, paths in files.items())
    left_out = _left_out(spark, tables, sends, producers)
    if missing is not None:
        sends = tables.together(sends, reserved(missing.drop("closed"), tables.producers))
    everything = counted_tables(spark, tables, counted)
    return Large(everything, looking_closer(everything, sends, log, reads), left_out)


def counted_tables(spark: SparkSession, tables: Tables, counted: Mapping[int, Sums]) -> Tables:
    """The tables with what was counted as they were folded."""
    seconds = [row for run, sums in counted.items() for row in _rows(run, sums["seconds"], SECONDS)]
    latencies = [
        (run, BASES[basis], *others)
        for run, sums in counted.items()
        for _, basis, *others in _rows(run, sums["latencies"], LATENCIES)
    ]
    whole = all(bool(all_whole(sums["stretches"]).all()) for sums in counted.values() if sums["stretches"])
    stretches = [row for run, sums in counted.items() for row in _rows(run, sums["stretches"], STRETCHES)]
    return replace(
        tables,
        seconds=few_rows(spark, seconds, SECONDS),
        latencies=few_rows(spark, latencies, LATENCIES),
        stretches=few_rows(spark, stretches, STRETCHES) if whole else None,
    )


def _rows(run: int, columns: Columns, schema: T.StructType) -> list[tuple[Any, ...]]:
    names = schema.names[1:]
    size = len(columns[names[0]]) if columns else 0
    made = [columns[name].tolist() if name in columns else [0] * size for name in names] if size else []
    return [(run, *row) for row in zip(*made, strict=True)]


def _holes(sources: Sequence[Source], missing: DataFrame | None) -> dict[int, Any]:
    """The blocks of each run in which numbers were never reported."""
    found: dict[int, list[tuple[int, int]]] = {source.record.run: [] for source in sources}
    if missing is not None:
        block = F.shiftright("seq", BITS).alias("block")
        for run, producer, number in collected(missing.select("run", "producer", block).distinct()):
            found[run].append((producer, number))
    return {run: np.array(blocks, np.int64).reshape(-1, 2) for run, blocks in found.items()}


def _left_out(spark: SparkSession, tables: Tables, kept: DataFrame, producers: Sequence[Producer]) -> DataFrame:
    reported = few_rows(spark, [(each.run, each.reported) for each in producers], _REPORTED)
    return (
        tables.together(reported, kept.select("run", F.lit(-1).cast("long").alias("sends")))
        .groupBy("run")
        .agg(F.sum("sends").alias("sends"))
        .select("run", F.lit("survived").alias("fate"), "sends", F.lit(0).cast("long").alias("extra_copies"))
    )
