"""inconsistent_offset: one offset of a partition was seen with two messages. It should name one record for ever.

The check asks acknowledgements, live reads and the final log together. A leader that is cut off and goes on
acknowledging gives out the same offsets again, so every loss by overwriting shows here too.

Producer and number are packed into one long, so that a single grouped pass over the offsets finds the lowest and the
highest message of each source.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import POSITION, Tables

_SEQ_BITS = 40
_UNREADABLE = -1


def inconsistent_offset(t: Tables) -> DataFrame:
    """An offset seen with two messages; `seen` names the lowest and the highest message of each source."""
    bounds: dict[str, Column] = {
        f"{by}_{name}": function(F.when(F.col("by") == by, F.col("value")))
        for by in ("ack", "log", "read")
        for name, function in (("low", F.min), ("high", F.max))
    }
    seen = F.array_distinct(F.filter(F.array(*(_seen(name) for name in bounds)), lambda one: one["seq"].isNotNull()))
    return (
        _sightings(t)
        .groupBy(*POSITION)
        .agg(F.min("value").alias("low"), F.max("value").alias("high"), *(c.alias(n) for n, c in bounds.items()))
        .filter(F.col("low") != F.col("high"))
        .select("run", "topic", "partition", "offset", seen.alias("seen"))
    )


def _sightings(t: Tables) -> DataFrame:
    columns = [*map(F.col, POSITION), _packed().alias("value")]
    placed = (F.col("outcome") == "ok") & F.col("offset").isNotNull() & (F.col("partition") >= 0)
    acked = t.sends.filter(placed).select(*columns, F.lit("ack").alias("by"))
    read = t.reads.select(*columns, F.lit("read").alias("by"))
    logged = t.union(t.log, t.mirrored).select(*columns, F.lit("log").alias("by"))
    return t.union(acked, read, logged)


def _packed() -> Column:
    value = F.shiftleft(F.col("producer").cast("long"), _SEQ_BITS).bitwiseXOR(F.col("seq"))
    return F.when((F.col("producer") < 0) | (F.col("seq") < 0), F.lit(_UNREADABLE).cast("long")).otherwise(value)


def _seen(column: str) -> Column:
    value = F.col(column)
    readable = value != _UNREADABLE
    seq = value.bitwiseAND(F.lit((1 << _SEQ_BITS) - 1))
    return F.struct(
        F.lit(column.split("_")[0]).alias("by"),
        F.when(readable, F.shiftright(value, _SEQ_BITS)).otherwise(value).cast("int").alias("producer"),
        F.when(readable, seq).otherwise(value).alias("seq"),
    )
