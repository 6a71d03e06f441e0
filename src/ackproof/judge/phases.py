"""Phases: what became of the messages of each topic between one fault and the next.

A phase settles: at its beginning leaders may still be moving. So its word is that of its last seconds.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.fates import LOST
from ackproof.judge.tables import Tables

SETTLED_NS = 3_000_000_000


def phases(t: Tables) -> DataFrame:
    """One row for each phase and topic, with `settled`: lost, written, refused or unavailable."""
    within = (F.col("sent_ns") >= F.col("from_ns")) & (F.col("sent_ns") < F.col("to_ns"))
    lost, ok = F.col("fate").isin(*LOST), F.col("outcome") == "ok"
    late = F.col("sent_ns") >= F.col("to_ns") - SETTLED_NS
    counts = {"written": ok & ~lost, "refused": F.col("outcome") == "fail", "unknown": F.col("outcome") == "info"}
    told = [F.count("*").alias("sent"), *(F.count_if(asked).alias(name) for name, asked in counts.items())]
    at_last = [F.count_if(asked & late).alias(f"{name}_at_last") for name, asked in counts.items()]
    settled = (
        F.when(F.col("lost") > 0, "lost")
        .when(F.col("written_at_last") > 0, "written")
        .when(F.col("refused_at_last") > F.col("unknown_at_last"), "refused")
        .otherwise("unavailable")
    )
    return (
        t.fates.join(t.beside(t.phases), on=["run"], how="inner")
        .filter(within)
        .groupBy("run", "topic", "phase", "after")
        .agg(*told, F.count_if(lost).alias("lost"), *at_last)
        .withColumn("settled", settled)
        .select("run", "topic", "phase", "after", "sent", *counts, "lost", "settled")
    )
