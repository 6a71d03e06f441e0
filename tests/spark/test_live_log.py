"""A log that is read from Kafka: its records become rows of the journal's log, and are judged."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as T

from ackproof.judge import live_log as from_kafka
from ackproof.judge.engine.parts import Pace
from ackproof.judge.live_log import Kafka, parsed
from ackproof.judge.pipeline import judge
from ackproof.model.journal_tables import TABLES
from ackproof.model.message import pack, unpack
from ackproof.model.verdict import CheckResult, Verdict
from ackproof.spark.session import collected, few_rows, without_socket_warnings
from tests.support.asking import session, spark
from tests.support.histories import History

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
def test_values_are_read_as_by_the_final_read(foreign: list[int]) -> None:
    records = few_rows(spark(), [("orders", 1, 10 + n, value) for n, value in enumerate(VALUES)], RECORDS)
    rows: list[Any] = sorted(
        collected(parsed(records, 5, {"payments": 0, "orders": 2}, foreign)), key=lambda r: r.offset
    )
    assert [(row.producer, row.seq) for row in rows] == [unpack(value, foreign) for value in VALUES]
    assert {(row.run, row.topic, row.partition, row.leader_epoch) for row in rows} == {(5, 2, 1, None)}
    assert [row.offset for row in rows] == [10 + n for n in range(len(VALUES))]


def failing() -> History:
    """Return a run in which broker 2 leads from 10 on, and broker 1 acknowledges at an offset that broker 2 reuses."""
    return (
        History(expect={"lost": "required"})
        .fault(("asked", 5), ("proved", 6), ("healed", 90))
        .state(0, 1, leader=1, epoch=0)
        .state(10, 2, leader=2, epoch=1)
        .state(30, 2, leader=2, epoch=1)
        .send(0, 0, sent=1)
        .send(1, 1, sent=2, done=11)
        .send(2, 1, sent=12, done=20)
        .log(0, 0, epoch=0)
        .log(1, 2, epoch=1)
        .end(2, epoch=1)
    )


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Verdict]:
    """Judge a run with the log of a cluster in place of the copy. Both are replaced by what they would return."""

    def judge_it(history: History, said: list[str] | None = None, **others: Any) -> Verdict:
        directory = history.write(tmp_path / "run")
        for table in ("log", "ends"):
            shutil.rmtree(directory / "journal" / table)
        rows = history.complete()

        @contextmanager
        def asking(*_: object) -> Iterator[Callable[[], from_kafka.Ends]]:
            told = {"run": history.run, "log_end": None, "leader_epoch": None, **others}
            yield lambda: [{**end, **told} for end in rows["ends"]]

        def read(*told: Any) -> None:
            log = [{"run": history.run, **row, "leader_epoch": None} for row in rows["log"]]
            told[-1].mkdir()
            pq.write_table(pa.Table.from_pylist(log, TABLES["log"].schema), told[-1] / "part.parquet")

        monkeypatch.setattr(from_kafka, "_asking", asking)
        monkeypatch.setattr(from_kafka, "_read", read)
        monkeypatch.setattr(from_kafka.settled, "__defaults__", (0.02, 0.2 if others else 60.0))
        (verdict,) = judge([directory], session=session(), kafka=Kafka("kafka:9092", {}), progress=(said or []).append)
        return verdict

    return judge_it


def check(verdict: Verdict, name: str) -> CheckResult:
    return next(each for each in verdict.checks if each.name == name)


def test_checks_that_need_the_epochs_of_records_are_not_applicable(
    judged: Callable[..., Verdict], tmp_path: Path
) -> None:
    (drained,) = judge([failing().write(tmp_path / "drained")], session=session())
    assert (drained.result, check(drained, "stale_leader_ack").found, drained.failover[0].first_ack_ms) == (
        "confirmed", 1, 14.0,
    )  # fmt: skip
    verdict = judged(failing())
    assert (verdict.result, verdict.lost) == ("confirmed", 1)
    zombie = check(verdict, "stale_leader_ack")
    assert (zombie.result, zombie.found) == ("not applicable", None)
    assert "does not tell the epochs" in zombie.text
    for told in (msgspec.to_builtins(verdict.failover[0]), check(verdict, "failover").witnesses[0]):
        assert "first_ack_ms" not in told
        assert told["new_epoch_ms"] == 4.0


@pytest.mark.parametrize("expected", ["required", "forbidden"])
def test_a_scenario_that_expects_something_of_such_a_check_gets_unknown(
    judged: Callable[..., Verdict], expected: Any
) -> None:
    history = failing()
    history.expect["stale_leader_ack"] = expected
    verdict = judged(history)
    assert (verdict.result, check(verdict, "stale_leader_ack").result) == ("unknown", "unknown")


def test_a_log_whose_end_is_not_known_is_no_evidence(judged: Callable[..., Verdict]) -> None:
    verdict = judged(failing(), isr=[1, 3])
    assert (verdict.result, verdict.lost, check(verdict, "lost").result) == ("unknown", None, "unknown")
    assert "only [1, 3] of [1, 2, 3] are in sync" in verdict.sentence


def test_the_judge_says_beforehand_how_much_it_will_read(judged: Callable[..., Verdict]) -> None:
    said = ["nothing yet"]
    judged(failing(), said)
    assert "reading 2 records of 1 partition from kafka:9092" in said


def test_the_judge_reports_the_progress_of_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_kafka, "FOLLOW_S", 0.05)
    told: list[tuple[int, int]] = []
    pace = Pace(lambda done, of, _: told.append((done, of)), "records read")
    with without_socket_warnings(), from_kafka._followed(session(), pace, 800):
        spark().sparkContext.parallelize(range(8), 8).foreach(lambda _: time.sleep(0.3))
    assert {of for _, of in told} == {800}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert any(0 < done < 800 for done, _ in told)
