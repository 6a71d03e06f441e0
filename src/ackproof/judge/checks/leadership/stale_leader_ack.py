"""Zombie ack: an acknowledgement by a leader that was one no longer.

A delivery report carries neither epoch nor broker, so the epoch is derived, and never guessed, by the first of these:

- the value stands in the log, once: it was written in that record's epoch;
- another value stands at its offset: it came from an older leader than the one that wrote that record;
- its offset lies at or past the end of the final log: it came from an older leader than the last one; and from an older
  one than any leader that was asked afterwards, in its own epoch, and whose own log never reached that offset;
- anything else: unknown.

All of these say "older than epoch E". It is a zombie's if E had already been seen at some broker when the
acknowledgement came. The overlap with `lost` is the price of the split.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables

_ACK = ("run", "topic", "partition", "offset", "producer", "seq", "fate", "done_ns")


def stale_leader_ack(t: Tables) -> DataFrame:
    """An ok ack of an epoch older than one already seen when it came."""
    acked = t.fates.filter(F.col("offset").isNotNull())  # by a leader; below only fates of what was acknowledged count
    return t.union(_by_record(t, acked), _by_end(t, acked)).select(*_ACK, "older_than", "seen_ns")


def _by_record(t: Tables, acked: DataFrame) -> DataFrame:
    """Known from a record: its own, which has no epoch where there are copies, or the one that stands at its offset."""
    another_stands = F.col("fate").isin("lost_overwritten", "survived_moved")
    own = F.when(F.col("fate") == "survived", F.col("log_epoch") + 1)
    older_than = own.when(another_stands, F.col("holder_epoch"))
    return (
        acked.withColumn("older_than", older_than)
        .join(t.small_side(_epochs(t)), on=[*TP, "older_than"], how="inner")
        .filter(F.col("done_ns") > F.col("seen_ns"))
        .select(*_ACK, "older_than", "seen_ns")
    )


def _by_end(t: Tables, acked: DataFrame) -> DataFrame:
    """Known from where logs end: that of the last leader, or of one that was asked after the ack came."""
    last = t.ends.select(*TP, F.col("leader_epoch").alias("last_epoch"))
    out_of_reach = (F.col("led_until_ns") >= F.col("done_ns")) & (F.col("led_to") <= F.col("offset"))
    older = (F.col("older_than") == F.col("last_epoch")) | out_of_reach
    epochs = _epochs(t)
    return (
        acked.filter(F.col("fate") == "lost_truncated")
        .join(t.small_side(epochs.join(last, on=list(TP), how="inner")), on=list(TP), how="inner")
        .filter((F.col("done_ns") > F.col("seen_ns")) & older)
        .groupBy(*_ACK)
        .agg(F.min("older_than").alias("older_than"))  # a number alone is hashed, where a struct would be sorted
        .join(t.small_side(epochs.select(*TP, "older_than", "seen_ns")), on=[*TP, "older_than"], how="inner")
        .select(*_ACK, "older_than", "seen_ns")
    )


def _epochs(t: Tables) -> DataFrame:
    """For each epoch, also those that the observer missed: since when it or a later one was seen; and of those that it
    did not miss, until when the leader itself was asked, and how far its log went."""
    leads = F.col("leader") == F.col("broker")
    seen = t.state.groupBy(*TP, "leader_epoch").agg(
        F.min(F.col("at_ns") + F.col("took_ns")).alias("at_ns"),
        F.max(F.when(leads & F.col("log_end").isNotNull(), F.col("at_ns"))).alias("led_until_ns"),
        F.max(F.when(leads, F.col("log_end"))).alias("led_to"),
    )
    itself = F.col("older_than") == F.col("leader_epoch")
    return (
        seen.withColumn("older_than", F.explode(F.sequence(F.lit(0), F.col("leader_epoch"))))
        .groupBy(*TP, "older_than")
        .agg(
            F.min("at_ns").alias("seen_ns"),
            F.max(F.when(itself, F.col("led_until_ns"))).alias("led_until_ns"),
            F.max(F.when(itself, F.col("led_to"))).alias("led_to"),
        )
    )
