"""claims: a claim of the scenario about leaders, in-sync replicas or acknowledgements that did not hold.

A claim about a partition without observations at that moment fails, and so does a claim about a topic that the final
read did not reach. An answer that does not name the in-sync replicas is no observation. "The same leader as before"
needs a leader: no leader both times does not satisfy it.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ackproof.judge.checks.leadership.leadership_history import leadership_history
from ackproof.judge.frames import Tables

LATELY_NS = 2_000_000_000


def claims(t: Tables) -> DataFrame:
    """A claim and a partition for which it does not hold, with the observations."""
    seen = leadership_history(t)
    places = t.union(*(ends.select("run", "topic", "partition") for ends in (t.ends, t.mirror_ends)))
    read = places.groupBy("run", "topic").agg(F.collect_set("partition").alias("read"))
    each = F.when(F.col("partition").isNotNull(), F.array("partition")).otherwise(F.col("read"))
    wanted = t.claims.join(t.small_side(read), on=["run", "topic"], how="left").withColumn(
        "partition", F.explode_outer(each)
    )
    then = seen.select("run", "topic", "partition", F.col("moment").alias("at"), "leader", "isr", "replicas")
    before = seen.select(
        "run", "topic", "partition", F.col("moment").alias("same_leader_as"), F.col("leader").alias("old_leader")
    )
    return (
        wanted.join(acked_before(t), on=["run", "topic", "partition", "at"], how="left")
        .join(then, on=["run", "topic", "partition", "at"], how="left")
        .join(before, on=["run", "topic", "partition", "same_leader_as"], how="left")
        .filter(~F.coalesce(_met(), F.lit(False)))
        .select("run", "claim", "words", "topic", "partition", "at", "leader", "isr", "replicas", "acks")
    )


def acked_before(t: Tables) -> DataFrame:
    """How many sends were acknowledged in the two seconds before each moment; no row if none were."""
    lately = (F.col("done_ns") <= F.col("moment_ns")) & (F.col("done_ns") > F.col("moment_ns") - LATELY_NS)
    return (
        t.sends.filter(F.col("outcome") == "ok")
        .join(t.small_side(t.moments), on=["run"], how="inner")
        .filter(lately)
        .groupBy("run", "topic", "partition", F.col("moment").alias("at"))
        .agg(F.count("*").alias("acks"))
    )


def _met() -> Column:
    leader, isr = F.col("leader"), F.col("isr")
    led = leader.isNotNull() & (leader >= 0)
    return (
        isr.isNotNull()
        & (F.col("one_of").isNull() | F.coalesce(F.array_contains(F.col("one_of"), leader), F.lit(False)))
        & (F.col("none_of").isNull() | ~F.coalesce(F.array_contains(F.col("none_of"), leader), F.lit(False)))
        & (F.col("in_sync").isNull() | (F.sort_array(isr) == F.sort_array(F.array_distinct("in_sync"))))
        & (F.col("out_of_sync").isNull() | ~F.arrays_overlap(isr, F.col("out_of_sync")))
        & (~F.col("isr_full") | (F.size(isr) >= F.size("replicas")))
        & (~F.col("preferred") | F.coalesce(leader == F.element_at("replicas", 1), F.lit(False)))
        & (~F.col("no_leader") | ~led)
        & (F.col("acked").isNull() | (F.col("acked") == F.col("acks").isNotNull()))
        & (F.col("same_leader_as").isNull() | (led & F.coalesce(leader == F.col("old_leader"), F.lit(False))))
    )
