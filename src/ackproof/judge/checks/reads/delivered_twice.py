"""delivered_twice: a group was given the same record more than once.

"At least once" allows that, after a crash or a rebalance; this check counts it. Two copies of one message at two
offsets are `duplicated`: the group did nothing wrong there.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import POSITION, Tables


def delivered_twice(t: Tables) -> DataFrame:
    """An offset that the consumers of a group were given more than once, and how many consumers it was given to."""
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
