"""Records as Spark's connector gives them, as rows of a journal's log."""

from __future__ import annotations

from typing import Any

import pytest
from asking import spark
from pyspark.sql import types as T

from ackproof.clients.common import pack, unpack
from ackproof.judge.from_kafka import parsed
from ackproof.judge.spark import collected, few_rows

RECORDS = T.StructType(
    [
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("value", T.BinaryType()),
    ]
)
VALUES = [
    pack(3, 7), pack(3, 2**40, b"padding"), b"short", None, b"not ours but long enough", b"", b"1.12", b"2.0", b"1.07",
    b"1.12 ", b"0.5", b"\xff\xfe", b"12345678901.1",
]  # fmt: skip


@pytest.mark.parametrize("foreign", [[], [0], [0, 1]])
def test_a_value_is_what_the_final_read_takes_it_for(foreign: list[int]) -> None:
    records = few_rows(spark(), [("orders", 1, 10 + n, value) for n, value in enumerate(VALUES)], RECORDS)
    rows: list[Any] = sorted(
        collected(parsed(records, 5, {"payments": 0, "orders": 2}, foreign)), key=lambda r: r.offset
    )
    assert [(row.producer, row.seq) for row in rows] == [unpack(value, foreign) for value in VALUES]
    assert {(row.run, row.topic, row.partition, row.leader_epoch) for row in rows} == {(5, 2, 1, None)}
    assert [row.offset for row in rows] == [10 + n for n in range(len(VALUES))]
