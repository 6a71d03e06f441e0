"""Realtime order: what is acknowledged later must stand later.

If an acknowledgement for offset 100 came before a send began, that send must not be acknowledged at 100 or below. One
pass over beginnings and acknowledgements in the order of time; an inequality join would be quadratic.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables


def realtime_order(t: Tables) -> DataFrame:
    """A value acked at an offset not above one that was acked before this send began."""
    placed = (F.col("outcome") == "ok") & F.col("offset").isNotNull() & (F.col("partition") >= 0)
    acked = t.sends.filter(placed & F.col("done_ns").isNotNull())
    # At equal times the beginning comes first: an ack at that very moment was not before it.
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
