"""Rate: what happened in each second of the load, counted from the first send: sent, acknowledged, read.

Seconds in which nothing happened are rows too, for they are the interesting ones. Where the scenario draws a line, a
full second with fewer sends than that is marked; the last second is hardly ever full and never marked.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ackproof.judge.tables import Tables

_NS = 1_000_000_000
_COUNTED = ("sent", "acked", "read")


def rate(t: Tables) -> DataFrame:
    """One row a second, with `below` where fewer were sent than the line that the scenario draws."""
    load = t.runs.filter(F.col("begin_ns").isNotNull())
    every = F.explode(F.sequence(F.col("begin_ns"), F.col("last_ns"), F.lit(_NS)))

    def counted(what: str, frame: DataFrame, at_ns: str) -> DataFrame:
        """So many in each second. Counted before they meet, for there are many sends and few seconds."""
        second = F.floor((F.col(at_ns) - F.col("begin_ns")) / _NS).alias("second")
        counts = (
            frame.filter(F.col(at_ns).isNotNull())
            .select("run", at_ns)
            .join(t.beside(load.select("run", "begin_ns")), on=["run"], how="inner")
            .groupBy("run", second)
            .agg(F.count(F.lit(1)).alias("count"))
        )
        return counts.select("run", "second", *(_if(name == what).alias(name) for name in _COUNTED))

    full = F.col("begin_ns") + (F.col("second") + 1) * _NS <= F.col("last_ns")
    return (
        t.together(
            counted("sent", t.sends, "sent_ns"),
            counted("acked", t.sends.filter(F.col("outcome") == "ok"), "done_ns"),
            counted("read", t.reads, "read_ns"),
            counted("nothing", load.select("run", every.alias("at_ns")), "at_ns"),
        )
        .groupBy("run", "second")
        .agg(*(F.sum(name).alias(name) for name in _COUNTED))
        .join(t.beside(load), on=["run"], how="inner")
        .withColumn("below", full & (F.col("second") >= 0) & (F.col("sent") < F.col("rate_line")))
        .withColumn("at_ns", F.col("begin_ns") + F.col("second") * _NS)
        .select("run", "second", "at_ns", "sent", "acked", "read", "below")
    )


def _if(counts: bool) -> Column:
    return F.col("count") if counts else F.lit(0).cast("long")
