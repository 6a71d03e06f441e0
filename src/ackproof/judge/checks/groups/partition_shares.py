"""partition_shares: how much each member of a group read, and from how many partitions; idle members are rows too."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables


def partition_shares(t: Tables) -> DataFrame:
    """One row for each member; `wrong` if another number of its group's members read than the scenario expects."""
    of_group = Window.partitionBy("run", "group")
    read = t.given if t.given is not None else _given(t)
    members = t.consumers.select("run", "group", "consumer", "readers")
    return (
        members.join(read, on=["run", "consumer"], how="left")
        .fillna(0, ["read", "partitions"])
        .withColumn("share", F.try_divide("read", F.sum("read").over(of_group)))
        .withColumn("reading", F.count_if(F.col("read") > 0).over(of_group))
        .withColumn("wrong", F.coalesce(F.col("reading") != F.col("readers"), F.lit(False)))
        .select("run", "group", "consumer", "read", "partitions", "share", "reading", "readers", "wrong")
    )


def _given(t: Tables) -> DataFrame:
    return t.reads.groupBy("run", "consumer").agg(
        F.count("*").alias("read"), F.count_distinct(F.struct("topic", "partition")).alias("partitions")
    )
