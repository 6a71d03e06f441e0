"""Vanished: a broker that was known as a member of the cluster, was not for a while, and who noticed that when.

ZooKeeper's own registrations are one source, each broker's metadata another: the time between them is how long the
others went on believing in it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables


def membership_gap(t: Tables) -> DataFrame:
    """A stretch of answers of one source that did not name a broker which an earlier answer of it had named."""
    known = t.members.select("run", F.explode("brokers").alias("broker")).distinct()
    by_time = Window.partitionBy("run", "source", "broker").orderBy("at_ns")
    # From the last to the first, so that what comes later is added up once.
    later = (
        Window.partitionBy("run", "source", "broker")
        .orderBy(F.desc("at_ns"))
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return (
        t.members.join(t.small_side(known), on=["run"], how="inner")
        .withColumn("named", F.array_contains("brokers", F.col("broker")))
        .withColumn("before", F.lag("named").over(by_time))
        .withColumn("next_named_ns", F.min(F.when(F.col("named"), F.col("at_ns"))).over(later))
        .filter(~F.col("named") & F.col("before"))
        .select("run", "source", "broker", F.col("at_ns").alias("from_ns"), F.col("next_named_ns").alias("to_ns"))
    )
