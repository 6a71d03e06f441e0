"""mirror_layout: how a mirror rightly differs from its topic: in the topic's name, and in the offsets."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.checks.mirror.mirror_differs import pairs
from ackproof.judge.frames import TP, Tables


def mirror_layout(t: Tables) -> DataFrame:
    """A partition and its mirror: how many records each holds, and the least and greatest difference of their offsets.

    The offsets are those of each message's first copy. Records that are not ours have no number, and are not compared.
    """
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
