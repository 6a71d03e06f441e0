"""Commit back: a group committed an offset below one that it had committed before; what lies between is read again."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables


def commit_regression(t: Tables) -> DataFrame:
    """A commit that was accepted, below the highest that was accepted before it for the same group and tp."""
    before = Window.partitionBy(*TP, "group").orderBy("at_ns").rowsBetween(Window.unboundedPreceding, -1)
    return (
        t.commits.filter(F.col("outcome") == "ok")
        .withColumn("highest", F.max("offset").over(before))
        .filter(F.col("offset") < F.col("highest"))
        .select("run", "group", "topic", "partition", "consumer", "at_ns", "highest", "offset")
    )
