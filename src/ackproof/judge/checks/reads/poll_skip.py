"""poll_skip: a consumer jumped over records that exist.

Only offsets at which a record was seen count, so a gap left by a transaction marker or by compaction is no skip. A
record that only a reader of uncommitted messages saw does not count. In a compacted topic, a record that only another
consumer saw does not count either, because compaction may have removed it before this consumer came.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import POSITION, TP, VALUE, Tables
from ackproof.judge.read_steps import odd_steps

# Jumps and records are joined by block of offsets. Blocks are small because most jumps are over one marker.
BLOCK_BITS = 8


def poll_skip(t: Tables) -> DataFrame:
    """A step ahead of a consumer, within one assignment of a partition, over offsets that hold records."""
    step = ["run", "consumer", "assignment", "topic", "partition", "previous_offset", "offset", "read_ns", "poll"]
    first_block = F.shiftright(F.col("previous_offset") + 1, BLOCK_BITS)
    last_block = F.shiftright(F.col("offset") - 1, BLOCK_BITS)
    jumps = (
        odd_steps(t)
        .filter(F.col("offset") > F.col("previous_offset"))
        .withColumn("block", F.explode(F.sequence(first_block, last_block)))
    )
    compacted = t.union(t.ends, t.mirror_ends).filter(F.col("compacted")).select(*TP)
    seen = t.reads.join(t.small_side(compacted), on=list(TP), how="left_anti")
    if t.uncommitted is not None:
        seen = seen.join(t.uncommitted, on=list(VALUE), how="left_anti")
    there = (
        t.union(*(records.select(*POSITION) for records in (t.log, t.mirrored, seen)))
        .distinct()
        .withColumn("block", F.shiftright("offset", BLOCK_BITS))
        .withColumnRenamed("offset", "over")
    )
    jumped_over = (F.col("over") > F.col("previous_offset")) & (F.col("over") < F.col("offset"))
    return (
        jumps.join(there, on=["run", "topic", "partition", "block"], how="inner")
        .filter(jumped_over)
        .groupBy(*step)
        .agg(F.count("*").alias("skipped"), F.min("over").alias("first_skipped"))
        .select(*step, "skipped", "first_skipped")
    )
