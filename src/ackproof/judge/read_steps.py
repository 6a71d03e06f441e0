"""How each consumer moved: for each record, the record read before it under the same assignment of the partition.

Steps to the very next offset are left out, so few rows remain. Both checks of steps start from them.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables


def odd_steps(t: Tables) -> DataFrame:
    """Reads whose offset is not one above the offset read before, under the same assignment."""
    if t.steps is not None:
        return t.steps
    in_order_read = Window.partitionBy("run", "consumer", "assignment", "topic", "partition").orderBy(
        "poll", "read_ns", "offset"
    )
    return (
        t.reads.withColumn("previous_offset", F.lag("offset").over(in_order_read))
        .filter(F.col("offset") != F.col("previous_offset") + 1)
        .select(
            "run",
            "consumer",
            "assignment",
            "topic",
            "partition",
            "previous_offset",
            "offset",
            "producer",
            "seq",
            "read_ns",
            "poll",
        )
    )
