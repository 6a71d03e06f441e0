"""Shares: how a group shared its topic: what each member read, of how many partitions."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.tables import Tables


def shares(t: Tables) -> DataFrame:
    """One row for each member of each group that read anything."""
    of_group = Window.partitionBy("run", "group")
    return (
        t.reads.groupBy("run", "group", "consumer")
        .agg(
            F.count(F.lit(1)).alias("read"),
            F.count_distinct(F.struct("topic", "partition")).alias("partitions"),
        )
        .withColumn("share", F.col("read") / F.sum("read").over(of_group))
        .select("run", "group", "consumer", "read", "partitions", "share")
    )
