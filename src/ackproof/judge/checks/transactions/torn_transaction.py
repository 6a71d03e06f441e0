"""torn_transaction: the healed log holds some messages of a transaction and not others.

The check looks at every transaction, of any outcome: "all or nothing" holds for an unknown outcome too.
Messages that retention removed count as present.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.fates import IN_LOG
from ackproof.judge.frames import VALUE, Tables
from ackproof.judge.transacted import TRANSACTION, transactions_of, values_of


def torn_transaction(t: Tables) -> DataFrame:
    """A transaction with messages in the final log and messages that are not."""
    there = F.col("fate").isin(*IN_LOG, "expired")
    fates = t.fates.select(*VALUE, "topic", "fate")
    return (
        values_of(transactions_of(t.transactions))
        .join(fates, on=list(VALUE), how="inner")
        .groupBy(*TRANSACTION)
        .agg(
            F.min("topic").alias("topic"),
            F.max("outcome").alias("outcome"),
            F.count_if(there).alias("in_log"),
            F.count_if(~there).alias("missing"),
            F.min(F.when(~there, F.col("seq"))).alias("first_missing"),
        )
        .filter((F.col("in_log") > 0) & (F.col("missing") > 0))
        .select(*TRANSACTION, "topic", "outcome", "in_log", "missing", "first_missing")
    )
