"""Mirror differs: a topic and what a mirror made of it do not hold the same records in the same order.

Compared partition by partition, and by value, for a mirror has offsets of its own; and what records hold by the sum of
their digests, where the run has any. What the original's partition no longer holds, because retention took it, is no
difference: which is known of what was acknowledged. Records that are none of ours have no value; they are counted
together.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables

_KEY = [*TP, "producer", "seq"]


def mirror_differs(t: Tables) -> DataFrame:
    """A value that the mirror lacks, has more often, holds otherwise, or has before one that came earlier."""
    expired = t.fates.filter(F.col("fate") == "expired").select(*_KEY)
    both = pairs(t).join(expired, on=_KEY, how="left_anti")
    return t.union(*differences(both))


def pairs(t: Tables) -> DataFrame:
    """Each value of a mirrored topic or of its mirror: how often it is in each, and where first and last."""
    mirrored = t.mirrored.withColumnRenamed("topic", "mirror").join(
        t.small_side(t.mirrors), on=["run", "mirror"], how="inner"
    )
    original = t.log.join(t.small_side(t.mirrors), on=["run", "topic"], how="inner")
    return pairs_of(original, mirrored)


def pairs_of(original: DataFrame, mirrored: DataFrame) -> DataFrame:
    """The same of any two frames of records, both under the original's topic."""
    own = _places(original, "")
    other = _places(mirrored, "mirror_")
    return own.join(other, on=_KEY, how="full").fillna(0, ["copies", "mirror_copies"])


def _places(records: DataFrame, whose: str) -> DataFrame:
    held = F.sum(F.col("digest").cast("decimal(20,0)"))
    places = {"offset": F.min("offset"), "last_offset": F.max("offset")}
    counted = {"copies": F.count("*"), **places, "held": held}
    return records.groupBy(*_KEY).agg(*(column.alias(f"{whose}{name}") for name, column in counted.items()))


def differences(both: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Of such pairs, those that one side holds more often or otherwise, and those that stand in another order."""
    in_mirror = Window.partitionBy(*TP).orderBy("mirror_offset")
    stands = F.col("offset").isNotNull() & F.col("mirror_offset").isNotNull() & (F.col("seq") >= 0)
    fewer, more = F.col("mirror_copies") < F.col("copies"), F.col("mirror_copies") > F.col("copies")
    changed = F.col("held") != F.col("mirror_held")
    counted = (
        both.withColumn("difference", F.when(fewer, "missing").when(more, "extra").when(changed, "changed"))
        .withColumn("previous_offset", F.lit(None).cast("long"))
        .filter(F.col("difference").isNotNull())
    )
    moved = (
        # Only among those that stand in both: what is missing puts nothing out of order.
        both.filter(stands)
        .withColumn("previous_offset", F.lag("offset").over(in_mirror))
        .filter(F.col("offset") <= F.col("previous_offset"))
        .withColumn("difference", F.lit("out of order"))
    )
    columns = [*TP, "difference", "producer", "seq", "offset", "mirror_offset", "previous_offset"]
    columns += ["copies", "mirror_copies"]
    return counted.select(*columns), moved.select(*columns)
