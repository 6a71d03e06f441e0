"""allocation: where the replicas of each partition are, and whether Kafka's documented rule puts them there.

With ZooKeeper, two random numbers, a start and a shift, must explain the exact sequence. The check infers them, and
shows the result of the rule beside Kafka's answer. With KRaft it checks only the rule's properties. The assignments are
few, so they are collected and compared in plain Python (`ackproof.judge.replica_placement`).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ackproof.core.sites import FIRST_SITE
from ackproof.judge.frames import TP, Tables
from ackproof.judge.replica_placement import documented, drawn, violations
from ackproof.spark.session import collected, few_rows

_FOUND = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("topic", T.IntegerType()),
        T.StructField("partition", T.IntegerType()),  # -1: the whole topic
        T.StructField("replicas", T.ArrayType(T.IntegerType())),
        T.StructField("documented", T.ArrayType(T.IntegerType())),
        T.StructField("start", T.IntegerType()),
        T.StructField("shift", T.IntegerType()),
        T.StructField("wrong", T.BooleanType()),
        T.StructField("problem", T.StringType()),
    ]
)


def allocation(t: Tables) -> DataFrame:
    """The first known replicas of each partition, and a row with `wrong` for what the rule does not explain.

    Partitions that a topic gained later are placed anew, with other random numbers: they are left out.
    """
    first = (
        t.state.filter(F.col("replicas").isNotNull())
        .join(t.small_side(t.sites.filter(F.col("site") == FIRST_SITE)), on=["run", "topic"], how="left_semi")
        .groupBy(*TP)
        .agg(F.min_by("replicas", "at_ns").alias("replicas"))
    )
    topics: dict[tuple[int, int], dict[int, list[int]]] = defaultdict(dict)
    for row in collected(first):
        if row["partition"] < t.layouts[row["run"]].partitions.get(row["topic"], row["partition"] + 1):
            topics[(row["run"], row["topic"])][row["partition"]] = list(row["replicas"])
    found: list[tuple[Any, ...]] = []
    for (run, topic), by_partition in sorted(topics.items()):
        layout = t.layouts[run]
        numbers = sorted(by_partition)
        in_a_row = numbers == list(range(len(numbers)))  # if one is unknown, so is the sequence
        assignment = [by_partition[number] for number in numbers]
        alternating = layout.mode == "kraft" and len(set(layout.racks.values())) > 1
        problems = [
            (numbers[place] if place >= 0 else place, words)
            for place, words in violations(assignment, layout.brokers, layout.racks, alternating)
            if place >= 0 or in_a_row
        ]
        sequence = layout.mode == "zookeeper" and in_a_row
        draw = drawn(assignment, layout.brokers, layout.racks) if sequence else None
        if sequence and draw is None:
            problems.append((-1, "no start and no shift explain this sequence"))
        made = documented(layout.brokers, len(assignment), len(assignment[0]), *draw, layout.racks) if draw else None
        found += [
            (run, topic, place, by_partition[place], made and made[at], *(draw or (None, None)), False, None)
            for at, place in enumerate(numbers)
        ]
        found += [
            (run, topic, place, by_partition.get(place), None, None, None, True, words) for place, words in problems
        ]
    return few_rows(t.state.sparkSession, found, _FOUND)
