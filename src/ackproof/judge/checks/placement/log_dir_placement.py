"""log_dir_placement: which directories a broker chose for new logs, beside the result of Kafka's documented rule.

The lab lists the logs in each directory before and after topics are created; between two looks no log moves or goes.
The lists are short, so they are collected and compared in plain Python (`ackproof.judge.replica_placement`).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from ackproof.judge.frames import Tables
from ackproof.judge.replica_placement import filled
from ackproof.spark.session import collected, few_rows

_COUNTS = T.ArrayType(T.IntegerType())
_FOUND = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("broker", T.IntegerType()),
        T.StructField("step", T.IntegerType()),
        T.StructField("before", _COUNTS),  # how many logs each directory held, in the order of the directories
        T.StructField("after", _COUNTS),
        T.StructField("documented", _COUNTS),  # the result of the rule, the fullest first
        T.StructField("given", T.ArrayType(T.StringType())),
        T.StructField("wrong", T.BooleanType()),
    ]
)


def log_dir_placement(t: Tables) -> DataFrame:
    """Each time that a broker got new logs; `wrong` if it passed over a directory with the fewest."""
    looks: dict[tuple[int, int], dict[int, dict[int, set[str]]]] = defaultdict(lambda: defaultdict(dict))
    for row in collected(t.places):
        looks[row["run"], row["broker"]][row["step"]][row["directory"]] = set(row["partitions"])
    found: list[tuple[Any, ...]] = []
    for (run, broker), steps in sorted(looks.items()):
        earlier: dict[int, set[str]] = {}
        for step, now in sorted(steps.items()):
            given = sorted(name for directory, names in now.items() for name in names - earlier.get(directory, set()))
            # The first look shows the logs that were there before the first topic was created.
            if step > 0 and given:
                before = [len(earlier.get(directory, ())) for directory in sorted(now)]
                after = [len(now[directory]) for directory in sorted(now)]
                rule = filled(before, len(given))
                found.append((run, broker, step, before, after, rule, given, sorted(after, reverse=True) != rule))
            earlier = now
    return few_rows(t.places.sparkSession, found, _FOUND)
