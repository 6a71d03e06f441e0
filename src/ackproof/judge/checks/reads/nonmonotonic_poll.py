"""Repeated read: a consumer was given again what it had been given under the same assignment.

Reading again after a rebalance is how Kafka works; it is another assignment, and no witness.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables
from ackproof.judge.read_steps import odd_steps


def nonmonotonic_poll(t: Tables) -> DataFrame:
    """Within (consumer, assignment, tp), a step that does not rise."""
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
