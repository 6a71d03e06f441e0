"""offset_translation: where a group would continue at a mirror, beside where it continues in the topic itself.

A mirror translates a group's offsets now and then, and prefers offsets that are too low: a group that moves there reads
some records again. An offset that is too high makes the group miss records; such rows count. A mirror that holds a
record twice, as after it was killed, delivers the record as long as the last copy is still to come.

Records that only one side holds are `mirror_differs`; no offset could make up for them. Once the group reads at the
mirror, it commits there by itself, and its offsets there are no translation.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.checks.mirror.mirror_differs import pairs
from ackproof.judge.frames import TP, Tables


def offset_translation(t: Tables) -> DataFrame:
    """A group in a partition: its two offsets, and how many records it would read again and would miss."""
    moved = t.reads.groupBy("run", "group", F.col("topic").alias("mirror")).agg(F.min("read_ns").alias("moved_ns"))
    asked = (
        t.translated.withColumnsRenamed({"offset": "own", "mirror_offset": "there"})
        .join(t.small_side(moved), on=["run", "group", "mirror"], how="left")
        .filter(F.col("moved_ns").isNull() | (F.col("at_ns") < F.col("moved_ns")))
    )
    # Null, and so not counted, if an offset is unknown or if one side does not hold the record.
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
