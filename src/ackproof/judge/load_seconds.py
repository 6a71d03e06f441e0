"""The seconds of the load, counted from the first send: how much was sent, acknowledged and read in each.

Up to the last send, seconds in which nothing happened are rows too: they are the interesting ones. The last second is
rarely complete. `fault` is the fault that covers the second: the last one that began, until `dip_s` after its end.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables

_NS = 1_000_000_000
_COUNTED = ("sent", "acked", "done", "read")  # done: the outcome of the send is known


def seconds(t: Tables) -> DataFrame:
    """Each second with its counts; `full` if all of it lies within the load."""
    load = t.runs.filter(F.col("begin_ns").isNotNull())
    every = F.explode(F.sequence(F.col("begin_ns"), F.col("last_ns"), F.lit(_NS)))

    def counted(what: str, frame: DataFrame, at_ns: str) -> DataFrame:
        """The count in each second. Counting comes before the union, because there are many sends and few seconds."""
        second = F.floor((F.col(at_ns) - F.col("begin_ns")) / _NS).alias("second")
        counts = (
            frame.filter(F.col(at_ns).isNotNull())
            .select("run", at_ns)
            .join(t.small_side(load.select("run", "begin_ns")), on=["run"], how="inner")
            .groupBy("run", second)
            .agg(F.count("*").alias("count"))
        )
        return counts.select("run", "second", *(_if(name == what).alias(name) for name in _COUNTED))

    so_far = Window.partitionBy("run").orderBy("second").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    full = F.col("begin_ns") + (F.col("second") + 1) * _NS <= F.col("last_ns")
    parts = (
        [t.seconds]
        if t.seconds is not None
        else [
            counted("sent", t.sends, "sent_ns"),
            counted("acked", t.sends.filter(F.col("outcome") == "ok"), "done_ns"),
            counted("done", t.sends, "done_ns"),
            counted("read", t.reads, "read_ns"),
        ]
    )
    return (
        t.union(*parts, counted("nothing", load.select("run", every.alias("at_ns")), "at_ns"))
        .groupBy("run", "second")
        .agg(*(F.sum(name).alias(name) for name in _COUNTED))
        .join(t.small_side(load), on=["run"], how="inner")
        .withColumn("at_ns", F.col("begin_ns") + F.col("second") * _NS)
        .withColumn("unacked", F.sum(F.col("sent") - F.col("done")).over(so_far))
        .withColumn("full", full & (F.col("second") >= 0))
        .join(t.small_side(_covered(t)), on=["run"], how="left")
        .withColumn("fault", F.array_max(F.filter("covers", _covers))["fault"])
        .select("run", "second", "at_ns", "sent", "acked", "read", "unacked", "fault", "full", "rate_line")
    )


def _covered(t: Tables) -> DataFrame:
    windows = F.struct("from_ns", "fault", F.coalesce("to_ns", F.lit(2**63 - 1)).alias("to_ns"))
    return t.covers.groupBy("run").agg(F.collect_list(windows).alias("covers"))


def _covers(window: Column) -> Column:
    """Whether the window covers any part of the second."""
    return (window["from_ns"] < F.col("at_ns") + _NS) & (window["to_ns"] > F.col("at_ns"))


def _if(counts: bool) -> Column:
    return F.col("count") if counts else F.lit(0).cast("long")
