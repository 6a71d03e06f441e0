"""Failover: the story of each fault at each partition, step by step.

    proved -> first error at a client -> a new leader epoch seen -> first acknowledgement from that epoch -> ISR full

A step that never came is null. The new epoch's first acknowledgement is known from the final log: a value that stands
there once, written in that epoch or a later one.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.tables import TP, Tables

_FAULT_AT_TP = [*TP, "fault"]


def failover(t: Tables) -> DataFrame:
    """One row for each fault and tp, whether or not the leader moved."""
    stage = _new_epoch(t)
    error = _first_error(t, stage)
    ack = _first_ack(t, stage)
    full = _isr_full(t, stage)
    proved, ms = F.col("proved_ns"), 1e6
    return (
        stage.join(error, on=_FAULT_AT_TP, how="left")
        .join(ack, on=_FAULT_AT_TP, how="left")
        .join(full, on=_FAULT_AT_TP, how="left")
        .select(
            "run",
            "fault",
            "kind",
            "topic",
            "partition",
            "proved_ns",
            "old_epoch",
            "new_epoch",
            ((F.col("error_ns") - proved) / ms).alias("first_error_ms"),
            ((F.col("epoch_ns") - proved) / ms).alias("new_epoch_ms"),
            ((F.col("ack_ns") - proved) / ms).alias("first_ack_ms"),
            ((F.col("full_ns") - proved) / ms).alias("isr_full_ms"),
        )
    )


def _new_epoch(t: Tables) -> DataFrame:
    """Each fault at each tp with the epoch before it, and when the next one was first seen."""
    proved = (
        t.faults.filter(F.col("event") == "proved")
        .groupBy("run", "fault", "kind")
        .agg(F.min("at_ns").alias("proved_ns"))
    )
    at_tp = proved.join(t.ends.select(*TP), on=["run"], how="inner")
    seen = t.state.filter(F.col("leader_epoch").isNotNull()).select(*TP, "at_ns", "leader_epoch")
    views = at_tp.join(seen, on=list(TP), how="left")
    before = F.max(F.when(F.col("at_ns") <= F.col("proved_ns"), F.col("leader_epoch")))
    old = views.groupBy(*_FAULT_AT_TP).agg(before.alias("old_epoch"))
    later = (F.col("at_ns") > F.col("proved_ns")) & (F.col("leader_epoch") > F.col("old_epoch"))
    new = (
        views.join(old, on=_FAULT_AT_TP, how="inner")
        .filter(later)
        .groupBy(*_FAULT_AT_TP)
        .agg(F.min("at_ns").alias("epoch_ns"), F.min("leader_epoch").alias("new_epoch"))
    )
    return at_tp.join(old, on=_FAULT_AT_TP, how="left").join(new, on=_FAULT_AT_TP, how="left")


def _first_error(t: Tables, stage: DataFrame) -> DataFrame:
    failed = t.sends.filter(F.col("outcome").isin("fail", "info") & F.col("done_ns").isNotNull())
    of_topic = failed.select("run", "topic", F.col("partition").alias("said"), "done_ns")
    its_own = (F.col("said") == F.col("partition")) | (F.col("said") < 0)
    return (
        of_topic.join(F.broadcast(stage), on=["run", "topic"], how="inner")
        .filter(its_own & (F.col("done_ns") >= F.col("proved_ns")))
        .groupBy(*_FAULT_AT_TP)
        .agg(F.min("done_ns").alias("error_ns"))
    )


def _first_ack(t: Tables, stage: DataFrame) -> DataFrame:
    known = (F.col("outcome") == "ok") & (F.col("copies") == 1) & F.col("log_epoch").isNotNull()
    acked = t.fates.filter(known).groupBy(*TP, "log_epoch").agg(F.min("done_ns").alias("done_ns"))
    return (
        acked.join(stage, on=list(TP), how="inner")
        .filter(F.col("log_epoch") >= F.col("new_epoch"))
        .groupBy(*_FAULT_AT_TP)
        .agg(F.min("done_ns").alias("ack_ns"))
    )


def _isr_full(t: Tables, stage: DataFrame) -> DataFrame:
    """The first moment, after the ISR was last seen short, at which a leader saw all of it."""
    leads = (F.col("leader") == F.col("broker")) & F.col("isr").isNotNull() & F.col("replicas").isNotNull()
    views = (
        t.state.filter(leads)
        .select(*TP, "at_ns", "leader_epoch", (F.size("isr") >= F.size("replicas")).alias("full"))
        .join(stage.select(*_FAULT_AT_TP, "proved_ns", "old_epoch", "new_epoch"), on=list(TP), how="inner")
    )
    current = F.col("leader_epoch") >= F.coalesce(F.col("new_epoch"), F.col("old_epoch"))
    after = views.filter(current & (F.col("at_ns") > F.col("proved_ns")))
    short = after.filter(~F.col("full")).groupBy(*_FAULT_AT_TP).agg(F.max("at_ns").alias("short_ns"))
    return (
        after.join(short, on=_FAULT_AT_TP, how="inner")
        .filter(F.col("full") & (F.col("at_ns") > F.col("short_ns")))
        .groupBy(*_FAULT_AT_TP)
        .agg(F.min("at_ns").alias("full_ns"))
    )
