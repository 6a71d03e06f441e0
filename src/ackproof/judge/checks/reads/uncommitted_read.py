"""Uncommitted read: who asked for committed messages only was given one of a transaction that was not.

It was aborted, or its producer had not yet asked for the commit, or never did. Between the question and its answer
nobody can say, and a transaction of unknown outcome may have been committed.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import READ_COMMITTED, VALUE, Tables
from ackproof.judge.transacted import transactions_of, values_of


def uncommitted_read(t: Tables) -> DataFrame:
    """A live read by a consumer with read_committed of a value whose transaction was not committed at that moment."""
    committed_only = t.consumers.filter(F.col("isolation") == READ_COMMITTED).select("run", "consumer")
    aborted = F.col("outcome") == "aborted"
    early = F.col("commit_asked_ns").isNull() | (F.col("read_ns") < F.col("commit_asked_ns"))
    return (
        t.reads.join(t.small_side(committed_only), on=["run", "consumer"], how="left_semi")
        .join(values_of(transactions_of(t.transactions)), on=list(VALUE), how="inner")
        .filter(F.coalesce(aborted, F.lit(False)) | early)
        .select(
            "run",
            "topic",
            "partition",
            "offset",
            "consumer",
            "producer",
            "seq",
            "transaction",
            "outcome",
            "read_ns",
            "commit_asked_ns",
        )
    )
