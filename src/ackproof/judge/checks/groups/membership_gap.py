"""membership_gap: a broker was known as a member of the cluster, and then was not for a while.

ZooKeeper's registrations are one source; the metadata of each broker is another. The time between two sources is how
long the other brokers went on believing in the member.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables


def membership_gap(t: Tables) -> DataFrame:
    """Consecutive answers of one source without a broker that an earlier answer of this source had listed."""
    known = t.members.select("run", F.explode("brokers").alias("broker")).distinct()
    by_time = Window.partitionBy("run", "source", "broker").orderBy("at_ns")
    # Ordered from last to first, so that Spark accumulates the later rows only once.
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
