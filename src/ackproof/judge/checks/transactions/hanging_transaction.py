"""hanging_transaction: an open transaction held up readers of committed messages for longer than it may last.

The evidence is the last stable offset, as each leader reports it. While it is below the high watermark, a transaction
is open there. It may stand still for as long as the transaction's timeout, plus the interval at which brokers look for
transactions that timed out.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables
from ackproof.judge.transacted import transactions_of, values_of

LOOK_MS = 10_000  # transaction.abort.timed.out.transaction.cleanup.interval.ms, Kafka's default


def hanging_transaction(t: Tables) -> DataFrame:
    """A period in which the last stable offset of a partition did not move, below the high watermark."""
    transactions = transactions_of(t.transactions)
    limits = transactions.groupBy("run").agg((F.max("timeout_ms") + LOOK_MS).alias("limit_ms"))
    writers = (
        t.sends.join(values_of(transactions).drop("outcome"), on=["run", "producer", "seq"], how="inner")
        .select(*TP, F.col("offset").alias("last_stable"), "producer", "transaction")
        .distinct()  # two messages may have been acknowledged at one offset
    )
    told = Window.partitionBy(*TP).orderBy("at_ns")
    held = F.when(F.col("last_stable") < F.col("high_watermark"), F.col("last_stable"))
    moved = ~F.col("held").eqNullSafe(F.lag("held").over(told))
    return (
        t.stable.withColumn("held", held)
        .withColumn("moved", moved.cast("int"))
        .withColumn("stretch", F.sum("moved").over(told))  # an offset that comes back later did not stand still
        .filter(F.col("held").isNotNull())
        .groupBy(*TP, "last_stable", "stretch")
        .agg(F.min("at_ns").alias("from_ns"), F.max("at_ns").alias("to_ns"))
        .join(t.small_side(limits), on=["run"], how="inner")
        .withColumn("ms", (F.col("to_ns") - F.col("from_ns")) / 1e6)
        .filter(F.col("ms") > F.col("limit_ms"))
        .join(writers, on=[*TP, "last_stable"], how="left")
        .select(*TP, "last_stable", "producer", "transaction", "from_ns", "to_ns", "ms", "limit_ms")
    )
