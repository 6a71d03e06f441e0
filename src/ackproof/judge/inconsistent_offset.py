"""Inconsistent offset: an offset is supposed to name one record for ever; here it named two.

Acknowledgements, live reads and the final log are asked together. A leader that was cut off and went on acknowledging
gives the same offsets away a second time, so this comes with every loss by overwriting.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.tables import POSITION, Tables


def inconsistent_offset(t: Tables) -> DataFrame:
    """One (tp, offset) seen with two values; `seen` lists each with who saw it."""
    seen = _seen(t)
    several = (F.col("low_producer") != F.col("high_producer")) | (F.col("low_seq") != F.col("high_seq"))
    suspects = (
        seen.groupBy(*POSITION)
        .agg(
            F.min("producer").alias("low_producer"),
            F.max("producer").alias("high_producer"),
            F.min("seq").alias("low_seq"),
            F.max("seq").alias("high_seq"),
        )
        .filter(several)
    )
    return (
        seen.join(suspects.select(*POSITION), on=list(POSITION), how="left_semi")
        .groupBy(*POSITION)
        .agg(F.sort_array(F.collect_set(F.struct("by", "producer", "seq"))).alias("seen"))
        .select("run", "topic", "partition", "offset", "seen")
    )


def _seen(t: Tables) -> DataFrame:
    columns = [*POSITION, "producer", "seq"]
    placed = (F.col("outcome") == "ok") & F.col("offset").isNotNull() & (F.col("partition") >= 0)
    acked = t.sends.filter(placed).select(*columns, F.lit("ack").alias("by"))
    read = t.reads.select(*columns, F.lit("read").alias("by"))
    logged = t.log.select(*columns, F.lit("log").alias("by"))
    return acked.unionByName(read).unionByName(logged)
