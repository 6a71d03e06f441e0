"""Astray: a seek that ended elsewhere than where it was sent, or than the policy says where that place is gone.

By offset: at that offset, where the log holds it. Below the log's start or above its end the policy decides: `earliest`
is the log's start, `latest` waits for what is written next, `error` is told so. By time: at the first record that is
not older; where none is so young it waits at the end, and what comes next may be older all the same, for a record's
time is its producer's. Retention goes on meanwhile, so a start that moved between two looks may be either, and the
record that was named for a time may be gone, too. Who had no answer in time neither waits nor was told anything.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables

GONE = "_AUTO_OFFSET_RESET"  # as the client says it


def seek_mismatch(t: Tables) -> DataFrame:
    """A seek with what it should have come to."""
    landed, asked, policy = F.col("landed"), F.col("asked"), F.col("policy")
    start, start_after = F.col("log_start"), F.col("log_start_after")
    there = (asked >= start_after) & (asked < F.col("log_end"))
    may_be_there = (asked >= start) & (asked < F.col("log_end_after"))
    waits = F.col("error").isNull() & (landed.isNull() | (landed >= F.col("log_end")))
    by_policy = (
        F.when(policy == "earliest", (landed >= start) & (landed <= start_after))
        .when(policy == "latest", waits)
        .otherwise(F.col("error").eqNullSafe(GONE))
    )
    at_offset = F.coalesce(landed == asked, F.lit(False))
    by_offset = F.when(there, at_offset).when(may_be_there, at_offset | by_policy).otherwise(by_policy)
    older = F.col("before_ms").isNull() | (F.col("before_ms") < asked)
    named = landed.eqNullSafe(F.col("answer"))
    at_answer = F.coalesce(named & (F.col("landed_ms") >= asked) & older, F.lit(False))
    taken = ~named & (F.col("answer") < start_after)
    by_time = F.when(F.col("answer").isNull(), waits).otherwise(at_answer | (taken & by_policy))
    good = F.coalesce(F.when(F.col("by") == "time", by_time).otherwise(by_offset), F.lit(False))
    told = ("topic", "partition", "fault", "by", "asked", "policy", "landed", "landed_ms", "before_ms", "log_start")
    return t.seeks.filter(~good).select("run", *told, "log_end", "error")
