"""unstable_read: a consumer was given a record that the healed log does not hold at that offset.

Records that retention or compaction removed are left out: their removal breaks no promise.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import POSITION, TP, Tables


def unstable_read(t: Tables) -> DataFrame:
    """A live read of an offset at which the final log holds another message, or none."""
    held = t.union(t.log, t.mirrored)
    now = held.select(*POSITION, F.col("producer").alias("now_producer"), F.col("seq").alias("now_seq"))
    ends = t.union(t.ends, t.mirror_ends).select(*TP, "log_start", "high_watermark", "compacted")
    gone = F.col("now_producer").isNull()
    compacted = F.col("compacted") & (F.col("offset") < F.col("high_watermark"))
    rightly_gone = gone & ((F.col("offset") < F.col("log_start")) | compacted)
    other = (F.col("now_producer") != F.col("producer")) | (F.col("now_seq") != F.col("seq"))
    return (
        t.reads.join(now, on=list(POSITION), how="left")
        .join(t.small_side(ends), on=list(TP), how="left")
        .filter((gone | other) & ~F.coalesce(rightly_gone, F.lit(False)))
        .select(
            "run",
            "topic",
            "partition",
            "offset",
            "consumer",
            "producer",
            "seq",
            "read_ns",
            "now_producer",
            "now_seq",
        )
    )
