"""mirror_differs: a topic and its mirror do not hold the same records in the same order.

Each partition is compared by message, because a mirror has offsets of its own. Contents are compared by the sum of
their digests, if the run has any. Messages that the original no longer holds, because retention removed them, are no
difference; this is known for acknowledged messages. Records that are not ours have no number; they are counted
together.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import TP, Tables

_KEY = [*TP, "producer", "seq"]


def mirror_differs(t: Tables) -> DataFrame:
    """A message that the mirror lacks, has more often, holds otherwise, or holds before an earlier one."""
    expired = t.fates.filter(F.col("fate") == "expired").select(*_KEY)
    both = pairs(t).join(expired, on=_KEY, how="left_anti")
    return t.union(*differences(both))


def pairs(t: Tables) -> DataFrame:
    """Each message of a mirrored topic or its mirror: how often each holds it, and where first and last."""
    mirrored = t.mirrored.withColumnRenamed("topic", "mirror").join(
        t.small_side(t.mirrors), on=["run", "mirror"], how="inner"
    )
    original = t.log.join(t.small_side(t.mirrors), on=["run", "topic"], how="inner")
    return pairs_of(original, mirrored)


def pairs_of(original: DataFrame, mirrored: DataFrame) -> DataFrame:
    """The same pairs for any two frames of records, both under the original's topic."""
    own = _places(original, "")
    other = _places(mirrored, "mirror_")
    return own.join(other, on=_KEY, how="full").fillna(0, ["copies", "mirror_copies"])


def _places(records: DataFrame, whose: str) -> DataFrame:
    held = F.sum(F.col("digest").cast("decimal(20,0)"))
    places = {"offset": F.min("offset"), "last_offset": F.max("offset")}
    counted = {"copies": F.count("*"), **places, "held": held}
    return records.groupBy(*_KEY).agg(*(column.alias(f"{whose}{name}") for name, column in counted.items()))


def differences(both: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The pairs of which one side holds more or other records, and the pairs that stand in another order."""
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
        # Only messages that both hold: a missing message puts no other out of order.
        both.filter(stands)
        .withColumn("previous_offset", F.lag("offset").over(in_mirror))
        .filter(F.col("offset") <= F.col("previous_offset"))
        .withColumn("difference", F.lit("out of order"))
    )
    columns = [*TP, "difference", "producer", "seq", "offset", "mirror_offset", "previous_offset"]
    columns += ["copies", "mirror_copies"]
    return counted.select(*columns), moved.select(*columns)
