"""The schemas of the judge's tables as Spark has them: the journal's own, and the few that are made from a run's record
or counted while a large journal is folded."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as T

from ackproof.model.journal_tables import TABLES

_SPARK_TYPES: dict[pa.DataType, T.DataType] = {
    pa.int32(): T.IntegerType(),
    pa.int64(): T.LongType(),
    pa.float64(): T.DoubleType(),
    pa.string(): T.StringType(),
    pa.bool_(): T.BooleanType(),
}
RUNS = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("rate_line", T.DoubleType()),
        T.StructField("unavailable_ns", T.LongType()),
        T.StructField("late_ns", T.LongType()),
        T.StructField("begin_ns", T.LongType()),
        T.StructField("last_ns", T.LongType()),
        T.StructField("end_ns", T.LongType()),
    ]
)
CONSUMERS = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("consumer", T.IntegerType()),
        T.StructField("group", T.IntegerType()),
        T.StructField("topic", T.IntegerType()),
        T.StructField("start", T.StringType()),
        T.StructField("readers", T.IntegerType()),  # how many of its group are expected to be given anything
        T.StructField("isolation", T.StringType()),
    ]
)
PRODUCERS = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("producer", T.IntegerType()),
        T.StructField("topic", T.IntegerType()),
        T.StructField("acks", T.StringType()),
        T.StructField("rate", T.DoubleType()),
        T.StructField("outbox", T.BooleanType()),
        T.StructField("refused", T.BooleanType()),
        T.StructField("input", T.IntegerType()),  # the topic that its transactions process
        T.StructField("table", T.IntegerType()),
        T.StructField("threads", T.IntegerType()),
    ]
)
RECEIVERS = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("consumer", T.IntegerType()),
        T.StructField("topic", T.IntegerType()),
        *(T.StructField(name, T.StringType()) for name in ("strategy", "copies", "drops")),
    ]
)
MOMENTS = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("place", T.IntegerType()),
        T.StructField("moment", T.StringType()),
        T.StructField("moment_ns", T.LongType()),
    ]
)
NUMBERS = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("producer", T.IntegerType()),
        T.StructField("first_seq", T.LongType()),
        T.StructField("last_seq", T.LongType()),
    ]
)
PHASES = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("phase", T.IntegerType()),
        T.StructField("after", T.StringType()),
        T.StructField("from_ns", T.LongType()),
        T.StructField("to_ns", T.LongType()),
    ]
)
EXITS = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("node", T.StringType()),
        T.StructField("expected", T.ArrayType(T.IntegerType())),
    ]
)
COVERS = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("fault", T.IntegerType()),
        T.StructField("from_ns", T.LongType()),
        T.StructField("to_ns", T.LongType()),  # null: for ever
    ]
)
AWAITED = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("rule", T.StringType()),
        T.StructField("fault", T.IntegerType()),
        *(
            T.StructField(name, T.LongType())
            for name in ("from_ns", "proved_ns", "raise_by_ns", "clear_by_ns", "watched_ns")
        ),
    ]
)
LIVES = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("consumer", T.IntegerType()),
        T.StructField("gone", T.ArrayType(T.LongType())),
    ]
)
SITES = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("topic", T.IntegerType()),
        T.StructField("site", T.StringType()),
    ]
)
MIRRORS = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("topic", T.IntegerType()),
        T.StructField("mirror", T.IntegerType()),
    ]
)
SECONDS = T.StructType(
    [T.StructField(name, T.LongType()) for name in ("run", "second", "sent", "acked", "done", "read")]
)
LATENCIES = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("basis", T.StringType()),
        *(T.StructField(name, T.LongType()) for name in ("us", "sends", "max_ns", "late")),
    ]
)
STRETCHES = T.StructType(
    [
        T.StructField("run", T.LongType()),
        *(T.StructField(name, T.IntegerType()) for name in ("topic", "partition")),
        *(T.StructField(name, T.LongType()) for name in ("first", "last", "records")),
    ]
)
GIVEN = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("consumer", T.IntegerType()),
        *(T.StructField(name, T.LongType()) for name in ("read", "partitions")),
    ]
)
PRODUCED = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("producer", T.IntegerType()),
        *(T.StructField(name, T.LongType()) for name in ("acked", "begin_ns", "end_ns")),
    ]
)
STEPS = T.StructType(
    [
        T.StructField("run", T.LongType()),
        *(T.StructField(name, T.IntegerType()) for name in ("consumer", "assignment", "topic", "partition")),
        *(T.StructField(name, T.LongType()) for name in ("previous_offset", "offset")),
        T.StructField("producer", T.IntegerType()),
        *(T.StructField(name, T.LongType()) for name in ("seq", "read_ns", "poll")),
    ]
)
WAITS = T.StructType(
    [
        T.StructField("run", T.LongType()),
        *(T.StructField(name, T.IntegerType()) for name in ("topic", "partition")),
        *(T.StructField(name, T.LongType()) for name in ("from_ns", "to_ns")),
        T.StructField("ms", T.DoubleType()),
        *(T.StructField(name, T.LongType()) for name in ("waiting", "failed")),
    ]
)
CLAIMS = T.StructType(
    [
        T.StructField("run", T.LongType()),
        T.StructField("claim", T.IntegerType()),
        T.StructField("at", T.StringType()),
        T.StructField("topic", T.IntegerType()),
        T.StructField("partition", T.IntegerType()),  # null: every one
        *(
            T.StructField(name, T.ArrayType(T.IntegerType()))
            for name in ("one_of", "none_of", "in_sync", "out_of_sync")
        ),
        T.StructField("isr_full", T.BooleanType()),
        T.StructField("preferred", T.BooleanType()),
        T.StructField("no_leader", T.BooleanType()),
        T.StructField("same_leader_as", T.StringType()),
        T.StructField("acked", T.BooleanType()),
        T.StructField("words", T.StringType()),
    ]
)


def spark_schema(table: str) -> T.StructType:
    """The schema of a table of the journal as Spark has it."""
    return T.StructType([T.StructField(field.name, _spark_type(field.type)) for field in TABLES[table].schema])


def _spark_type(arrow: pa.DataType) -> T.DataType:
    if pa.types.is_list(arrow):
        return T.ArrayType(_spark_type(arrow.value_type))
    return _SPARK_TYPES[arrow]
