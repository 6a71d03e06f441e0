"""site_gap: how long no producer wrote, and no consumer of a group read, while clients moved to the other site."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables
from ackproof.judge.site_moves import acks, moves, reads


def site_gap(t: Tables) -> DataFrame:
    """A move: from the last acknowledgement, or read, at one site to the first at the other, and the repeated reads."""
    writes = moves(acks(t)).withColumn("what", F.lit("writes")).withColumn("again", F.lit(None).cast("long"))
    given = reads(t)
    readers = (
        moves(given)
        .join(_again(given), on=["run", "group", "stint"], how="left")
        .withColumn("what", F.lit("reads"))
        .withColumn("again", F.coalesce(F.col("again"), F.lit(0)))
    )
    columns = ["run", "what", "group", "stint", "from_site", "to_site", "from_ns", "first_ns", "again"]
    return (
        t.union(writes.select(*columns), readers.select(*columns))
        .withColumn("ms", (F.col("first_ns") - F.col("from_ns")) / 1e6)
        .withColumn("group", F.when(F.col("what") == "reads", F.col("group")))
        .select(
            "run", "what", "group", "from_site", "to_site", "from_ns", F.col("first_ns").alias("to_ns"), "ms", "again"
        )
    )


def _again(given: DataFrame) -> DataFrame:
    """For each stint, how many reads repeated a message that the group was given in an earlier stint.

    Records that are not ours have no number, so their repetition is unknown.
    """
    of_value = Window.partitionBy("run", "group", "producer", "seq")
    return (
        given.filter(F.col("seq") >= 0)
        .withColumn("first_stint", F.min("stint").over(of_value))
        .filter(F.col("first_stint") < F.col("stint"))
        .groupBy("run", "group", "stint")
        .agg(F.count("*").alias("again"))
    )
