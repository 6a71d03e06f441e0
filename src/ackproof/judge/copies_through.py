"""Copies through: a receiver took a message for new that it had taken before."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.tables import Tables


def copies_through(t: Tables) -> DataFrame:
    """A value that one receiver accepted more than once, at the same place or at another."""
    return (
        t.received.filter(F.col("accepted") & (F.col("producer") >= 0))
        .groupBy("run", "consumer", "producer", "seq")
        .agg(
            F.count("*").alias("times"),
            F.min("topic").alias("topic"),
            F.min("partition").alias("partition"),
            F.min("offset").alias("first_offset"),
            F.max("offset").alias("last_offset"),
        )
        .filter(F.col("times") > 1)
        .select("run", "consumer", "topic", "partition", "first_offset", "last_offset", "producer", "seq", "times")
    )
