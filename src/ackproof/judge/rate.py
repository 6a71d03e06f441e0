"""Rate: what happened in each second of the load, counted from the first send: sent, acknowledged, read.

Seconds in which nothing happened are rows too, for they are the interesting ones. Where the scenario draws a line, a
full second with fewer sends than that is marked; the last second is hardly ever full and never marked.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.tables import Tables

_NS = 1_000_000_000


def rate(t: Tables) -> DataFrame:
    """One row a second, with `below` where fewer were sent than the line that the scenario draws."""
    span = t.sends.groupBy("run").agg(F.min("sent_ns").alias("begin_ns"), F.max("sent_ns").alias("last_ns"))
    moments = F.explode(
        F.array(
            F.struct(F.lit("sent").alias("what"), F.col("sent_ns").alias("at_ns")),
            F.struct(F.lit("acked").alias("what"), F.when(F.col("outcome") == "ok", F.col("done_ns")).alias("at_ns")),
        )
    )
    sent = _per_second(t.sends.select("run", moments.alias("one")).select("run", "one.*"), span, ("sent", "acked"))
    given = t.reads.select("run", F.lit("read").alias("what"), F.col("read_ns").alias("at_ns"))
    counts = sent.join(_per_second(given, span, ("read",)), on=["run", "second"], how="full")
    reach = counts.groupBy("run").agg(F.min("second").alias("first"), F.max("second").alias("last"))
    seconds = reach.select("run", F.explode(F.sequence("first", "last")).alias("second"))
    full = F.col("second") < F.floor((F.col("last_ns") - F.col("begin_ns")) / _NS)
    below = full & (F.col("second") >= 0) & (F.col("sent") < F.col("rate_line"))
    return (
        seconds.join(counts, on=["run", "second"], how="left")
        .fillna(0, subset=["sent", "acked", "read"])
        .join(F.broadcast(span), on=["run"], how="inner")
        .join(F.broadcast(t.runs.select("run", "rate_line")), on=["run"], how="inner")
        .withColumn("below", below)
        .withColumn("at_ns", F.col("begin_ns") + F.col("second") * _NS)
        .select("run", "second", "at_ns", "sent", "acked", "read", "below")
    )


def _per_second(moments: DataFrame, span: DataFrame, names: tuple[str, ...]) -> DataFrame:
    second = F.floor((F.col("at_ns") - F.col("begin_ns")) / _NS)
    return (
        moments.filter(F.col("at_ns").isNotNull())
        .join(F.broadcast(span), on=["run"], how="inner")
        .groupBy("run", second.alias("second"))
        .agg(*(F.count_if(F.col("what") == name).alias(name) for name in names))
    )
