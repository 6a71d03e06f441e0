"""The producer's outcomes: what the client's reports become, without a cluster."""

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
from ackproof.clients.producer.delivery_reports import Outcomes, Spoken
from ackproof.clients.producer.main import Load, Pace, ProducerConfig
from ackproof.journal.stream import read_stream
from ackproof.model.message import MESSAGE, pack


def report(seq: int, offset: int | None, partition: int | None = 0, padding: bytes = b"") -> Message:
    """The client makes None of the numbers that stand for "not known"."""
    value, at, place = (
        pack(7, seq, padding),
        -1001 if offset is None else offset,
        -1 if partition is None else partition,
    )
    made = Message(topic="orders", value=value, offset=at, partition=place)
    assert (made.offset(), made.partition()) == (offset, partition)
    return made


def failed(outcomes: Outcomes, seq: int, code: int, partition: int | None = None) -> None:
    outcomes.delivered(KafkaError(code), report(seq, None, partition))


def acked(outcomes: Outcomes, seq: int, offset: int | None, partition: int = 0) -> None:
    outcomes.delivered(None, report(seq, offset, partition))


def taken(outcomes: Outcomes) -> list[tuple[object, ...]]:
    columns = outcomes.take()
    rest = [columns[name].to_pylist() for name in ("partition", "offset", "outcome", "error")]
    return list(zip(columns["seq"].tolist(), *rest, strict=True))


def test_acknowledgements_keep_number_and_offset() -> None:
    outcomes = Outcomes(retries=False)
    acked(outcomes, 5, 100)
    acked(outcomes, 6, 101)
    outcomes.stamp()
    acked(outcomes, 4, 102, partition=2)
    assert taken(outcomes) == [(5, 0, 100, "ok", None), (6, 0, 101, "ok", None), (4, 2, 102, "ok", None)]
    assert (outcomes.acked, len(outcomes)) == (3, 0)


def test_without_answers_there_are_no_offsets(capsys: pytest.CaptureFixture[str]) -> None:
    """With acks=0 librdkafka sometimes reports the place in the batch as the offset."""
    outcomes = Outcomes(retries=False, answered=False, say=Spoken("producer1").say)
    outcomes.know_partitions(1)
    acked(outcomes, 0, 0)
    acked(outcomes, 1, None)
    assert taken(outcomes) == [(0, 0, None, "ok", None), (1, 0, None, "ok", None)]
    assert "at offset" not in capsys.readouterr().out


def test_where_the_client_knows_no_offset_there_is_none() -> None:
    outcomes = Outcomes(retries=False)
    outcomes.know_partitions(1)
    acked(outcomes, 0, None)
    acked(outcomes, 1, None)
    assert taken(outcomes) == [(0, 0, None, "ok", None), (1, 0, None, "ok", None)]


def test_an_error_keeps_its_place_across_polls() -> None:
    outcomes = Outcomes(retries=False)
    acked(outcomes, 0, 10)
    outcomes.stamp()
    failed(outcomes, 1, KafkaError._MSG_TIMED_OUT)
    acked(outcomes, 2, 11)
    outcomes.stamp()
    failed(outcomes, 3, KafkaError.MSG_SIZE_TOO_LARGE)
    rows = taken(outcomes)
    assert [(row[0], row[2], row[4]) for row in rows] == [
        (0, 10, None),
        (1, None, "_MSG_TIMED_OUT"),
        (2, 11, None),
        (3, None, "MSG_SIZE_TOO_LARGE"),
    ]
    assert [row[3] for row in rows][1:] == ["info", "ok", "fail"]
    assert (outcomes.acked, outcomes.failed, outcomes.unknown) == (2, 1, 1)


def test_taking_begins_anew() -> None:
    outcomes = Outcomes(retries=False)
    failed(outcomes, 0, KafkaError._MSG_TIMED_OUT)
    taken(outcomes)
    acked(outcomes, 1, 10)
    assert taken(outcomes) == [(1, 0, 10, "ok", None)]
    assert taken(outcomes) == []


def test_what_one_poll_brought_came_at_one_moment() -> None:
    outcomes = Outcomes(retries=False)
    for seq in (0, 1):
        acked(outcomes, seq, seq)
    outcomes.stamp()
    acked(outcomes, 2, 2)
    outcomes.stamp()
    outcomes.refused(3, "_QUEUE_FULL")
    done = outcomes.take()["done_ns"].to_pylist()
    assert done[0] == done[1] < done[2] <= done[3]


def test_what_the_client_refused_is_told_with_the_rest() -> None:
    outcomes = Outcomes(retries=False)
    acked(outcomes, 0, 10)
    outcomes.refused(1, "MSG_SIZE_TOO_LARGE")
    assert len(outcomes.take()["seq"]) == 2
    assert (outcomes.acked, outcomes.failed) == (1, 1)


def test_the_number_of_a_padded_message() -> None:
    outcomes = Outcomes(retries=False)
    for seq in (3, 4):
        outcomes.delivered(None, report(seq, seq, padding=b"." * 84))
    assert outcomes.take()["seq"].tolist() == [3, 4]


def test_offsets_of_two_partitions_are_no_fail_over(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = Outcomes(retries=False, say=Spoken("producer1").say)
    acked(outcomes, 0, 10, partition=0)
    acked(outcomes, 1, 5, partition=1)
    assert "failed over" not in capsys.readouterr().out


def test_the_slow_shape_says_each_message_and_names_the_fail_over(capsys: pytest.CaptureFixture[str]) -> None:
    spoken = Spoken("producer1")
    outcomes = Outcomes(retries=False, say=spoken.say)
    acked(outcomes, 0, 10)
    acked(outcomes, 1, 11)
    failed(outcomes, 2, KafkaError._MSG_TIMED_OUT)
    acked(outcomes, 3, 8)
    acked(outcomes, 4, None)
    assert capsys.readouterr().out.splitlines() == [
        "producer1: 0 at offset 10",
        "producer1: 1 at offset 11",
        "producer1: 2 not acknowledged: _MSG_TIMED_OUT",
        "producer1: failed over, 4 lost",
        "producer1: 3 at offset 8",
        "producer1: 4 acknowledged without offset",
    ]
    assert len(outcomes.take()["seq"]) == 5


@given(
    st.floats(0.5, 5_000),
    st.lists(st.tuples(st.integers(1, 50), st.floats(0.001, 10)), max_size=3, unique_by=lambda pause: pause[0]),
    st.integers(0, 200),
)
def test_a_message_is_due_from_its_moment_on_and_not_before(
    rate: float, pauses: list[tuple[int, float]], seq: int
) -> None:
    pace = Pace(rate, pauses)
    moment = pace.when(seq)
    assert pace.all(np.array([seq]))[0] == moment
    assert pace.due(moment + 2) > seq
    assert pace.due(moment - 2) <= seq


def test_nothing_is_due_in_a_pause() -> None:
    pace = Pace(10.0, [(5, 2.0)])
    assert [pace.due(round(seconds * 1e9)) for seconds in (0.0, 0.45, 0.6, 2.4, 2.5, 2.61)] == [1, 5, 5, 5, 6, 7]


class Grown:
    """Stands in for a client whose topic has got a second partition since it was looked at."""

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


def test_where_the_topic_grows_each_message_is_asked_for_its_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "KafkaProducer", Grown)
    monkeypatch.setattr(producer, "check_topic", lambda *_: 1)
    (tmp_path / "go").write_text("0")
    Load(config_in(tmp_path, count=2, rate=None, grows=True)).run()
    sends = read_stream(tmp_path / "journal" / "sends" / "producer1.arrows")[0].to_pylist()
    assert [(row["seq"], row["partition"]) for row in sends] == [(0, 0), (1, 1)]


class Waits(Grown):
    """A client whose queue is full for so long; and polls on a clock of ours, the fifth of which takes longer."""

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
    ids=["in time", "held up by Kafka", "without a processor", "both"],
)  # fmt: skip
def test_a_producer_tells_by_how_much_it_was_late_itself_and_not_for_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_s: float, longer_s: float, behind_ms: int
) -> None:
    for name, value in {"full_s": full_s, "longer_s": longer_s, "now_ns": 0, "polls": 0}.items():
        monkeypatch.setattr(Waits, name, value)
    clock = SimpleNamespace(monotonic_ns=lambda: Waits.now_ns, monotonic=lambda: Waits.now_ns / 1e9)
    monkeypatch.setattr(producer, "time", clock)
    monkeypatch.setattr(producer, "KafkaProducer", Waits)
    monkeypatch.setattr(producer, "check_topic", lambda *_: 2)
    (tmp_path / "go").write_text("0")
    Load(config_in(tmp_path, count=2, rate=5.0)).run()
    first, closed = read_stream(tmp_path / "journal" / "blocks" / "producer1.arrows")[0].to_pylist()
    assert first["behind_ns"] is None
    assert closed["behind_ns"] // 10**6 == behind_ms


class FullBehindTwo(Grown):
    """A client that takes two messages and then none by their bytes, while somebody tells its producer to stop."""

    load: Load

    def produce_batch(self, topic: str, batch: list[dict[str, Any]], _: int, on_delivery: Any) -> int:
        if MESSAGE.unpack_from(batch[0]["value"])[-1] < 2:
            return super().produce_batch(topic, batch, _, on_delivery)
        for message in batch:
            message["_error"] = KafkaError(KafkaError._QUEUE_FULL)
        self.load.stop()
        return 0


@pytest.mark.proves("B4")
def test_a_block_of_which_nothing_was_used_is_closed_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "BLOCK", 2)
    monkeypatch.setattr(producer, "KafkaProducer", FullBehindTwo)
    monkeypatch.setattr(producer, "check_topic", lambda *_: 1)
    (tmp_path / "go").write_text("0")
    load = Load(config_in(tmp_path, count=6, rate=None))
    monkeypatch.setattr(FullBehindTwo, "load", load, raising=False)
    load.run()
    blocks = read_stream(tmp_path / "journal" / "blocks" / "producer1.arrows")[0].to_pylist()
    assert [(row["first_seq"], row["used"]) for row in blocks] == [(0, None), (0, 2), (2, None), (2, 0)]
