"""dual_ownership: two consumers of one group believe at the same time that they own a partition.

This is usual after one of them was paused or cut off for longer than its session timeout. Both then read the partition,
and both may commit.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables
from ackproof.judge.ownership import owned


def dual_ownership(t: Tables) -> DataFrame:
    """Two consumers of a group whose times of ownership of a partition overlap, and when they do."""
    times = owned(t)
    one = times.select(*TP, "group", *(F.col(name).alias(f"one_{name}") for name in ("consumer", "from_ns", "to_ns")))
    other = times.select(
        *TP, "group", *(F.col(name).alias(f"other_{name}") for name in ("consumer", "from_ns", "to_ns"))
    )
    begin, end = F.greatest("one_from_ns", "other_from_ns"), F.least("one_to_ns", "other_to_ns")
    return (
        one.join(other, on=[*TP, "group"], how="inner")
        .filter((F.col("one_consumer") < F.col("other_consumer")) & (begin < end))
        .withColumn("from_ns", begin)
        .withColumn("to_ns", end)
        .select("run", "group", "topic", "partition", "one_consumer", "other_consumer", "from_ns", "to_ns")
    )
