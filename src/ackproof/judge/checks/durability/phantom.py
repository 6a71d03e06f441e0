"""phantom: a record with a number that no producer of this run reserved. A stranger wrote it, or it was damaged."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import POSITION, Tables


def phantom(t: Tables) -> DataFrame:
    """A record, in the final log or read by a consumer, whose message number no producer reserved."""
    columns = [*POSITION, "producer", "seq"]
    logged = t.log.select(*columns, F.lit("log").alias("by"))
    read = t.reads.select(*columns, F.lit("read").alias("by"))
    return (
        t.unreserved(t.union(logged, read))
        .distinct()  # a record that several consumers read is one witness
        .select("run", "by", "topic", "partition", "offset", "producer", "seq")
    )
