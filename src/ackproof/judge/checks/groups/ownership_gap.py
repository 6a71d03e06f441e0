"""ownership_gap: a period in which no consumer of a group owned a partition of the group's topic.

Every rebalance has such a gap, however short. Its length is the time in which the group did not read the partition. A
partition that the group never owned was without an owner during the whole load.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables
from ackproof.judge.ownership import owned


def ownership_gap(t: Tables) -> DataFrame:
    """During the load, a gap between two periods of ownership, or between the last one and the end of the load."""
    in_order = Window.partitionBy(*TP, "group").orderBy("from_ns", "to_ns")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    load = t.runs.select("run", "begin_ns", "end_ns")
    owners = owned(t)
    told = ("run", "group", "topic", "partition", "from_ns", "to_ns")
    gaps = (
        owners.withColumn("until_ns", F.max("to_ns").over(so_far))
        .withColumn("next_ns", F.lead("from_ns").over(in_order))
        .join(t.small_side(load), on=["run"], how="left")
        # Before the load the consumers are still joining, and after it they leave.
        .withColumn("from_ns", F.greatest("until_ns", "begin_ns"))
        .withColumn("to_ns", F.least(F.coalesce("next_ns", "end_ns"), "end_ns"))
        .filter(F.col("to_ns") > F.col("from_ns"))
        .select(*told)
    )
    never = (
        t.ends.select(*TP)
        .join(t.small_side(t.consumers.select("run", "topic", "group").distinct()), on=["run", "topic"], how="inner")
        .join(owners, on=[*TP, "group"], how="left_anti")
        .join(t.small_side(load), on=["run"], how="inner")
        .filter(F.col("end_ns") > F.col("begin_ns"))
        .select(
            "run", "group", "topic", "partition", F.col("begin_ns").alias("from_ns"), F.col("end_ns").alias("to_ns")
        )
    )
    return t.union(gaps, never).withColumn("gap_ns", F.col("to_ns") - F.col("from_ns"))
