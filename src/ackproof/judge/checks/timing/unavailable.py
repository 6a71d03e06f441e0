"""unavailable: a send waited for an acknowledgement of a partition for longer than the threshold.

A pause between two acknowledgements counts only from the moment when a send was waiting in it: a producer that sends
once a second causes no outage. The first pause opens with the first send, the last one closes with the last outcome. A
send whose partition the client never named waits for the only partition of its topic; if the topic has several, it
waits for none.

Pauses are found from the first and the last acknowledgement of each slice of time, which is as long as the threshold.
Two acknowledgements further apart than that cannot be in one slice, so nothing has to be sorted.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables


def unavailable(t: Tables) -> DataFrame:
    """A wait above the threshold between acknowledgements of a partition, and how many sends failed in it."""
    if t.waits is not None:
        return t.waits
    attempts = _attempts(t)
    waits = (F.col("sent_ns") < F.col("close_ns")) & (F.col("until_ns") > F.col("open_ns"))
    failed = (F.col("outcome") != "ok") & (F.col("until_ns") <= F.col("close_ns"))
    return (
        attempts.drop("unavailable_ns")
        .join(t.small_side(_pauses(attempts)), on=list(TP), how="inner")
        .filter(waits)
        .groupBy(*TP, "open_ns", "close_ns", "unavailable_ns")
        .agg(
            F.min(F.greatest("sent_ns", "open_ns")).alias("from_ns"),
            F.max(F.least("until_ns", "close_ns")).alias("to_ns"),
            F.count("*").alias("waiting"),
            F.count_if(failed).alias("failed"),
        )
        .filter(F.col("to_ns") - F.col("from_ns") > F.col("unavailable_ns"))
        .withColumn("ms", (F.col("to_ns") - F.col("from_ns")) / 1e6)
        .select("run", "topic", "partition", "from_ns", "to_ns", "ms", "waiting", "failed")
    )


def _attempts(t: Tables) -> DataFrame:
    """Sends, each with the partition that it waited for and the time until which it waited."""
    only = (
        t.ends.groupBy("run", "topic")
        .agg(F.count("*").alias("partitions"), F.min("partition").alias("only_partition"))
        .join(t.runs.select("run", "unavailable_ns", "end_ns"), on=["run"], how="inner")
        .withColumn("only_partition", F.when(F.col("partitions") == 1, F.col("only_partition")))
        .select("run", "topic", "only_partition", "unavailable_ns", "end_ns")
    )
    said = F.when(F.col("partition") >= 0, F.col("partition")).otherwise(F.col("only_partition"))
    return (
        t.sends.join(t.small_side(only), on=["run", "topic"], how="inner")
        .withColumn("partition", said)
        .withColumn("until_ns", F.coalesce(F.col("done_ns"), F.col("end_ns")))
        .select(*TP, "sent_ns", "until_ns", "outcome", "unavailable_ns")
    )


def _pauses(attempts: DataFrame) -> DataFrame:
    """Every pause between acknowledgements that is longer than the threshold, whether or not a send was waiting."""
    acked_ns = F.when(F.col("outcome") == "ok", F.col("until_ns"))
    by_time = Window.partitionBy(*TP).orderBy("slice")
    whole = Window.partitionBy(*TP).rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    slices = (
        # A send without an acknowledgement has no slice. It still says when the load began and ended.
        attempts.withColumn("slice", F.floor(acked_ns / F.col("unavailable_ns")))
        .groupBy(*TP, "unavailable_ns", "slice")
        .agg(
            F.min(acked_ns).alias("first_ns"),
            F.max(acked_ns).alias("last_ns"),
            F.min("sent_ns").alias("sent_ns"),
            F.max("until_ns").alias("until_ns"),
        )
        .withColumn("begin_ns", F.min("sent_ns").over(whole))
        .withColumn("end_ns", F.max("until_ns").over(whole))
        .withColumn("acked_ns", F.max("last_ns").over(whole))
        .withColumn("before_ns", F.lag("last_ns").over(by_time))
    )
    # Each slice closes the pause before it. The row without a slice, or the first slice, also gives both ends.
    before = F.struct(
        F.coalesce(F.col("before_ns"), F.col("begin_ns")).alias("open_ns"), F.col("first_ns").alias("close_ns")
    )
    after = F.struct(
        F.coalesce(F.col("acked_ns"), F.col("begin_ns")).alias("open_ns"), F.col("end_ns").alias("close_ns")
    )
    return (
        slices.select(*TP, "unavailable_ns", F.explode(F.array(before, after)).alias("pause"))
        .select(*TP, "unavailable_ns", "pause.*")
        .filter(F.col("close_ns") - F.col("open_ns") > F.col("unavailable_ns"))
        .distinct()
    )
