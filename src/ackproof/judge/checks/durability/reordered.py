"""reordered: messages of one producer stand in a partition in another order than it sent them.

Only the first copy of a message counts. A copy that a retry appended later is a duplicate, and no step back.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables


def reordered(t: Tables) -> DataFrame:
    """A message whose first copy is not above that of the message sent just before it to the same partition."""
    in_order_sent = Window.partitionBy("run", "producer", "topic", "partition").orderBy("seq")
    return (
        t.reserved(t.arrivals)
        .withColumn("previous_seq", F.lag("seq").over(in_order_sent))
        .withColumn("previous_offset", F.lag("first_offset").over(in_order_sent))
        .filter(F.col("first_offset") <= F.col("previous_offset"))
        .select(
            "run",
            "topic",
            "partition",
            "producer",
            "seq",
            F.col("first_offset").alias("offset"),
            "previous_seq",
            "previous_offset",
        )
    )
