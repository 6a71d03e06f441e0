"""Aborted read: a consumer was given a value whose send had certainly failed."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.tables import VALUE, Tables


def aborted_read(t: Tables) -> DataFrame:
    """A live read of a value whose outcome is `fail`."""
    failed = t.sends.filter(F.col("outcome") == "fail").select(*VALUE, "error")
    return t.reads.join(failed, on=list(VALUE), how="inner").select(
        "run", "topic", "partition", "offset", "consumer", "producer", "seq", "read_ns", "error"
    )
