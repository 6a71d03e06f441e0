"""Two owners: two consumers of one group believe at the same time that a partition is theirs.

Usual where one of them was paused or cut off past its session; both then read, and both may commit.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables
from ackproof.judge.ownership import owned


def dual_ownership(t: Tables) -> DataFrame:
    """Two consumers' times of ownership of one tp that overlap, and from when to when."""
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
