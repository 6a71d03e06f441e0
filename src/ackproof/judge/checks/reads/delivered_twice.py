"""Delivered twice: a group was given the same record more than once.

That is what "at least once" allows, after a crash or a rebalance; here it is counted. Two copies of one value at two
offsets are `duplicated`, and no fault of the group.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import POSITION, Tables


def delivered_twice(t: Tables) -> DataFrame:
    """A position that a group's consumers were given more than once, and by how many of them."""
    return (
        t.reads.groupBy(*POSITION, "group")
        .agg(
            F.count("*").alias("times"),
            F.count_distinct("consumer").alias("consumers"),
            F.min("read_ns").alias("first_ns"),
            F.max("read_ns").alias("last_ns"),
        )
        .filter(F.col("times") > 1)
        .select("run", "group", "topic", "partition", "offset", "times", "consumers", "first_ns", "last_ns")
    )
