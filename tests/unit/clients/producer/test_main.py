"""The producer: its delivery reports, its pace and its reserved numbers, without a cluster."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from confluent_kafka import KafkaError, Message
from hypothesis import given
from hypothesis import strategies as st

from ackproof.clients.producer import main as producer
from ackproof.clients.producer.config import ProducerConfig
from ackproof.clients.producer.delivery_reports import DeliveryPrinter, DeliveryReports
from ackproof.clients.producer.main import ProducerLoop
from ackproof.clients.producer.pacing import Pace
from ackproof.journal.stream import read_stream
from ackproof.model.message import MESSAGE, pack


def report(seq: int, offset: int | None, partition: int | None = 0, padding: bytes = b"") -> Message:
    """A delivery report. librdkafka's numbers for "not known" become None."""
    value, at, place = (
        pack(7, seq, padding),
        -1001 if offset is None else offset,
        -1 if partition is None else partition,
    )
    made = Message(topic="orders", value=value, offset=at, partition=place)
    assert (made.offset(), made.partition()) == (offset, partition)
    return made


def failed(reports: DeliveryReports, seq: int, code: int, partition: int | None = None) -> None:
    reports.delivered(KafkaError(code), report(seq, None, partition))


def acked(reports: DeliveryReports, seq: int, offset: int | None, partition: int = 0) -> None:
    reports.delivered(None, report(seq, offset, partition))


def taken(reports: DeliveryReports) -> list[tuple[object, ...]]:
    columns = reports.take()
    rest = (columns.partition, columns.offset, columns.outcome, columns.error)
    return list(zip(columns.seq.tolist(), *(column.to_pylist() for column in rest), strict=True))


def test_acknowledgements_keep_number_and_offset() -> None:
    reports = DeliveryReports(retries=False)
    acked(reports, 5, 100)
    acked(reports, 6, 101)
    reports.stamp()
    acked(reports, 4, 102, partition=2)
    assert taken(reports) == [(5, 0, 100, "ok", None), (6, 0, 101, "ok", None), (4, 2, 102, "ok", None)]
    assert (reports.acked, len(reports)) == (3, 0)


def test_with_acks_0_there_are_no_offsets(capsys: pytest.CaptureFixture[str]) -> None:
    """librdkafka sometimes reports the place in the batch as the offset."""
    reports = DeliveryReports(retries=False, has_offsets=False, show=DeliveryPrinter("producer1").show)
    reports.know_partitions(1)
    acked(reports, 0, 0)
    acked(reports, 1, None)
    assert taken(reports) == [(0, 0, None, "ok", None), (1, 0, None, "ok", None)]
    assert "at offset" not in capsys.readouterr().out


def test_without_an_offset_of_the_client_there_is_none() -> None:
    reports = DeliveryReports(retries=False)
    reports.know_partitions(1)
    acked(reports, 0, None)
    acked(reports, 1, None)
    assert taken(reports) == [(0, 0, None, "ok", None), (1, 0, None, "ok", None)]


def test_an_error_keeps_its_place_across_polls() -> None:
    reports = DeliveryReports(retries=False)
    acked(reports, 0, 10)
    reports.stamp()
    failed(reports, 1, KafkaError._MSG_TIMED_OUT)
    acked(reports, 2, 11)
    reports.stamp()
    failed(reports, 3, KafkaError.MSG_SIZE_TOO_LARGE)
    rows = taken(reports)
    assert [(row[0], row[2], row[4]) for row in rows] == [
        (0, 10, None),
        (1, None, "_MSG_TIMED_OUT"),
        (2, 11, None),
        (3, None, "MSG_SIZE_TOO_LARGE"),
    ]
    assert [row[3] for row in rows][1:] == ["info", "ok", "fail"]
    assert (reports.acked, reports.failed, reports.unknown) == (2, 1, 1)


def test_take_removes_what_it_returns() -> None:
    reports = DeliveryReports(retries=False)
    failed(reports, 0, KafkaError._MSG_TIMED_OUT)
    taken(reports)
    acked(reports, 1, 10)
    assert taken(reports) == [(1, 0, 10, "ok", None)]
    assert taken(reports) == []


def test_all_reports_of_one_poll_have_one_time() -> None:
    reports = DeliveryReports(retries=False)
    for seq in (0, 1):
        acked(reports, seq, seq)
    reports.stamp()
    acked(reports, 2, 2)
    reports.stamp()
    reports.refused(3, "_QUEUE_FULL")
    done = reports.take().done_ns.to_pylist()
    assert done[0] == done[1] < done[2] <= done[3]


def test_messages_that_the_client_refused_are_among_the_reports() -> None:
    reports = DeliveryReports(retries=False)
    acked(reports, 0, 10)
    reports.refused(1, "MSG_SIZE_TOO_LARGE")
    assert len(reports.take().seq) == 2
    assert (reports.acked, reports.failed) == (1, 1)


def test_the_number_of_a_padded_message_is_read() -> None:
    reports = DeliveryReports(retries=False)
    for seq in (3, 4):
        reports.delivered(None, report(seq, seq, padding=b"." * 84))
    assert reports.take().seq.tolist() == [3, 4]


def test_offsets_of_two_partitions_are_no_failover(capsys: pytest.CaptureFixture[str]) -> None:
    reports = DeliveryReports(retries=False, show=DeliveryPrinter("producer1").show)
    acked(reports, 0, 10, partition=0)
    acked(reports, 1, 5, partition=1)
    assert "failed over" not in capsys.readouterr().out


def test_the_slow_shape_prints_each_message_and_the_failover(capsys: pytest.CaptureFixture[str]) -> None:
    printer = DeliveryPrinter("producer1")
    reports = DeliveryReports(retries=False, show=printer.show)
    acked(reports, 0, 10)
    acked(reports, 1, 11)
    failed(reports, 2, KafkaError._MSG_TIMED_OUT)
    acked(reports, 3, 8)
    acked(reports, 4, None)
    assert capsys.readouterr().out.splitlines() == [
        "producer1: 0 at offset 10",
        "producer1: 1 at offset 11",
        "producer1: 2 not acknowledged: _MSG_TIMED_OUT",
        "producer1: failed over, 4 lost",
        "producer1: 3 at offset 8",
        "producer1: 4 acknowledged without offset",
    ]
    assert len(reports.take().seq) == 5


@given(
    st.floats(0.5, 5_000),
    st.lists(st.tuples(st.integers(1, 50), st.floats(0.001, 10)), max_size=3, unique_by=lambda pause: pause[0]),
    st.integers(0, 200),
)
def test_a_message_is_not_due_before_its_moment(rate: float, pauses: list[tuple[int, float]], seq: int) -> None:
    pace = Pace(rate, pauses)
    moment = pace.when(seq)
    assert pace.all(np.array([seq]))[0] == moment
    assert pace.due(moment + 2) > seq
    assert pace.due(moment - 2) <= seq


def test_nothing_is_due_in_a_pause() -> None:
    pace = Pace(10.0, [(5, 2.0)])
    assert [pace.due(round(seconds * 1e9)) for seconds in (0.0, 0.45, 0.6, 2.4, 2.5, 2.61)] == [1, 5, 5, 5, 6, 7]


class Grown:
    """A client whose topic has got a second partition after the topic check."""

    def __init__(self, _: dict[str, Any]) -> None: ...

    def __len__(self) -> int:
        return 0

    def poll(self, _: float) -> None: ...

    def produce_batch(self, topic: str, batch: list[dict[str, Any]], _: int, on_delivery: Any) -> int:
        for place, message in enumerate(batch):
            on_delivery(None, Message(topic=topic, value=message["value"], offset=0, partition=place))
        return len(batch)


def config_in(folder: Path, *, count: int, rate: float | None, grows: bool = False) -> ProducerConfig:
    return ProducerConfig(
        run=1, directory=str(folder), id=0, name="producer1", topic="orders", topic_id=0, bootstrap="nowhere",
        count=count, rate=rate, acks="all", size=16, keys=None, print=False, go=str(folder / "go"),
        progress=str(folder / "progress"), flush_s=1, grows=grows,
    )  # fmt: skip


def test_if_the_topic_grows_the_partition_of_each_message_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "KafkaProducer", Grown)
    monkeypatch.setattr(producer, "check_topic", lambda *_: 1)
    (tmp_path / "go").write_text("0")
    ProducerLoop(config_in(tmp_path, count=2, rate=None, grows=True)).run()
    sends = read_stream(tmp_path / "journal" / "sends" / "producer1.arrows")[0].to_pylist()
    assert [(row["seq"], row["partition"]) for row in sends] == [(0, 0), (1, 1)]


class Waits(Grown):
    """A client with a clock of its own. Its queue is full for `full_s`, and its fifth poll takes `longer_s` longer."""

    full_s = longer_s = 0.0
    now_ns = polls = 0

    def __len__(self) -> int:
        return producer.QUEUE_MESSAGES if Waits.now_ns < Waits.full_s * 1e9 else 0

    def poll(self, wait_s: float) -> None:
        Waits.polls += 1
        Waits.now_ns += round((wait_s + (Waits.longer_s if Waits.polls == 5 else 0)) * 1e9) + 1_000


@pytest.mark.proves("D3")
@pytest.mark.parametrize(
    ("full_s", "longer_s", "behind_ms"), [(0, 0, 0), (3, 0, 0), (0, 3, 3_000), (9, 3, 3_000)],
    ids=["on time", "held up by Kafka", "without a processor", "both"],
)  # fmt: skip
def test_a_producer_reports_its_own_delay_without_its_waits_for_kafka(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_s: float, longer_s: float, behind_ms: int
) -> None:
    for name, value in {"full_s": full_s, "longer_s": longer_s, "now_ns": 0, "polls": 0}.items():
        monkeypatch.setattr(Waits, name, value)
    clock = SimpleNamespace(monotonic_ns=lambda: Waits.now_ns, monotonic=lambda: Waits.now_ns / 1e9)
    monkeypatch.setattr(producer, "time", clock)
    monkeypatch.setattr(producer, "KafkaProducer", Waits)
    monkeypatch.setattr(producer, "check_topic", lambda *_: 2)
    (tmp_path / "go").write_text("0")
    ProducerLoop(config_in(tmp_path, count=2, rate=5.0)).run()
    first, closed = read_stream(tmp_path / "journal" / "blocks" / "producer1.arrows")[0].to_pylist()
    assert first["behind_ns"] is None
    assert closed["behind_ns"] // 10**6 == behind_ms


class FullBehindTwo(Grown):
    """A client whose queue is full after two messages. Then SIGTERM stops its producer."""

    load: ProducerLoop

    def produce_batch(self, topic: str, batch: list[dict[str, Any]], _: int, on_delivery: Any) -> int:
        if MESSAGE.unpack_from(batch[0]["value"])[-1] < 2:
            return super().produce_batch(topic, batch, _, on_delivery)
        for message in batch:
            message["_error"] = KafkaError(KafkaError._QUEUE_FULL)
        self.load.stop()
        return 0


@pytest.mark.proves("B4")
def test_an_unused_block_is_closed_as_unused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "BLOCK", 2)
    monkeypatch.setattr(producer, "KafkaProducer", FullBehindTwo)
    monkeypatch.setattr(producer, "check_topic", lambda *_: 1)
    (tmp_path / "go").write_text("0")
    load = ProducerLoop(config_in(tmp_path, count=6, rate=None))
    monkeypatch.setattr(FullBehindTwo, "load", load, raising=False)
    load.run()
    blocks = read_stream(tmp_path / "journal" / "blocks" / "producer1.arrows")[0].to_pylist()
    assert [(row["first_seq"], row["used"]) for row in blocks] == [(0, None), (0, 2), (2, None), (2, 0)]
