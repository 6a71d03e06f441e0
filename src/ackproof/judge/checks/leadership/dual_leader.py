"""dual_leader: two brokers, each asked directly, claim to lead the same partition at the same time.

A claim lasts from the first to the last of consecutive answers that make it, in one leader epoch. Its start is moved
later by the time that the first answer took, so that two answers which crossed on their way do not overlap.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables


def dual_leader(t: Tables) -> DataFrame:
    """Two brokers' claims to one partition that overlap, and the least time for which they do."""
    claims = _claims(t)
    one = claims.select(*TP, *(F.col(name).alias(f"one_{name}") for name in ("broker", "epoch", "from_ns", "to_ns")))
    other = claims.select(
        *TP, *(F.col(name).alias(f"other_{name}") for name in ("broker", "epoch", "from_ns", "to_ns"))
    )
    begin = F.greatest("one_from_ns", "other_from_ns")
    end = F.least("one_to_ns", "other_to_ns")
    return (
        one.join(other, on=list(TP), how="inner")
        .filter((F.col("one_broker") < F.col("other_broker")) & (begin <= end))
        .withColumn("from_ns", begin)
        .withColumn("to_ns", end)
        .select(
            "run", "topic", "partition", "from_ns", "to_ns", "one_broker", "one_epoch", "other_broker", "other_epoch"
        )
    )


def _claims(t: Tables) -> DataFrame:
    by_time = Window.partitionBy(*TP, "broker").orderBy("at_ns")
    so_far = by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    claim = F.coalesce(F.col("leader") == F.col("broker"), F.lit(False)) & F.col("error").isNull()
    claimed_epoch = F.when(claim, F.coalesce(F.col("leader_epoch"), F.lit(-1)))
    return (
        t.state.withColumn("epoch", claimed_epoch)
        .withColumn("changed", ~F.col("epoch").eqNullSafe(F.lag("epoch").over(by_time)))
        .withColumn("stretch", F.sum(F.col("changed").cast("int")).over(so_far))
        .filter(F.col("epoch").isNotNull())
        .groupBy(*TP, "broker", "epoch", "stretch")
        .agg(
            F.min(F.col("at_ns") + F.col("took_ns")).alias("from_ns"),
            F.max("at_ns").alias("to_ns"),
        )
        .select(*TP, "broker", "epoch", "from_ns", "to_ns")
    )
