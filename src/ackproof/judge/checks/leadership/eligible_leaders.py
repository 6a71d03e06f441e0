"""eligible_leaders: the replicas that could lead without being in sync, as Kafka 4's controllers see it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables


def eligible_leaders(t: Tables) -> DataFrame:
    """A moment and a partition for which the newest answer named such a replica."""
    newest = F.max_by(F.struct("eligible", "last_known"), "at_ns")
    return (
        t.eligible.join(t.small_side(t.moments), on=["run"], how="inner")
        .filter(F.col("at_ns") <= F.col("moment_ns"))
        .groupBy(*TP, "place", "moment")
        .agg(newest.alias("answer"))
        .select(*TP, "place", "moment", "answer.eligible", "answer.last_known")
        .filter((F.size("eligible") > 0) | (F.size("last_known") > 0))
    )
