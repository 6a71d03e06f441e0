"""rebalances: how often each group rebalanced, and how long its partitions had no owner.

The members learn of one rebalance one after the other, and an eager rebalance is a revocation and an assignment. So
every event within a second of the last event belongs to the same rebalance. The initial assignment is not counted.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.checks.groups.ownership_gap import ownership_gap
from ackproof.judge.frames import Tables

TOGETHER_NS = 1_000_000_000


def rebalances(t: Tables) -> DataFrame:
    """One row for each group: its rebalances during the load, and its partition-seconds without an owner."""
    in_order = Window.partitionBy("run", "group").orderBy("at_ns")
    begins = F.col("at_ns") - F.lag("at_ns").over(in_order) > TOGETHER_NS
    load = t.runs.select("run", "begin_ns", "end_ns")
    counted = (
        t.groups.withColumn("begins", F.coalesce(begins, F.lit(False)))
        .join(t.small_side(load), on=["run"], how="left")
        .withColumn("within", F.col("at_ns").between(F.col("begin_ns"), F.col("end_ns")))
        .groupBy("run", "group")
        .agg(F.count_if(F.col("begins") & F.col("within")).alias("rebalances"))
    )
    idle = ownership_gap(t).groupBy("run", "group").agg((F.sum("gap_ns") / 1e9).alias("unowned_partition_s"))
    return (
        counted.join(idle, on=["run", "group"], how="left")
        .fillna(0.0, ["unowned_partition_s"])
        .withColumn("disturbed", F.col("rebalances") > 0)
        .select("run", "group", "rebalances", "unowned_partition_s", "disturbed")
    )
