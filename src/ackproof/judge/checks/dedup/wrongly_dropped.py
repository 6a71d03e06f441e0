"""wrongly_dropped: a message of the healed log that a receiver never accepted.

The receiver took it for a copy each time, or never read it, as after a crash that moved its offset but not its work. An
application that must act on each message fails in both cases.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import VALUE, Tables


def wrongly_dropped(t: Tables) -> DataFrame:
    """A message of the healed log that a receiver of its topic never accepted, and how often it was dropped.

    The row names its first place. A message that stands in several partitions is one witness.
    """
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
