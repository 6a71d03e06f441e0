"""ack_latency: how long acknowledgements took, from when the send was due and from when it was made.

The two differ by coordinated omission: a blocked client sends later, and each send then looks quick. Latencies are
rounded to 7 significant bits of their microseconds (an error below one percent). So a histogram of a few thousand bins
gives the same percentiles for every order of the rows. The maximum is exact.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.engine.sums import BASES, SIGNIFICANT_BITS
from ackproof.judge.frames import Tables

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}


def ack_latency(t: Tables) -> DataFrame:
    """Percentiles of both latencies over the acknowledged sends, and how many were above the scenario's line."""
    acked = t.sends.filter((F.col("outcome") == "ok") & F.col("done_ns").isNotNull())
    bins = t.latencies
    if bins is None:
        bins = t.union(*(_bins(t, acked, basis) for basis in BASES))
    up_to = Window.partitionBy("run", "basis").orderBy("us").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    all_of = Window.partitionBy("run", "basis").rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    ranked = bins.withColumn("up_to", F.sum("sends").over(up_to)).withColumn("all", F.sum("sends").over(all_of))
    percentiles = [
        (F.min(F.when(F.col("up_to") >= F.ceil(F.col("all") * share), F.col("us"))) / 1000).alias(f"{name}_ms")
        for name, share in PERCENTILES.items()
    ]
    return (
        ranked.groupBy("run", "basis")
        .agg(
            F.sum("sends").alias("sends"),
            *percentiles,
            (F.max("max_ns") / 1e6).alias("max_ms"),
            F.sum("late").alias("late"),
        )
        .select("run", "basis", "sends", *(f"{name}_ms" for name in PERCENTILES), "max_ms", "late")
    )


def _bins(t: Tables, acked: DataFrame, basis: str) -> DataFrame:
    """How many acknowledgements took how long, counted from this moment."""
    took = F.greatest(F.col("done_ns") - F.col(f"{basis}_ns"), F.lit(0))
    return (
        acked.select("run", took.alias("took_ns"))
        .join(t.small_side(t.runs.select("run", "late_ns")), on=["run"], how="inner")
        .groupBy("run", _bin("took_ns div 1000").alias("us"))
        .agg(
            F.count("*").alias("sends"),
            F.max("took_ns").alias("max_ns"),
            F.sum((F.col("took_ns") > F.col("late_ns")).cast("long")).alias("late"),
        )
        .select("run", F.lit(basis).alias("basis"), "us", "sends", "max_ns", "late")
    )


def _bin(us: str) -> Column:
    """The highest bits of a latency. The extra half microsecond keeps powers of two away from errors of log2."""
    shift = f"greatest(cast(floor(log2({us} + 0.5D)) as int) - {SIGNIFICANT_BITS - 1}, 0)"
    return F.expr(f"shiftleft(shiftright({us}, {shift}), {shift})")
