"""When each consumer owned which partition, by the consumer's own report of assignments and revocations.

A consumer that was killed reports no revocation: it owned its partitions until the lab saw it end. A consumer that was
only paused still believes that it owns them, and that is the point.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables


def owned(t: Tables) -> DataFrame:
    """run, from_ns, to_ns, group, topic, partition, consumer: one unbroken period of ownership.

    Sorted by its columns from left to right, the earliest periods of each run come first.
    """
    by_time = Window.partitionBy(*TP, "group", "consumer").orderBy("at_ns")
    given = F.col("event") == "assigned"
    return (
        t.groups.withColumn("next_ns", F.lead("at_ns").over(by_time))
        .filter(given)
        .join(t.small_side(t.lives), on=["run", "consumer"], how="left")
        .withColumn("gone_ns", _first_after("gone", "at_ns"))
        .join(t.small_side(t.runs.select("run", "end_ns")), on=["run"], how="left")
        .withColumn("to_ns", F.least("next_ns", "gone_ns", F.when(F.col("next_ns").isNull(), F.col("end_ns"))))
        .filter(F.col("to_ns") > F.col("at_ns"))
        .select("run", F.col("at_ns").alias("from_ns"), "to_ns", "group", "topic", "partition", "consumer")
    )


def _first_after(times: str, at: str) -> Column:
    return F.array_min(F.filter(times, lambda each: each > F.col(at)))
