"""receivers: what each receiver accepted, dropped and cost, beside what the scenario expects of it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ackproof.judge.checks.dedup.duplicate_accepted import duplicate_accepted
from ackproof.judge.checks.dedup.wrongly_dropped import wrongly_dropped
from ackproof.judge.frames import Tables

_OF = ["run", "consumer"]


def receivers(t: Tables) -> DataFrame:
    """One row for each receiver; `wrong` if its copies or drops are not as expected."""
    handled = t.received.groupBy(*_OF).agg(
        F.count("*").alias("messages"), F.sum(F.col("accepted").cast("long")).alias("accepted")
    )
    through = duplicate_accepted(t).groupBy(*_OF).agg(F.sum(F.col("times") - 1).alias("duplicate_accepted"))
    dropped = wrongly_dropped(t).groupBy(*_OF).agg(F.count("*").alias("wrongly_dropped"))
    counts = ("messages", "accepted", "duplicate_accepted", "wrongly_dropped")
    expected = t.receivers.withColumnsRenamed({"copies": "copies_expected", "drops": "drops_expected"})
    for found in (handled, through, dropped, _costs(t)):
        expected = expected.join(t.small_side(found), on=_OF, how="left")
    wrong = _against("copies_expected", "duplicate_accepted") | _against("drops_expected", "wrongly_dropped")
    return (
        expected.withColumns({name: F.coalesce(F.col(name), F.lit(0)) for name in counts})
        .withColumn("wrong", wrong)
        .select(
            *("run", "consumer", "topic", "strategy", *counts, "copies_expected", "drops_expected", "wrong"),
            *("us_each", "deciding_us_each", "memory_bytes", "grown_bytes", "disk_bytes"),
        )
    )


def _costs(t: Tables) -> DataFrame:
    """Time for each message; the maximum of memory and database, and memory's maximum minus its minimum."""
    each = F.col("of") * 1000
    return (
        t.costs.groupBy(*_OF)
        .agg(
            F.sum("messages").alias("of"),
            F.sum("handling_ns").alias("handling_ns"),
            F.sum("deciding_ns").alias("deciding_ns"),
            F.max("memory_bytes").alias("memory_bytes"),
            (F.max("memory_bytes") - F.min("memory_bytes")).alias("grown_bytes"),
            F.max("disk_bytes").alias("disk_bytes"),
        )
        .withColumn("us_each", F.when(each > 0, F.col("handling_ns") / each))
        .withColumn("deciding_us_each", F.when(each > 0, F.col("deciding_ns") / each))
        .select(*_OF, "us_each", "deciding_us_each", "memory_bytes", "grown_bytes", "disk_bytes")
    )


def _against(expected: str, found: str) -> Column:
    missing = (F.col(expected) == "required") & (F.col(found) == 0)
    return missing | ((F.col(expected) == "forbidden") & (F.col(found) > 0))
