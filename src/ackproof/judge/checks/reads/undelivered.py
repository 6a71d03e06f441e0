"""undelivered: a record of the healed log that a group should have read, and never did.

In each partition a group begins where its first consumer was positioned, and should read to the end of the log. If no
consumer of the group was ever assigned the partition, a group that reads from the earliest offset begins with the log.
For a group that reads from the latest offset, the starting offset is unknown; `ownership_gap` reports such a case.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables


def undelivered(t: Tables) -> DataFrame:
    """A message of the healed log, at or past the offset where a group began, that the group was never given."""
    begins = (
        # A consumer may fail to learn its position; the next consumer that learns one says where the group began.
        t.groups.filter((F.col("event") == "assigned") & F.col("position").isNotNull())
        .groupBy(*TP, "group")
        .agg(F.min_by("position", "at_ns").alias("placed"))
    )
    from_earliest = t.consumers.filter(F.col("start") == "earliest").select("run", "topic", "group").distinct()
    whole = t.ends.select(*TP).join(t.small_side(from_earliest), on=["run", "topic"], how="inner")
    begins = whole.join(begins, on=[*TP, "group"], how="full").select(
        *TP, "group", F.coalesce("placed", F.lit(0)).alias("begins")
    )
    given = t.reads.select("run", "group", "producer", "seq").distinct()
    ours = t.log.filter((F.col("producer") >= 0) & (F.col("seq") >= 0))
    return (
        ours.join(t.small_side(begins), on=list(TP), how="inner")
        .filter(F.col("offset") >= F.col("begins"))
        .join(given, on=["run", "group", "producer", "seq"], how="left_anti")
        .select("run", "group", "topic", "partition", "offset", "producer", "seq")
    )
