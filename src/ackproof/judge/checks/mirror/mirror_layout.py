"""Mirrored as: how a mirror differs where it may: by its topic's name, and by its offsets."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.checks.mirror.mirror_differs import pairs
from ackproof.judge.frames import TP, Tables


def mirror_layout(t: Tables) -> DataFrame:
    """A partition and its mirror: how many records each holds, and by how much the offsets differ at least and most:
    those of each value's first place. Records that are none of ours have no value, and so nothing to compare."""
    shift = F.when(F.col("seq") >= 0, F.col("mirror_offset") - F.col("offset"))
    return (
        pairs(t)
        .groupBy(*TP)
        .agg(
            F.sum("copies").alias("records"),
            F.sum("mirror_copies").alias("mirror_records"),
            F.min(shift).alias("least_shift"),
            F.max(shift).alias("most_shift"),
        )
        .join(t.small_side(t.mirrors), on=["run", "topic"], how="inner")
        .select("run", "topic", "partition", "mirror", "records", "mirror_records", "least_shift", "most_shift")
    )
