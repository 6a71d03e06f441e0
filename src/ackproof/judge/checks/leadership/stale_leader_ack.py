"""stale_leader_ack: an acknowledgement from a leader whose epoch was already over.

A delivery report names neither epoch nor broker. So the check derives the epoch, and never guesses it, by the first of
these rules that applies:

- The message stands in the log once: it was written in the epoch of that record.
- Another message stands at its offset: it came from an older leader than the one that wrote that record.
- Its offset is at or past the end of the final log: it came from an older leader than the last one; and from an older
  one than any leader that was asked afterwards, in its own epoch, and whose own log never reached that offset.
- Otherwise the epoch is unknown.

Each rule says "older than epoch E". The acknowledgement is stale if a broker had already shown E when it came. It is
often a witness of `lost` too: the message was lost because the leader was stale.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables

_ACK = ("run", "topic", "partition", "offset", "producer", "seq", "fate", "done_ns")


def stale_leader_ack(t: Tables) -> DataFrame:
    """An acknowledgement from an epoch older than one that a broker had shown before it came."""
    # Only a leader gives an offset. The fates named below are those of acknowledged sends.
    acked = t.fates.filter(F.col("offset").isNotNull())
    return t.union(_by_record(t, acked), _by_end(t, acked)).select(*_ACK, "older_than", "seen_ns")


def _by_record(t: Tables, acked: DataFrame) -> DataFrame:
    """Acknowledgements whose epoch a record tells: their own, or the one that stands at their offset.

    A message with several copies has no `log_epoch`, and is left out.
    """
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
    """Acknowledgements whose epoch the end of a log tells: the last leader's, or that of a leader asked after they
    came."""
    last = t.ends.select(*TP, F.col("leader_epoch").alias("last_epoch"))
    out_of_reach = (F.col("led_until_ns") >= F.col("done_ns")) & (F.col("led_to") <= F.col("offset"))
    older = (F.col("older_than") == F.col("last_epoch")) | out_of_reach
    epochs = _epochs(t)
    return (
        acked.filter(F.col("fate") == "lost_truncated")
        .join(t.small_side(epochs.join(last, on=list(TP), how="inner")), on=list(TP), how="inner")
        .filter((F.col("done_ns") > F.col("seen_ns")) & older)
        .groupBy(*_ACK)
        .agg(F.min("older_than").alias("older_than"))  # Spark hashes a number; it would sort a struct
        .join(t.small_side(epochs.select(*TP, "older_than", "seen_ns")), on=[*TP, "older_than"], how="inner")
        .select(*_ACK, "older_than", "seen_ns")
    )


def _epochs(t: Tables) -> DataFrame:
    """For each epoch, the time since which it or a later one was seen, even if the observer missed it.

    For an epoch that the observer saw, also until when its leader was asked, and how far that leader's log reached.
    """
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
