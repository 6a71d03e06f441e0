"""Duplicated: one value, more than one place in the final log. Legal with retries, but somebody has to know."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import VALUE, Tables


def duplicated(t: Tables) -> DataFrame:
    """A value at more than one (tp, offset) of the final log, or in two partitions. Named is its first place, by topic
    and partition, and the offset of its last."""
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
