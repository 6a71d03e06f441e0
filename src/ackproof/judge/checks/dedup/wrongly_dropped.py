"""Wrongly dropped: a message of the healed log that a receiver never took.

It took it for a copy each time that it came; or it never came to it at all, as after a crash that moved its place but
not its work. Whoever is to do something for each message cares for neither excuse.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import VALUE, Tables


def wrongly_dropped(t: Tables) -> DataFrame:
    """A value of the healed log that a receiver of its topic never accepted, where it stands first, and how often it
    was dropped: one witness, in however many partitions it is."""
    met = t.received.groupBy(*VALUE, "consumer").agg(
        F.max(F.col("accepted").cast("int")).alias("accepted"), F.count("*").alias("dropped")
    )
    first = F.min(F.struct("partition", F.col("first_offset").alias("offset")))
    to_take = (
        t.arrivals.join(t.small_side(t.receivers), on=["run", "topic"], how="inner")
        .groupBy(*VALUE, "consumer", "topic")
        .agg(first.alias("first"))
        .select(*VALUE, "consumer", "topic", "first.partition", "first.offset")
    )
    never = F.coalesce(F.col("accepted"), F.lit(0)) == 0
    return (
        to_take.join(met, on=[*VALUE, "consumer"], how="left")
        .filter(never)
        .withColumn("dropped", F.coalesce(F.col("dropped"), F.lit(0)))
        .select("run", "consumer", "topic", "partition", "offset", "producer", "seq", "dropped")
    )
