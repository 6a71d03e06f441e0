"""Zombie ack: an acknowledgement by a leader that was one no longer.

A delivery report carries neither epoch nor broker, so the epoch is derived, and never guessed:

- the value stands in the log, once: it was written in that record's epoch;
- another value stands at its offset: it came from an older leader than the one that wrote that record;
- its offset lies at or past the end of the log: it came from an older leader than the last one;
- anything else: unknown.

All of these say "older than epoch E". It is a zombie's if E had already been seen at some broker when the
acknowledgement came. The overlap with `lost` is the price of the split.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ackproof.judge.tables import TP, Tables


def older_than() -> Column:
    """The epoch that an acknowledgement is certainly older than; null where nothing certain is known."""
    stands_once = (F.col("fate") == "survived") & (F.col("copies") == 1)
    another_stands = F.col("fate").isin("lost_overwritten", "survived_moved")
    return (
        F.when(stands_once, F.col("log_epoch") + 1)
        .when(another_stands, F.col("holder_epoch"))
        .when(F.col("fate") == "lost_truncated", F.col("last_epoch"))
    )


def zombie_ack(t: Tables) -> DataFrame:
    """An ok ack of an epoch older than one already seen when it came."""
    last = t.ends.select(*TP, F.col("leader_epoch").alias("last_epoch"))
    acked = (F.col("outcome") == "ok") & F.col("done_ns").isNotNull() & F.col("offset").isNotNull()
    return (
        t.fates.filter(acked)
        .join(t.beside(last), on=list(TP), how="left")
        .withColumn("older_than", older_than())
        .join(t.beside(_seen_since(t)), on=[*TP, "older_than"], how="inner")
        .filter(F.col("done_ns") > F.col("seen_ns"))
        .select("run", "topic", "partition", "offset", "producer", "seq", "fate", "done_ns", "older_than", "seen_ns")
    )


def _seen_since(t: Tables) -> DataFrame:
    """For each epoch, also those that the observer missed, when it or a later one was first seen."""
    seen = (
        t.state.filter(F.col("leader_epoch").isNotNull())
        .groupBy(*TP, "leader_epoch")
        .agg(F.min(F.col("at_ns") + F.col("took_ns")).alias("at_ns"))
    )
    return (
        seen.withColumn("older_than", F.explode(F.sequence(F.lit(1), F.greatest(F.col("leader_epoch"), F.lit(1)))))
        .filter(F.col("older_than") <= F.col("leader_epoch"))
        .groupBy(*TP, "older_than")
        .agg(F.min("at_ns").alias("seen_ns"))
    )
