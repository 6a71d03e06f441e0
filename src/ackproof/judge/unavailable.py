"""Unavailable: somebody waited for an acknowledgement of a partition, and none came for too long.

A pause between two acknowledgements counts from the moment that a send was waiting in it: a producer that sends once a
second makes no outage. The first pause opens with the first send, the last closes with the last outcome. A send whose
partition the client never said waits for the only partition of its topic; where there are several, for none.

Pauses are found from the first and last acknowledgement of each slice of time no longer than the threshold: two
acknowledgements further apart than that cannot lie in one slice, so nothing has to be sorted.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.tables import TP, Tables


def unavailable(t: Tables) -> DataFrame:
    """A wait between acks of a tp above the threshold: from when, until when, and how many sends failed in it."""
    sends = _attempts(t)
    until = F.least("until_ns", "close_ns")
    waits = (F.col("sent_ns") < F.col("close_ns")) & (F.col("until_ns") > F.col("open_ns"))
    failed = (F.col("outcome") != "ok") & (F.col("until_ns") <= F.col("close_ns"))
    return (
        sends.join(F.broadcast(_pauses(sends, t)), on=list(TP), how="inner")
        .filter(waits)
        .groupBy(*TP, "open_ns", "close_ns", "unavailable_ns")
        .agg(
            F.min(F.greatest("sent_ns", "open_ns")).alias("from_ns"),
            F.max(until).alias("to_ns"),
            F.count(F.lit(1)).alias("waiting"),
            F.sum(failed.cast("long")).alias("failed"),
        )
        .filter(F.col("to_ns") - F.col("from_ns") > F.col("unavailable_ns"))
        .withColumn("ms", (F.col("to_ns") - F.col("from_ns")) / 1e6)
        .select("run", "topic", "partition", "from_ns", "to_ns", "ms", "waiting", "failed")
    )


def _attempts(t: Tables) -> DataFrame:
    """Sends with the partition they waited for and the time until which they did."""
    last = F.max(F.greatest(F.col("sent_ns"), F.coalesce(F.col("done_ns"), F.col("sent_ns"))))
    end = t.sends.groupBy("run").agg(last.alias("end_ns"))
    only = (
        t.ends.groupBy("run", "topic")
        .agg(F.count(F.lit(1)).alias("partitions"), F.min("partition").alias("only_partition"))
        .filter(F.col("partitions") == 1)
        .select("run", "topic", "only_partition")
    )
    said = F.when(F.col("partition") >= 0, F.col("partition")).otherwise(F.col("only_partition"))
    return (
        t.sends.filter(F.col("sent_ns").isNotNull())
        .join(F.broadcast(only), on=["run", "topic"], how="left")
        .join(F.broadcast(end), on=["run"], how="inner")
        .withColumn("partition", said)
        .withColumn("until_ns", F.coalesce(F.col("done_ns"), F.col("end_ns")))
        .filter(F.col("partition").isNotNull())
        .select(*TP, "sent_ns", "until_ns", "outcome")
    )


def _pauses(sends: DataFrame, t: Tables) -> DataFrame:
    """Every stretch between acks longer than the threshold, whether or not anybody waited."""
    timed = sends.join(F.broadcast(t.runs.select("run", "unavailable_ns")), on=["run"], how="inner")
    slices = (
        timed.filter(F.col("outcome") == "ok")
        .withColumn("slice", F.floor(F.col("until_ns") / F.col("unavailable_ns")))
        .groupBy(*TP, "slice")
        .agg(F.min("until_ns").alias("first_ns"), F.max("until_ns").alias("last_ns"))
        .select(*TP, "first_ns", "last_ns")
    )
    whole = timed.groupBy(*TP, "unavailable_ns").agg(
        F.min("sent_ns").alias("begin_ns"), F.max("until_ns").alias("end_ns")
    )
    begin = whole.select(*TP, F.col("begin_ns").alias("first_ns"), F.col("begin_ns").alias("last_ns"))
    end = whole.select(*TP, F.col("end_ns").alias("first_ns"), F.col("end_ns").alias("last_ns"))
    by_time = Window.partitionBy(*TP).orderBy("first_ns", "last_ns")
    return (
        slices.unionByName(begin)
        .unionByName(end)
        .withColumn("open_ns", F.lag("last_ns").over(by_time))
        .withColumnRenamed("first_ns", "close_ns")
        .join(F.broadcast(whole.select(*TP, "unavailable_ns")), on=list(TP), how="inner")
        .filter(F.col("close_ns") - F.col("open_ns") > F.col("unavailable_ns"))
        .select(*TP, "open_ns", "close_ns", "unavailable_ns")
    )
