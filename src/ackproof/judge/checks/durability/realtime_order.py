"""realtime_order: a message that was sent after an acknowledgement must stand above the acknowledged offset.

If an acknowledgement for offset 100 came before a send began, that send must not be acknowledged at 100 or below. One
pass over the begins and the acknowledgements, in the order of time, finds this; an inequality join would be quadratic.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables


def realtime_order(t: Tables) -> DataFrame:
    """A message acknowledged at or below an offset that was acknowledged before its send began."""
    placed = (F.col("outcome") == "ok") & F.col("offset").isNotNull() & (F.col("partition") >= 0)
    acked = t.sends.filter(placed & F.col("done_ns").isNotNull())
    # At equal times the begin comes first: an acknowledgement at the same moment did not come before it.
    columns = [*TP, "producer", "seq", "offset"]
    none = F.lit(None).cast("long")
    begun = acked.select(*columns, F.col("sent_ns").alias("at_ns"), F.lit(0).alias("kind"), none.alias("acked"))
    ended = acked.select(
        *columns, F.col("done_ns").alias("at_ns"), F.lit(1).alias("kind"), F.col("offset").alias("acked")
    )
    before = Window.partitionBy(*TP).orderBy("at_ns", "kind").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        t.union(begun, ended)
        .withColumn("acked_before", F.max("acked").over(before))
        .filter((F.col("kind") == 0) & (F.col("offset") <= F.col("acked_before")))
        .select(
            "run",
            "topic",
            "partition",
            "offset",
            "producer",
            "seq",
            F.col("at_ns").alias("sent_ns"),
            "acked_before",
        )
    )
