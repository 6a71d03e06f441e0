"""watermark_regression: a new leader's high watermark is below one that an older leader had already shown."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables


def watermark_regression(t: Tables) -> DataFrame:
    """A high watermark of a partition that fell as the leader epoch grew. The final log gives the last one."""
    leads = (F.col("leader") == F.col("broker")) & F.col("high_watermark").isNotNull()
    columns = [*TP, "leader_epoch", "high_watermark", "at_ns"]
    shown = t.union(t.state.filter(leads).select(*columns), t.ends.select(*columns))
    older = Window.partitionBy(*TP).orderBy("leader_epoch").rowsBetween(Window.unboundedPreceding, -1)
    return (
        shown.filter(F.col("leader_epoch").isNotNull())
        .groupBy(*TP, "leader_epoch")
        .agg(
            F.min("high_watermark").alias("low"),
            F.max("high_watermark").alias("high"),
            F.min("at_ns").alias("at_ns"),
        )
        .withColumn("before", F.max("high").over(older))
        .filter(F.col("low") < F.col("before"))
        .withColumn("fell_by", F.col("before") - F.col("low"))
        .select("run", "topic", "partition", "leader_epoch", "at_ns", "before", F.col("low").alias("after"), "fell_by")
    )
