"""What became of each send: exactly one fate each, so that the fates add up to the sends.

    outcome          in the final log?                                    fate
    ok               at its own offset                                    survived
    ok               at another offset only                               survived_moved
    ok               no; another message stands at its offset             lost_overwritten
    ok               no; its offset is at or past the high watermark      lost_truncated
    ok               no; its offset is below the log start, or a later
                     message of its key is in its compacted partition     expired
    ok               no; none of these                                    lost_hole
    ok, no offset    yes / no                                             survived / lost_unplaced
    info             yes / no                                             recovered / not_written
    fail             yes / no                                             resurrected / rejected

The final log is grouped by message first. That answers for nearly every send whether it is in the log, and where. Only
for the others the log is asked by offset: which record stands at the acknowledged offset?
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

LOST = ("lost_hole", "lost_overwritten", "lost_truncated", "lost_unplaced")
IN_LOG = ("survived", "survived_moved", "recovered", "resurrected")
FATES = (*IN_LOG, *LOST, "expired", "not_written", "rejected")

# The columns of a send that checks use. The frame is cached, and each column costs a tenth of its memory.
KEPT = ("run", "producer", "seq", "topic", "partition", "sent_ns", "done_ns", "outcome", "error", "offset")
_VALUE = ["run", "producer", "seq"]


def arrivals(log: DataFrame, small: bool = True) -> DataFrame:
    """Each message in each partition of the final log: its first and last offset, and its number of copies."""
    return (
        _readable(log, small)
        .groupBy(*_VALUE, "topic", "partition")
        .agg(
            F.count("*").alias("copies"),
            F.min("offset").alias("first_offset"),
            F.max("offset").alias("last_offset"),
        )
    )


def fates(sends: DataFrame, log: DataFrame, ends: DataFrame, compacted: bool, small: bool = True) -> DataFrame:
    """Each send with its fate, its number of copies, the epoch that wrote it, and the message at its offset."""
    found = sends.join(_hashed(_values(log, small), small), on=_VALUE, how="left").join(
        ends.select("run", "topic", "partition", "log_start", "high_watermark", "compacted").hint(
            "shuffle_hash" if small else "broadcast"
        ),
        on=["run", "topic", "partition"],
        how="left",
    )
    held = _with_holder(found, _hashed(log, small))
    if compacted:
        held = held.join(_last_of_key(sends, log), on=["run", "topic", "partition", "key"], how="left")
    else:
        held = held.withColumn("key_last_offset", F.lit(None).cast("long"))
    return held.withColumn("fate", _fate()).select(
        *KEPT,
        "fate",
        F.coalesce(F.col("copies"), F.lit(0)).alias("copies"),
        "log_epoch",
        "holder_producer",
        "holder_seq",
        "holder_epoch",
    )


def _readable(log: DataFrame, small: bool) -> DataFrame:
    """The records with a message number; a large log is distributed by it once, for grouping and for joins."""
    readable = log.filter((F.col("producer") >= 0) & (F.col("seq") >= 0))
    return readable if small else readable.repartition(*_VALUE)


def _hashed(frame: DataFrame, small: bool) -> DataFrame:
    """Ask for a hash table if the frame surely fits into memory; otherwise let Spark choose."""
    return frame.hint("shuffle_hash") if small else frame


def _values(log: DataFrame, small: bool) -> DataFrame:
    """Each message of the final log: its number of copies, and their place if all are in one partition."""
    place = F.col("topic").cast("long") * F.lit(2**32) + F.col("partition")  # one number: a struct could not be hashed
    one_place = F.min(place) == F.max(place)
    copies = F.count("*")
    return (
        _readable(log, small)
        .groupBy(*_VALUE)
        .agg(
            copies.alias("copies"),
            F.when(one_place, F.min("topic")).alias("log_topic"),
            F.when(one_place, F.min("partition")).alias("log_partition"),
            F.when(one_place, F.min("offset")).alias("first_offset"),
            F.when(one_place, F.max("offset")).alias("last_offset"),
            F.when(copies == 1, F.min("leader_epoch")).alias("log_epoch"),
        )
    )


def _placed() -> Column:
    return F.col("offset").isNotNull() & (F.col("partition") >= 0)


def _stands_at_own_offset() -> Column:
    """Whether a first or last copy stands at the acknowledged offset; `_with_holder` finds a copy in between."""
    same_tp = (F.col("log_topic") == F.col("topic")) & (F.col("log_partition") == F.col("partition"))
    same_offset = F.col("offset").isin(F.col("first_offset"), F.col("last_offset"))
    return F.coalesce(same_tp & same_offset, F.lit(False))


def _with_holder(found: DataFrame, log: DataFrame) -> DataFrame:
    """Add the record at the acknowledged offset, for acknowledged messages that are not known to stand there."""
    holders = log.select(
        "run",
        "topic",
        "partition",
        F.col("offset").alias("asked_offset"),
        F.col("producer").alias("holder_producer"),
        F.col("seq").alias("holder_seq"),
        F.col("leader_epoch").alias("holder_epoch"),
    )
    asks = (F.col("outcome") == "ok") & _placed() & ~_stands_at_own_offset()
    # Give each unused lookup its own key that matches nothing, so that they do not all meet in one task.
    asked = F.when(asks, F.col("offset")).otherwise(-1 - F.col("seq"))
    return found.withColumn("asked_offset", asked).join(
        holders, on=["run", "topic", "partition", "asked_offset"], how="left"
    )


def _last_of_key(sends: DataFrame, log: DataFrame) -> DataFrame:
    """The last offset of each key in each partition, because Kafka compacts each partition on its own.

    The partition comes from the log: a client may never have learnt where its message went.
    """
    return (
        log.join(sends.select(*_VALUE, "key"), on=_VALUE, how="inner")
        .groupBy("run", "topic", "partition", "key")
        .agg(F.max("offset").alias("key_last_offset"))
    )


def _fate() -> Column:
    ok, info, fail = (F.col("outcome") == outcome for outcome in ("ok", "info", "fail"))
    in_log = F.col("copies").isNotNull()
    holds_itself = (F.col("holder_producer") == F.col("producer")) & (F.col("holder_seq") == F.col("seq"))
    at_its_offset = ~_placed() | _stands_at_own_offset() | F.coalesce(holds_itself, F.lit(False))
    below_log_start = F.col("offset") < F.col("log_start")
    replaced_by_key = F.col("compacted") & (F.col("key_last_offset") > F.col("offset"))
    return (
        F.when(ok & in_log & at_its_offset, "survived")
        .when(ok & in_log, "survived_moved")
        .when(ok & ~_placed(), "lost_unplaced")
        .when(ok & F.col("holder_producer").isNotNull(), "lost_overwritten")
        .when(ok & (F.col("offset") >= F.col("high_watermark")), "lost_truncated")
        .when(ok & (below_log_start | replaced_by_key), "expired")
        .when(ok, "lost_hole")
        .when(info & in_log, "recovered")
        .when(info, "not_written")
        .when(fail & in_log, "resurrected")
        .when(fail, "rejected")
    )


def fate_counts(fated: DataFrame) -> DataFrame:
    """How many sends had each fate, and how many extra copies they have in the log."""
    extra = F.sum(F.greatest(F.col("copies") - 1, F.lit(0)))
    return (
        fated.groupBy("run", "fate")
        .agg(F.count("*").alias("sends"), extra.alias("extra_copies"))
        .select("run", "fate", "sends", "extra_copies")
    )
