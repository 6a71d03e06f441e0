"""Allocation: a topic whose replicas do not stand where the documented rule puts them.

With ZooKeeper the exact sequence must be explained by two random numbers; KRaft is held to the properties only. The
assignments are few, so they are brought here and held against the rule in plain Python (`ackproof.allocation`).
"""

from __future__ import annotations

from collections import defaultdict

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ackproof.allocation import drawn, violations
from ackproof.judge.spark import collected
from ackproof.judge.tables import TP, Tables

_FOUND = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("topic", T.IntegerType()),
        T.StructField("partition", T.IntegerType()),  # -1: all of them together
        T.StructField("problem", T.StringType()),
        T.StructField("replicas", T.ArrayType(T.IntegerType())),
    ]
)


def allocation(t: Tables) -> DataFrame:
    """A partition, or a whole topic, that is not placed by the rule; by the first answer about it."""
    first = (
        t.state.filter(F.col("replicas").isNotNull() & (F.col("topic") >= 0))
        .groupBy(*TP)
        .agg(F.min_by("replicas", "at_ns").alias("replicas"))
    )
    topics: dict[tuple[int, int], dict[int, list[int]]] = defaultdict(dict)
    for row in collected(first):
        topics[(row["run"], row["topic"])][row["partition"]] = list(row["replicas"])
    found = []
    for (run, topic), by_partition in sorted(topics.items()):
        layout = t.layouts[run]
        assignment = [by_partition[partition] for partition in sorted(by_partition)]
        problems = violations(assignment, layout.brokers, layout.racks)
        if layout.mode == "zookeeper" and drawn(assignment, layout.brokers, layout.racks) is None:
            problems.append((-1, "no start and no shift explain this sequence"))
        found += [(run, topic, place, words, by_partition.get(place)) for place, words in problems]
    return t.state.sparkSession.createDataFrame(found, _FOUND).coalesce(1)
