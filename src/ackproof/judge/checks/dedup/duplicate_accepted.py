"""duplicate_accepted: a receiver accepted a message as new that it had accepted before."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables


def duplicate_accepted(t: Tables) -> DataFrame:
    """A message that one receiver accepted more than once, at one place or at several.

    The row names the first place, by topic and partition, and the offset of the last one.
    """
    place = F.struct("topic", "partition", "offset")
    return (
        t.received.filter(F.col("accepted") & (F.col("producer") >= 0))
        .groupBy("run", "consumer", "producer", "seq")
        .agg(
            F.count("*").alias("times"),
            F.min(place).alias("first"),
            F.max(place).alias("last"),
        )
        .filter(F.col("times") > 1)
        .select(
            "run",
            "consumer",
            "first.topic",
            "first.partition",
            F.col("first.offset").alias("first_offset"),
            F.col("last.offset").alias("last_offset"),
            "producer",
            "seq",
            "times",
        )
    )
