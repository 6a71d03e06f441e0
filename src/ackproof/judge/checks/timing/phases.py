"""phases: what became of the messages of each topic between one fault and the next.

When a phase begins, leaders may still be moving. So what counts for the phase is what came back in its last seconds,
whenever it was sent: acknowledgements, errors or nothing.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.fates import LOST
from ackproof.judge.frames import Tables

SETTLED_NS = 3_000_000_000


def phases(t: Tables) -> DataFrame:
    """One row for each phase and topic; `settled` is lost, written, refused or unavailable."""
    within = (F.col("sent_ns") >= F.col("from_ns")) & (F.col("sent_ns") < F.col("to_ns"))
    lost, ok = F.col("fate").isin(*LOST), F.col("outcome") == "ok"
    since = F.greatest("from_ns", F.col("to_ns") - SETTLED_NS)
    at_last = F.coalesce((F.col("done_ns") >= since) & (F.col("done_ns") < F.col("to_ns")), F.lit(False))
    counts = {"written": ok & ~lost, "refused": F.col("outcome") == "fail", "unknown": F.col("outcome") == "info"}
    told = {"sent": F.lit(True), **counts, "lost": lost}
    settled = (
        F.when(F.col("lost") > 0, "lost")
        .when(F.col("acked_at_last") > 0, "written")
        .when(F.col("refused_at_last") > 0, "refused")
        .otherwise("unavailable")
    )
    return (
        t.fates.join(t.small_side(t.phases), on=["run"], how="inner")
        .filter(within | at_last)
        .groupBy("run", "topic", "phase", "after")
        .agg(
            *(F.count_if(within & asked).alias(name) for name, asked in told.items()),
            F.count_if(at_last & ok).alias("acked_at_last"),
            F.count_if(at_last & counts["refused"]).alias("refused_at_last"),
        )
        .withColumn("settled", settled)
        .select("run", "topic", "phase", "after", "sent", *counts, "lost", "settled")
    )
