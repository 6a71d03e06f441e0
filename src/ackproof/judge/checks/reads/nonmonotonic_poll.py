"""nonmonotonic_poll: a consumer was given, under one assignment, an offset at or below the one before.

After a rebalance Kafka rightly delivers some records again. That is another assignment, and no witness.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables
from ackproof.judge.read_steps import odd_steps


def nonmonotonic_poll(t: Tables) -> DataFrame:
    """A step of a consumer, within one assignment of a partition, that does not rise."""
    return (
        odd_steps(t)
        .filter(F.col("offset") <= F.col("previous_offset"))
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
