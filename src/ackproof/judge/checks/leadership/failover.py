"""failover: what each fault did to each partition, step by step.

    proved -> first error at a client -> a new leader epoch seen -> first acknowledgement from that epoch -> ISR full

Times count from the proof. An error may come before the proof, but not before the fault was requested. A step that
never came is null. The new epoch is the first one seen, and the older one if two are seen at once.

The final log tells when the new epoch acknowledged first: by a message that stands there once and was written in that
epoch or a later one. The ISR is full again when the last leader's view of it became full and stayed full; a leader
without an epoch led before all others. Faults that hit clients, or that move no leader by their kind, have no row.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables
from ackproof.model.faults import MOVE_NO_LEADER

_FAULT_AT_TP = [*TP, "fault"]


def failover(t: Tables) -> DataFrame:
    """One row for each fault and partition, whether or not the leader moved."""
    stage = _new_epoch(t).cache()  # a few rows, used three times
    proved, ms = F.col("proved_ns"), 1e6
    return (
        stage.join(t.small_side(_first_error(t, stage)), on=_FAULT_AT_TP, how="left")
        .join(t.small_side(_first_ack(t, stage)), on=_FAULT_AT_TP, how="left")
        .join(t.small_side(_isr_full(t, stage)), on=_FAULT_AT_TP, how="left")
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
    """Each fault at each partition, with the epoch before it, and when the next one was first seen."""
    when = {name: F.min(F.when(F.col("event") == name, F.col("at_ns"))) for name in ("asked", "proved")}
    at_clients = F.exists("targets", lambda target: target.rlike("^(producer|consumer)[0-9]"))
    proved = (
        t.faults.filter(~F.col("kind").isin(*MOVE_NO_LEADER) & ~F.coalesce(at_clients, F.lit(False)))
        .groupBy("run", "fault", "kind")
        .agg(when["proved"].alias("proved_ns"), F.coalesce(when["asked"], when["proved"]).alias("asked_ns"))
        .filter(F.col("proved_ns").isNotNull())
    )
    epochs = (
        t.state.filter(
            F.col("leader_epoch").isNotNull() & (F.col("leader") >= 0)
        )  # an epoch without a leader brings no new leader
        .groupBy(*TP, "leader_epoch")
        .agg(F.min("at_ns").alias("at_ns"))
        .groupBy(*TP)
        .agg(F.sort_array(F.collect_list(F.struct("at_ns", "leader_epoch"))).alias("epochs"))
    )
    before = F.filter("epochs", lambda seen: seen["at_ns"] <= F.col("proved_ns"))
    later = F.filter("epochs", lambda seen: F.col("old_epoch").isNull() | (seen["leader_epoch"] > F.col("old_epoch")))
    return (
        proved.join(t.ends.select(*TP), on=["run"], how="inner")
        .join(t.small_side(epochs), on=list(TP), how="left")
        .withColumn("old_epoch", F.array_max(F.transform(before, lambda seen: seen["leader_epoch"])))
        .withColumn("next", F.try_element_at(later, F.lit(1)))
        .select(
            *_FAULT_AT_TP,
            "kind",
            "asked_ns",
            "proved_ns",
            "old_epoch",
            F.col("next.leader_epoch").alias("new_epoch"),
            F.col("next.at_ns").alias("epoch_ns"),
        )
    )


def _first_error(t: Tables, stage: DataFrame) -> DataFrame:
    """The first error of a send to the partition, or to its topic if the client named no partition."""
    failed = t.sends.filter(F.col("outcome").isin("fail", "info") & F.col("done_ns").isNotNull())
    of_topic = failed.select("run", "topic", F.col("partition").alias("said"), "done_ns")
    its_own = (F.col("said") == F.col("partition")) | (F.col("said") < 0)
    return (
        of_topic.join(t.small_side(stage), on=["run", "topic"], how="inner")
        .filter(its_own & (F.col("done_ns") >= F.col("asked_ns")))
        .groupBy(*_FAULT_AT_TP)
        .agg(F.min("done_ns").alias("error_ns"))
    )


def _first_ack(t: Tables, stage: DataFrame) -> DataFrame:
    """The first acknowledgement that the new epoch, or a later one, wrote."""
    known = (F.col("outcome") == "ok") & (F.col("copies") == 1) & F.col("log_epoch").isNotNull()
    acked = t.fates.filter(known).groupBy(*TP, "log_epoch").agg(F.min("done_ns").alias("done_ns"))
    return (
        acked.join(t.small_side(stage), on=list(TP), how="inner")
        .filter(F.col("log_epoch") >= F.col("new_epoch"))
        .groupBy(*_FAULT_AT_TP)
        .agg(F.min("done_ns").alias("ack_ns"))
    )


def _isr_full(t: Tables, stage: DataFrame) -> DataFrame:
    """When the leader's ISR last became full, unless it is short again at the end."""
    leads = (F.col("leader") == F.col("broker")) & F.col("isr").isNotNull() & F.col("replicas").isNotNull()
    # By epoch first: a leader that is cut off goes on reporting an old ISR.
    in_order = Window.partitionBy(*TP).orderBy("leader_epoch", "at_ns")
    views = (
        t.state.filter(leads)
        .select(*TP, "at_ns", "leader_epoch", (F.size("isr") >= F.size("replicas")).alias("full"))
        .withColumn("was_full", F.lag("full").over(in_order))
        .withColumn("is_last", F.lead("full").over(in_order).isNull())
        .filter(F.col("is_last") | (F.col("full") & ~F.col("was_full")))
    )
    became_full = F.when(F.col("full") & ~F.col("was_full"), F.struct("leader_epoch", "at_ns"))
    return (
        views.join(t.small_side(stage.select(*_FAULT_AT_TP, "proved_ns")), on=list(TP), how="inner")
        .groupBy(*_FAULT_AT_TP, "proved_ns")
        .agg(
            F.max(became_full)["at_ns"].alias("full_ns"),
            F.bool_or(F.col("is_last") & F.col("full")).alias("stayed"),
        )
        .filter(F.col("stayed") & (F.col("full_ns") > F.col("proved_ns")))
        .select(*_FAULT_AT_TP, "full_ns")
    )
