"""commit_regression: a group committed an offset below one that it had committed before. It reads the rest again."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables


def commit_regression(t: Tables) -> DataFrame:
    """An accepted commit below the highest one accepted before it, of the same group and partition."""
    before = Window.partitionBy(*TP, "group").orderBy("at_ns").rowsBetween(Window.unboundedPreceding, -1)
    return (
        t.commits.filter(F.col("outcome") == "ok")
        .withColumn("highest", F.max("offset").over(before))
        .filter(F.col("offset") < F.col("highest"))
        .select("run", "group", "topic", "partition", "consumer", "at_ns", "highest", "offset")
    )
