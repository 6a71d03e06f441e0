"""dips: seconds of the load with too few acknowledgements or reads, or too many sends that wait for an outcome."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables
from ackproof.judge.load_seconds import seconds


def dips(t: Tables) -> DataFrame:
    """A second below the line, or with more open sends at its end than the line; `uncovered` if no fault explains it.

    A run without consumers has no reads, so they are not compared. The first second is left out, because it cannot have
    answers to earlier sends.
    """
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
