"""Dips: seconds of the load with too few acknowledgements or reads, or with too many sends that wait for an outcome."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables
from ackproof.judge.load_seconds import seconds


def dips(t: Tables) -> DataFrame:
    """A second in which fewer were acknowledged or read than the line, or more than the line waited at its end for
    an outcome; `uncovered` where no fault explains it. Of runs without a consumer nothing is said about reading, and
    nothing of the first second, in which the answers to what was sent before it are missing."""
    line, readers = F.col("rate_line"), t.consumers.select("run").distinct().withColumn("has_readers", F.lit(True))
    dipped = (F.col("acked") < line) | (F.col("has_readers") & (F.col("read") < line)) | (F.col("unacked") > line)
    return (
        seconds(t)
        .join(t.small_side(readers), on=["run"], how="left")
        .filter(F.col("full") & (F.col("second") > 0) & (line > 0) & F.coalesce(dipped, F.lit(False)))
        .select(
            "run", "second", "at_ns", "sent", "acked", "read", "unacked", "fault",
            F.col("fault").isNull().alias("uncovered"),
        )
    )  # fmt: skip
