"""Every row of the table of fates, and the near misses between them."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import functions as F

from ackproof.judge.fates import FATES, fate_counts
from ackproof.spark.session import collected
from tests.support.asking import spark, tables_of
from tests.support.histories import History

CASES: dict[str, tuple[str, Callable[[], History]]] = {
    "acked and at its own offset": ("survived", lambda: History().send(0, 0).log(0, 0)),
    "acked and at its own offset, with a copy before it": (
        "survived",
        lambda: History().send(0, 1).log(0, 0).log(1, 0),
    ),
    "acked and at its own offset, between two copies": (
        "survived",
        lambda: History().send(0, 1).log(0, 0).log(1, 0).log(2, 0),
    ),
    "acked and at its own offset, with a copy in another partition": (
        "survived",
        lambda: History().send(0, 0).log(0, 0).log(0, 0, partition=1),
    ),
    "acked and at another offset only": ("survived_moved", lambda: History().send(0, 1).log(0, 0).log(1, 7)),
    "acked and at another offset, with a copy at the same offset of another partition": (
        "survived_moved",
        lambda: History().send(0, 5).log(9, 0).log(5, 0, partition=1),
    ),
    "acked and at the same offset of another partition only": (
        "survived_moved",
        lambda: History().send(0, 0).log(0, 0, partition=1),
    ),
    "acked and at the same offset of a high partition and of another topic": (
        "survived_moved",
        lambda: History(topics=("orders", "payments")).send(0, 5).log(5, 0, partition=64).log(5, 0, topic=1),
    ),
    "acked, gone, and another value stands at its offset": (
        "lost_overwritten",
        lambda: History().send(0, 0).log(0, 9),
    ),
    "acked, gone, and an unreadable record stands at its offset": (
        "lost_overwritten",
        lambda: History().send(0, 0).log(0, -1, producer=-1),
    ),
    "acked, gone, at the high watermark": ("lost_truncated", lambda: History().send(0, 1).log(0, 9)),
    "acked, gone, past the high watermark": ("lost_truncated", lambda: History().send(0, 7).log(0, 9)),
    "acked, gone, just below the high watermark": ("lost_hole", lambda: History().send(0, 1).log(0, 9).end(2)),
    "acked, gone, just below the log start": ("expired", lambda: History().send(0, 4).log(5, 9).end(6, log_start=5)),
    "acked, gone, at the log start": ("lost_hole", lambda: History().send(0, 5).log(6, 9).end(7, log_start=5)),
    "acked, gone, and a later value of its key stands in a compacted topic": (
        "expired",
        lambda: History().send(0, 0, key=5).send(1, 1, key=5).log(1, 1).end(2, compacted=True),
    ),
    "acked, gone, and an earlier and a later value of its key stand in a compacted topic": (
        "expired",
        lambda: (
            History().send(0, 1, key=5).send(1, 0, key=5).send(2, 2, key=5).log(0, 1).log(2, 2).end(3, compacted=True)
        ),
    ),
    "acked, gone, and a later value of its key of unknown outcome stands in a compacted topic": (
        "expired",
        lambda: (
            History().send(0, 0, key=5).send(1, outcome="info", partition=-1, key=5).log(1, 1).end(2, compacted=True)
        ),
    ),
    "acked, gone, and a later value of its key stands in its compacted partition, and a copy of that in another": (
        "expired",
        lambda: (
            History()
            .send(0, 0, key=5)
            .send(1, 1, key=5)
            .log(1, 1)
            .log(0, 1, partition=1)
            .end(2, compacted=True)
            .end(1, partition=1, compacted=True)
        ),
    ),
    "acked and at its own offset, and another producer's message of that number stands there too": (
        "survived",
        lambda: History().send(0, 1, producer=1).log(0, 0).log(1, 0, producer=1),
    ),
    "acked, gone, and an earlier value of its key stands there, a later one in another partition": (
        "lost_hole",
        lambda: (
            History()
            .send(0, 1, key=5)
            .send(2, 0, key=5)
            .send(1, 5, key=5, partition=1)
            .log(0, 2)
            .log(5, 1, partition=1)
            .end(2, compacted=True)
            .end(6, partition=1, compacted=True)
        ),
    ),
    "acked, gone, and an earlier value of its key stands there, a later one in another topic": (
        "lost_hole",
        lambda: (
            History(topics=("orders", "payments"))
            .send(0, 1, key=5)
            .send(2, 0, key=5)
            .send(1, 5, key=5, topic=1)
            .log(0, 2)
            .log(5, 1, topic=1)
            .end(2, compacted=True)
            .end(6, topic=1, compacted=True)
        ),
    ),
    "acked, gone, and a later value of its key stands in another partition of a compacted topic": (
        "lost_hole",
        lambda: (
            History()
            .send(0, 0, key=5)
            .send(1, 1, key=5, partition=1)
            .log(1, 9)
            .log(1, 1, partition=1)
            .end(2, compacted=True)
            .end(2, partition=1, compacted=True)
        ),
    ),
    "acked, gone, without a key, and a later value without one stands in a compacted topic": (
        "lost_hole",
        lambda: History().send(0, 0).send(1, 1).log(1, 1).end(2, compacted=True),
    ),
    "acked, gone, and a later value of another key stands in a compacted topic": (
        "lost_hole",
        lambda: History().send(0, 0, key=5).send(1, 1, key=6).log(1, 1).end(2, compacted=True),
    ),
    "acked, gone, and only an earlier value of its key stands in a compacted topic": (
        "lost_hole",
        lambda: History().send(0, 1, key=5).send(1, 0, key=5).log(0, 1).log(2, 9).end(3, compacted=True),
    ),
    "acked, gone, and a later value of its key stands in a topic that is not compacted": (
        "lost_hole",
        lambda: History().send(0, 0, key=5).send(1, 1, key=5).log(1, 1).end(2),
    ),
    "acked without an offset, in the log": ("survived", lambda: History(acks="0").send(0, None).log(5, 0)),
    "acked without an offset, not in the log": ("lost_unplaced", lambda: History(acks="0").send(0, None).log(0, 9)),
    "unknown, in the log": ("recovered", lambda: History().send(0, outcome="info").log(0, 0)),
    "unknown, not in the log": ("not_written", lambda: History().send(0, outcome="info").log(0, 9)),
    "failed, in the log": ("resurrected", lambda: History().send(0, outcome="fail").log(0, 0)),
    "failed, not in the log": ("rejected", lambda: History().send(0, outcome="fail").log(0, 9)),
}


def test_every_row_of_the_table() -> None:
    histories = [make() for _, make in CASES.values()]
    for number, history in enumerate(histories):
        history.run = number
    rows = collected(tables_of(spark(), *histories).fates.filter(F.col("seq") == 0).select("run", "fate"))
    fates = {row["run"]: row["fate"] for row in rows}
    assert len(rows) == len(CASES)
    assert {name: fates[number] for number, name in enumerate(CASES)} == {
        name: expected for name, (expected, _) in CASES.items()
    }


def test_the_cases_cover_every_fate() -> None:
    assert {expected for expected, _ in CASES.values()} == set(FATES)


def test_a_number_that_was_reserved_and_never_reported_is_info() -> None:
    history = History().send(0, 0).block(0, 3).log(0, 0).log(1, 2)
    missing = spark().createDataFrame([(history.run, 0, 1), (history.run, 0, 2)], "run long, producer int, seq long")
    tables = tables_of(spark(), history, unreported=missing.coalesce(1))
    fates = {row["seq"]: row["fate"] for row in collected(tables.fates.select("seq", "fate"))}
    assert fates == {0: "survived", 1: "not_written", 2: "recovered"}


def _some_of_each() -> History:
    return (
        History()
        .send(0, 0)
        .send(1, 1)
        .send(2, 2)
        .send(3, 3)
        .send(4, outcome="info")
        .send(5, 7)
        .log(0, 0, epoch=1)
        .log(1, 1, epoch=2)
        .log(5, 1, epoch=3)  # again
        .log(2, 9, epoch=4)
        .log(3, 8, producer=1, epoch=4)
        .log(4, 3, epoch=5)
        .log(6, 5, epoch=5)  # before the acknowledged one
        .log(7, 5, epoch=5)
    )


def test_a_fate_comes_with_its_offset_and_copies() -> None:
    beside = ("copies", "log_epoch", "holder_producer", "holder_seq", "holder_epoch")
    rows = collected(tables_of(spark(), _some_of_each()).fates)
    assert {row["seq"]: (row["fate"], *(row[name] for name in beside)) for row in rows} == {
        0: ("survived", 1, 1, None, None, None),
        1: ("survived", 2, None, None, None, None),
        2: ("lost_overwritten", 0, None, 0, 9, 4),
        3: ("survived_moved", 1, 5, 1, 8, 4),
        4: ("not_written", 0, None, None, None, None),
        5: ("survived", 2, None, None, None, None),
    }


def test_the_messages_of_each_fate_and_their_extra_copies_are_counted() -> None:
    rows = collected(fate_counts(tables_of(spark(), _some_of_each()).fates))
    assert {row["fate"]: (row["sends"], row["extra_copies"]) for row in rows} == {
        "survived": (3, 2),
        "lost_overwritten": (1, 0),
        "survived_moved": (1, 0),
        "not_written": (1, 0),
    }


def test_the_positions_of_each_value_are_listed() -> None:
    history = History().log(2, 0, epoch=3).log(4, 0, epoch=2).log(7, 0, partition=1, epoch=1)
    history.log(5, -1, producer=-1).log(6, 1).log(8, 1, topic=1).log(9, 1, producer=1)
    rows = collected(tables_of(spark(), history).arrivals)
    told = ("producer", "seq", "topic", "partition", "copies", "first_offset", "last_offset")
    assert sorted(tuple(row[name] for name in told) for row in rows) == [
        (0, 0, 0, 0, 2, 2, 4),
        (0, 0, 0, 1, 1, 7, 7),
        (0, 1, 0, 0, 1, 6, 6),
        (0, 1, 1, 0, 1, 8, 8),
        (1, 1, 0, 0, 1, 9, 9),
    ]
