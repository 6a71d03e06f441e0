"""Transactions as the producers reported them, and the messages of each.

A transaction whose producer died before it ended it never asked for a commit: no reader may be given any of it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

TRANSACTION = ("run", "producer", "transaction")
OUTCOMES = ("committed", "aborted", "unknown")


def transactions_of(events: DataFrame) -> DataFrame:
    """Each transaction with its outcome (null if none was reported), its numbers, and when it asked to commit."""
    outcome = F.max(F.when(F.col("event").isin(*OUTCOMES), F.col("event")))
    asked = F.min(F.when(F.col("event") == "committing", F.col("at_ns")))
    return events.groupBy(*TRANSACTION).agg(
        outcome.alias("outcome"),
        asked.alias("commit_asked_ns"),
        F.min("first_seq").alias("first_seq"),
        # The first event says which numbers the transaction reserved; a later one, which of them it used.
        F.max_by("last_seq", "at_ns").alias("last_seq"),
        F.max("timeout_ms").alias("timeout_ms"),
    )


def values_of(transactions: DataFrame) -> DataFrame:
    """Every message of every transaction."""
    return transactions.filter(F.col("last_seq") >= F.col("first_seq")).select(
        *TRANSACTION, "outcome", "commit_asked_ns", F.explode(F.sequence("first_seq", "last_seq")).alias("seq")
    )


def uncommitted(events: DataFrame) -> DataFrame:
    """Messages of transactions that are not known to be committed; only `read_uncommitted` may return them."""
    committed = F.coalesce(F.col("outcome") == "committed", F.lit(False))
    return values_of(transactions_of(events)).filter(~committed).select("run", "producer", "seq")
