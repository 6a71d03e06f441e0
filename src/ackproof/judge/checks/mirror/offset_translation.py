"""Translated: where a group goes on at a mirror, beside where it goes on in the topic itself.

A mirror translates a group's offsets now and then, and rather too low than too high: whoever moves there reads some
records again. Too high would be a hole in what the group is given; such rows count. A mirror that holds a record twice,
as one that was killed does, gives it as long as the last of the two is still to come. What only one of both holds is
`mirror_differs`, and nothing that the group's place there could mend. Once the group reads at the mirror, what stands
there is its own word, and no translation.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.checks.mirror.mirror_differs import pairs
from ackproof.judge.frames import TP, Tables


def offset_translation(t: Tables) -> DataFrame:
    """A group in a partition: its two offsets, how many records it would read again, and how many it would miss."""
    moved = t.reads.groupBy("run", "group", F.col("topic").alias("mirror")).agg(F.min("read_ns").alias("moved_ns"))
    asked = (
        t.translated.withColumnsRenamed({"offset": "own", "mirror_offset": "there"})
        .join(t.small_side(moved), on=["run", "group", "mirror"], how="left")
        .filter(F.col("moved_ns").isNull() | (F.col("at_ns") < F.col("moved_ns")))
    )
    # Null, and so not counted, where a place is not known, or where one of the two does not hold the record.
    done, not_begun = F.col("last_offset") < F.col("own"), F.col("offset") >= F.col("own")
    done_there = F.col("mirror_last_offset") < F.col("there")
    return (
        asked.join(pairs(t), on=list(TP), how="left")
        .groupBy(*TP, "group", "at_ns", "mirror", "own", "there")
        .agg(
            F.count_if(done & ~done_there).alias("again"),
            F.count_if(not_begun & done_there).alias("missed"),
        )
        .withColumn("ahead", F.col("missed") > 0)
        .select(
            "run",
            "group",
            "topic",
            "partition",
            "at_ns",
            F.col("own").alias("offset"),
            "mirror",
            F.col("there").alias("mirror_offset"),
            "again",
            "missed",
            "ahead",
        )
    )
