"""Where the clients were: each change of site of the producers, and of each group of consumers.

A stint is a sequence of acknowledgements, or of reads, that all came from one site. At equal times, dc1's come first.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables


def acks(t: Tables) -> DataFrame:
    """Acknowledged sends, with their site and their stint."""
    ok = t.sends.filter((F.col("outcome") == "ok") & F.col("done_ns").isNotNull())
    return _with_stints(t, ok.withColumn("at_ns", F.col("done_ns")).withColumn("group", F.lit(-1)))


def reads(t: Tables) -> DataFrame:
    """Reads, with their site and their stint."""
    return _with_stints(t, t.reads.withColumn("at_ns", F.col("read_ns")))


def _with_stints(t: Tables, rows: DataFrame) -> DataFrame:
    in_time = Window.partitionBy("run", "group").orderBy("at_ns", "site")
    moved = F.col("site") != F.coalesce(F.lag("site").over(in_time), F.col("site"))
    so_far = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        rows.join(t.small_side(t.sites), on=["run", "topic"], how="inner")
        .withColumn("moved", moved.cast("int"))
        .withColumn("stint", F.sum("moved").over(so_far))
    )


def moves(stints: DataFrame) -> DataFrame:
    """Each change of site: from where to where, with the last event at the old site and the first at the new one."""
    in_order = Window.partitionBy("run", "group").orderBy("stint")
    return (
        stints.groupBy("run", "group", "stint", "site")
        .agg(F.min("at_ns").alias("first_ns"), F.max("at_ns").alias("last_ns"))
        .withColumn("from_site", F.lag("site").over(in_order))
        .withColumn("from_ns", F.lag("last_ns").over(in_order))
        .filter(F.col("from_site").isNotNull())
        .select("run", "group", "stint", "from_site", F.col("site").alias("to_site"), "from_ns", "first_ns")
    )
