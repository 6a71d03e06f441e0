"""Phantom: a value that no producer of this run reserved. It came from elsewhere, or was damaged on the way."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import POSITION, Tables


def phantom(t: Tables) -> DataFrame:
    """A record, in the final log or given to a consumer, whose value is none of the numbers reserved."""
    columns = [*POSITION, "producer", "seq"]
    logged = t.log.select(*columns, F.lit("log").alias("by"))
    read = t.reads.select(*columns, F.lit("read").alias("by"))
    return (
        t.unreserved(t.union(logged, read))
        .distinct()  # a record that many consumers read is one witness
        .select("run", "by", "topic", "partition", "offset", "producer", "seq")
    )
