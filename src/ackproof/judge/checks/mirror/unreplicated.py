"""unreplicated: a message acknowledged at one site was missing from its mirror when the producers moved to the other.

What the mirror held at that moment follows from how far its log reached, which the observer asks several times a
second, and from what the final read found below that offset. The last answer before the move counts, from the leader of
the newest epoch.

A mirror copies each partition in order. So its lag explains a missing message if the message's offset is above all that
the mirror had copied. A message that the mirror passed over is unexplained.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.checks.mirror.mirror_differs import pairs
from ackproof.judge.frames import TP, Tables
from ackproof.judge.site_moves import acks, moves


def unreplicated(t: Tables) -> DataFrame:
    """A send acknowledged before the move that the mirror did not hold then, and how far the mirror had copied."""
    own = acks(t)
    written = moves(own).select("run", F.col("from_site").alias("site"), F.col("first_ns").alias("moved_ns"))
    sent = own.filter(F.col("offset").isNotNull()).select(
        *TP, "producer", "seq", "done_ns", "site", F.col("offset").alias("acked_offset")
    )
    before = (
        sent.join(t.small_side(t.mirrors), on=["run", "topic"], how="left_semi")
        .join(t.small_side(written), on=["run", "site"], how="inner")
        .filter(F.col("done_ns") <= F.col("moved_ns"))
        .join(t.small_side(_ends(t, written)), on=[*TP, "moved_ns"], how="left")
        .fillna({"mirror_end": 0, "copied_to": -1})  # no answer before the move: nothing is known to have been there
    )
    copied = pairs(t).select(*TP, "producer", "seq", "mirror_offset")
    return (
        before.join(copied, on=[*TP, "producer", "seq"], how="left")
        .filter(F.col("mirror_offset").isNull() | (F.col("mirror_offset") >= F.col("mirror_end")))
        .withColumn("explained", F.col("acked_offset") > F.col("copied_to"))
        .select(
            *TP,
            F.col("acked_offset").alias("offset"),
            "producer",
            "seq",
            "done_ns",
            "moved_ns",
            "copied_to",
            "mirror_offset",
            "explained",
        )
    )


def _ends(t: Tables, written: DataFrame) -> DataFrame:
    """For each move and mirrored partition: the mirror's end at that moment, and the last offset copied by then."""
    seen = (
        t.state.filter(F.col("log_end").isNotNull() & (F.col("broker") == F.col("leader")))
        .withColumnRenamed("topic", "mirror")
        .join(
            t.small_side(t.mirrors.join(t.sites, on=["run", "topic"], how="inner")), on=["run", "mirror"], how="inner"
        )
        .join(t.small_side(written), on=["run", "site"], how="inner")
        .filter(F.col("at_ns") + F.col("took_ns") <= F.col("moved_ns"))
        .groupBy(*TP, "moved_ns")
        .agg(F.max_by("log_end", F.struct("leader_epoch", "at_ns")).alias("mirror_end"))
    )
    held = F.when(F.col("mirror_offset") < F.col("mirror_end"), F.col("offset"))
    return (
        seen.join(pairs(t), on=list(TP), how="left")
        .groupBy(*TP, "moved_ns", "mirror_end")
        .agg(F.coalesce(F.max(held), F.lit(-1)).alias("copied_to"))
    )
