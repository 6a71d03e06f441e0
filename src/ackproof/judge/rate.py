"""Rate: what happened in each second of the load, counted from the first send: sent, acknowledged, read.

Seconds in which nothing happened are rows too, for they are the interesting ones. Where the scenario draws a line, a
full second with fewer sends than that is marked; the last second is hardly ever full and never marked.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ackproof.judge.tables import Tables

_NS = 1_000_000_000


def rate(t: Tables) -> DataFrame:
    """One row a second, with `below` where fewer were sent than the line that the scenario draws."""
    acked_ns = F.when(F.col("outcome") == "ok", F.col("done_ns"))
    moments = F.explode(F.array(_moment("sent", F.col("sent_ns")), _moment("acked", acked_ns)))
    sent = t.sends.select("run", moments.alias("one")).select("run", "one.*")
    read = t.reads.select("run", F.lit("read").alias("what"), F.col("read_ns").alias("at_ns"))
    load = t.runs.filter(F.col("begin_ns").isNotNull())
    every = F.explode(F.sequence(F.col("begin_ns"), F.col("last_ns"), F.lit(_NS)))
    empty = load.select("run", F.lit("nothing").alias("what"), every.alias("at_ns"))
    full = F.col("begin_ns") + (F.col("second") + 1) * _NS <= F.col("last_ns")
    return (
        sent.unionByName(read)
        .unionByName(empty)
        .filter(F.col("at_ns").isNotNull())
        .join(t.beside(load), on=["run"], how="inner")
        .groupBy(
            "run",
            "begin_ns",
            "last_ns",
            "rate_line",
            F.floor((F.col("at_ns") - F.col("begin_ns")) / _NS).alias("second"),
        )
        .agg(*(F.count_if(F.col("what") == name).alias(name) for name in ("sent", "acked", "read")))
        .withColumn("below", full & (F.col("second") >= 0) & (F.col("sent") < F.col("rate_line")))
        .withColumn("at_ns", F.col("begin_ns") + F.col("second") * _NS)
        .select("run", "second", "at_ns", "sent", "acked", "read", "below")
    )


def _moment(what: str, at_ns: Column) -> Column:
    return F.struct(F.lit(what).alias("what"), at_ns.alias("at_ns"))
