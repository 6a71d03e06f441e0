"""leadership_history: which broker led each partition, and which replicas were in sync, at each moment of the run.

The view at a moment comes from the newest leader epoch that any broker reported in the seconds before. The leader's own
answer goes first.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables

RECENT_NS = 3_000_000_000


def leadership_history(t: Tables) -> DataFrame:
    """One row for each moment and partition that a broker reported about."""
    # Kafka reports a partition without a leader with this error. It is an answer like any other.
    answered = F.coalesce(F.col("error") == "LEADER_NOT_AVAILABLE", F.lit(True))
    told = t.state.filter(answered & F.col("leader_epoch").isNotNull() & (F.col("topic") >= 0))
    recent = (F.col("at_ns") <= F.col("moment_ns")) & (F.col("at_ns") > F.col("moment_ns") - RECENT_NS)
    itself = F.coalesce(F.col("leader") == F.col("broker"), F.lit(False))
    newest = F.max(F.struct("leader_epoch", itself.alias("itself"), "at_ns", "leader", "isr", "replicas"))
    return (
        told.join(t.small_side(t.moments), on=["run"], how="inner")
        .filter(recent)
        .groupBy(*TP, "place", "moment", "moment_ns")
        .agg(newest.alias("view"))
        .select(*TP, "place", "moment", "moment_ns", "view.leader", "view.leader_epoch", "view.isr", "view.replicas")
    )
