"""throughput: how many messages a second each `[[producers]]` table got acknowledged, if they run one after the other.

The time runs from the first acknowledged send of any of the table's producers to the last acknowledgement of any. A
producer without an acknowledgement is not counted. `threads` is null if the producers have no threads of their own
beside the one that receives acknowledgements.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables


def throughput(t: Tables) -> DataFrame:
    """One row for each `[[producers]]` table."""
    known = t.producers.select("run", "producer", "table", "threads")
    seconds = (F.col("end_ns") - F.col("begin_ns")) / 1e9
    return (
        (t.produced if t.produced is not None else _produced(t))
        .join(t.small_side(known), on=["run", "producer"], how="inner")
        .groupBy("run", "table")
        .agg(
            F.count("*").alias("producers"),
            F.max("threads").alias("threads"),
            F.sum("acked").alias("acked"),
            F.min("begin_ns").alias("begin_ns"),
            F.max("end_ns").alias("end_ns"),
        )
        .withColumn("seconds", seconds)
        .withColumn("per_second", F.when(seconds > 0, F.col("acked") / seconds))
        .select("run", "table", "producers", "threads", "acked", "begin_ns", "seconds", "per_second")
    )


def _produced(t: Tables) -> DataFrame:
    return (
        t.sends.filter(F.col("outcome") == "ok")
        .groupBy("run", "producer")
        .agg(
            F.count("*").alias("acked"),
            F.min("sent_ns").alias("begin_ns"),
            F.max("done_ns").alias("end_ns"),
        )
    )
