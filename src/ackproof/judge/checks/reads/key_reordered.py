"""key_reordered: a group was given a message of a key after a later message of that key.

Within a partition, consumers read in the order of the log. A key that moved to another partition has lost this order:
consumers may read the new partition before they have read the old one to its end.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import VALUE, Tables


def key_reordered(t: Tables) -> DataFrame:
    """A message that a group was first given later than a message sent after it, and how much later."""
    given = t.reads.groupBy(*VALUE, "group").agg(F.min("read_ns").alias("read_ns"))
    keyed = t.sends.filter(F.col("key").isNotNull()).select(*VALUE, "topic", "partition", "key")
    # Ordered from last to first: Spark accumulates the rows before the current one only once, but recomputes the rows
    # after it for each row.
    sent_later = (
        Window.partitionBy("run", "group", "producer", "topic", "key")
        .orderBy(F.desc("seq"))
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return (
        given.join(keyed, on=list(VALUE), how="inner")
        .withColumn("overtaken_ns", F.min("read_ns").over(sent_later))
        .filter(F.col("overtaken_ns") < F.col("read_ns"))
        .withColumn("late_ms", (F.col("read_ns") - F.col("overtaken_ns")) / 1e6)
        .select("run", "group", "topic", "key", "producer", "seq", "partition", "read_ns", "overtaken_ns", "late_ms")
    )
