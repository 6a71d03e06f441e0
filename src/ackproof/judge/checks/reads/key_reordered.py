"""Key overtaken: a group was given a message of a key before an earlier message of that key.

Within a partition the order of the log is the order of the readers. A key that moved to another partition has lost
that: the new partition may be read before the old one has been read to its end.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import VALUE, Tables


def key_reordered(t: Tables) -> DataFrame:
    """A message that was first given to a group later than one sent after it, and how much later."""
    given = t.reads.groupBy(*VALUE, "group").agg(F.min("read_ns").alias("read_ns"))
    keyed = t.sends.filter(F.col("key").isNotNull()).select(*VALUE, "topic", "partition", "key")
    # From the last to the first: what lies behind a row is added up once, what lies ahead of it for each row anew.
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
