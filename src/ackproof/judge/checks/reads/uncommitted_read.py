"""uncommitted_read: a consumer with `read_committed` was given a message of an uncommitted transaction.

The transaction was aborted, or its producer had not yet asked for the commit, or never did. Between the request and its
answer the state is unknown, and a transaction of unknown outcome may have been committed: neither is a witness.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import READ_COMMITTED, VALUE, Tables
from ackproof.judge.transacted import transactions_of, values_of


def uncommitted_read(t: Tables) -> DataFrame:
    """A live read, by a `read_committed` consumer, of a message whose transaction was not committed at that moment."""
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
