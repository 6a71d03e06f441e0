"""duplicated: a message at more than one place of the healed log. Retries may cause that; the user has to know it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import VALUE, Tables


def duplicated(t: Tables) -> DataFrame:
    """A message at more than one (topic, partition, offset) of the final log.

    The row names the first place, by topic and partition, and the offset of the last one.
    """
    return (
        t.arrivals.groupBy(*VALUE)
        .agg(
            F.sum("copies").alias("copies"),
            F.count("*").alias("partitions"),
            F.min(F.struct("topic", "partition", "first_offset")).alias("first"),
            F.max(F.struct("topic", "partition", "last_offset")).alias("last"),
        )
        .filter(F.col("copies") > 1)
        .select("run", "first.*", "last.last_offset", "producer", "seq", "copies", "partitions")
    )
