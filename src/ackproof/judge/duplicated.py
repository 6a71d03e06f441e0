"""Duplicated: one value, more than one place in the final log. Legal with retries, but somebody has to know."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.tables import VALUE, Tables


def duplicated(t: Tables) -> DataFrame:
    """A value at more than one (tp, offset) of the final log, or in two partitions."""
    return (
        t.arrivals.groupBy(*VALUE)
        .agg(
            F.sum("copies").alias("copies"),
            F.count("*").alias("partitions"),
            F.min("topic").alias("topic"),
            F.min("partition").alias("partition"),
            F.min("first_offset").alias("first_offset"),
            F.max("last_offset").alias("last_offset"),
        )
        .filter(F.col("copies") > 1)
        .select("run", "topic", "partition", "first_offset", "last_offset", "producer", "seq", "copies", "partitions")
    )
