"""seek_mismatch: a seek ended elsewhere than it should.

By offset, it should end at that offset, if the log holds it. Below the log start or above the log end, the reset policy
decides: `earliest` means the log start, `latest` waits for the next record, `error` makes the client raise an error.

By time, it should end at the first record that is not older. If there is none, it waits at the end of the log; the next
record may be older all the same, because its producer sets its time.

Retention goes on during a seek. So if the log start moved between the two looks at it, either start is right, and the
record that Kafka named for a time may be gone too. A seek that timed out satisfies no policy.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables

GONE = "_AUTO_OFFSET_RESET"  # the name of the client's error


def seek_mismatch(t: Tables) -> DataFrame:
    """A seek that ended at a wrong place, with the bounds of the log and the client's answer."""
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
