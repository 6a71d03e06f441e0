"""Transactions as the producers told of them: one row each, and the values that belong to each.

One that was only begun, by a producer that did not live to end it, never asked for a commit: nothing of it may be seen.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

TRANSACTION = ("run", "producer", "transaction")
OUTCOMES = ("committed", "aborted", "unknown")


def transactions_of(events: DataFrame) -> DataFrame:
    """Each with its outcome (null where none was told), its numbers, and when it asked for its commit."""
    outcome = F.max(F.when(F.col("event").isin(*OUTCOMES), F.col("event")))
    asked = F.min(F.when(F.col("event") == "committing", F.col("at_ns")))
    return events.groupBy(*TRANSACTION).agg(
        outcome.alias("outcome"),
        asked.alias("commit_asked_ns"),
        F.min("first_seq").alias("first_seq"),
        # Begun, it says what it reserved; later, what it used of it.
        F.max_by("last_seq", "at_ns").alias("last_seq"),
        F.max("timeout_ms").alias("timeout_ms"),
    )


def values_of(transactions: DataFrame) -> DataFrame:
    """Every value of every transaction."""
    return transactions.filter(F.col("last_seq") >= F.col("first_seq")).select(
        *TRANSACTION, "outcome", "commit_asked_ns", F.explode(F.sequence("first_seq", "last_seq")).alias("seq")
    )


def uncommitted(events: DataFrame) -> DataFrame:
    """The values of transactions that nobody knows to be committed: only who asks for them may be given them."""
    committed = F.coalesce(F.col("outcome") == "committed", F.lit(False))
    return values_of(transactions_of(events)).filter(~committed).select("run", "producer", "seq")
