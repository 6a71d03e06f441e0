"""Hung: readers of committed messages were held up at one place for longer than any transaction may last.

The evidence is the last stable offset, by each leader's own word: below the high watermark, a transaction is open
there. It may stand for as long as the time-out of a transaction, and for as long again as brokers take to look for
those that have run out.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables
from ackproof.judge.transacted import transactions_of, values_of

LOOK_MS = 10_000  # transaction.abort.timed.out.transaction.cleanup.interval.ms, as Kafka has it


def hanging_transaction(t: Tables) -> DataFrame:
    """A time in which the last stable offset of a tp did not move, and did not reach the high watermark."""
    transactions = transactions_of(t.transactions)
    limits = transactions.groupBy("run").agg((F.max("timeout_ms") + LOOK_MS).alias("limit_ms"))
    writers = (
        t.sends.join(values_of(transactions).drop("outcome"), on=["run", "producer", "seq"], how="inner")
        .select(*TP, F.col("offset").alias("last_stable"), "producer", "transaction")
        .distinct()  # of two messages that were told to stand at one offset
    )
    told = Window.partitionBy(*TP).orderBy("at_ns")
    held = F.when(F.col("last_stable") < F.col("high_watermark"), F.col("last_stable"))
    moved = ~F.col("held").eqNullSafe(F.lag("held").over(told))
    return (
        t.stable.withColumn("held", held)
        .withColumn("moved", moved.cast("int"))
        .withColumn("stretch", F.sum("moved").over(told))  # an offset that falls back later did not stand all the time
        .filter(F.col("held").isNotNull())
        .groupBy(*TP, "last_stable", "stretch")
        .agg(F.min("at_ns").alias("from_ns"), F.max("at_ns").alias("to_ns"))
        .join(t.small_side(limits), on=["run"], how="inner")
        .withColumn("ms", (F.col("to_ns") - F.col("from_ns")) / 1e6)
        .filter(F.col("ms") > F.col("limit_ms"))
        .join(writers, on=[*TP, "last_stable"], how="left")
        .select(*TP, "last_stable", "producer", "transaction", "from_ns", "to_ns", "ms", "limit_ms")
    )
