"""Transactions: each message has the outcome of its transaction, in spite of errors and hanging clients."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from ackproof.clients.producer import kafka_calls, transactional
from ackproof.clients.producer.config import ProducerConfig, TransactionsConfig
from ackproof.clients.producer.transactional import TransactionLoop
from ackproof.journal.stream import read_stream
from ackproof.model.message import pack


def problem(name: int, *, retriable: bool = False, requires_abort: bool = False, fatal: bool = False) -> KafkaException:
    return KafkaException(
        KafkaError(name, "as told", fatal=fatal, retriable=retriable, txn_requires_abort=requires_abort)
    )


FENCED = problem(KafkaError._FENCED, fatal=True)
TIMED_OUT = problem(KafkaError._TIMED_OUT, retriable=True)
ABORTABLE = problem(KafkaError.INVALID_TXN_STATE, requires_abort=True)


class Cluster:
    """Takes the place of Kafka: an input with `inputs` messages, an output, and the group's committed offsets.

    `says` holds the answers to a call, by its name: errors, or None for success. All other calls succeed.
    """

    def __init__(self, inputs: int, **says: list[KafkaException | None]) -> None:
        self.inputs = inputs
        self.says = says
        self.committed = 0
        self.written: list[bytes] = []
        self.clients = 0

    def answer(self, call: str) -> None:
        if (told := self.says.get(call)) and (error := told.pop(0)) is not None:
            raise error


class Input:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._place = 0
        self._told = False

    def subscribe(self, _: list[str], on_assign: Callable[..., None], **__: Any) -> None:
        self._on_assign = on_assign

    def consume(self, count: int, _: float) -> list[Message]:
        if not self._told:
            self._told = True
            self._on_assign(self, [])
        place, self._place = self._place, min(self._place + count, self._cluster.inputs)
        return [
            Message(topic="payments", partition=0, offset=offset, value=pack(0, offset))
            for offset in range(place, self._place)
        ]

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("payments", 0)]

    def committed(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        self._cluster.answer("committed")
        return [TopicPartition("payments", 0, self._cluster.committed or -1001)]

    def assign(self, places: list[TopicPartition]) -> None:
        self._place = places[0].offset

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition("payments", 0, self._place)]

    def get_watermark_offsets(self, _: TopicPartition, timeout: float) -> tuple[int, int]:
        self._cluster.answer("get_watermark_offsets")
        return 0, self._cluster.inputs

    def consumer_group_metadata(self) -> object:
        return object()

    def close(self) -> None: ...


class Client:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        cluster.clients += 1
        self._waiting: list[tuple[bytes, Callable[[], object]]] = []
        self._reached = 0

    def init_transactions(self, _: float) -> None:
        self._cluster.answer("init_transactions")

    def begin_transaction(self) -> None:
        self._cluster.answer("begin_transaction")

    def produce(self, topic: str, value: bytes, key: bytes, partition: int, on_delivery: Any) -> None:
        self._cluster.answer("produce")
        message: Any = Message(topic=topic, partition=partition, offset=7)
        self._waiting.append((value, lambda: on_delivery(None, message)))

    def poll(self, _: float) -> None: ...

    def flush(self, _: float) -> None:
        for _value, deliver in self._waiting:
            deliver()

    def send_offsets_to_transaction(self, places: list[TopicPartition], members: object, _: float) -> None:
        self._cluster.answer("send_offsets_to_transaction")
        self._reached = places[0].offset

    def commit_transaction(self, timeout_s: float) -> None:
        self._cluster.answer("commit_transaction")
        self.flush(timeout_s)
        self._cluster.written += [value for value, _ in self._waiting]
        self._cluster.committed = self._reached
        self._waiting = []

    def abort_transaction(self, _: float) -> None:
        self._cluster.answer("abort_transaction")
        self._waiting = []


Rows = list[dict[str, Any]]


def ran(cluster: Cluster, directory: Path, monkeypatch: pytest.MonkeyPatch, **plan: Any) -> tuple[Rows, Rows]:
    """The rows of `sends` and `transactions` that the producer wrote."""
    (directory / "go").write_text("0")
    monkeypatch.setattr(transactional, "KafkaProducer", lambda _: Client(cluster))
    monkeypatch.setattr(transactional, "KafkaConsumer", lambda _: Input(cluster))
    wanted = {"input": "payments", "size": 2, "abort_every": None, "timeout_s": 10.0, **plan}
    config = ProducerConfig(
        run=1, directory=str(directory), id=1, name="producer2", topic="settlements", topic_id=1, bootstrap="nowhere",
        count=cluster.inputs, rate=None, acks="all", size=16, keys=None, print=False, go=str(directory / "go"),
        progress=str(directory / "progress"), flush_s=5, topic_check="assume", partitions=2,
        transactions=TransactionsConfig(**wanted),
    )  # fmt: skip
    TransactionLoop(config).run()
    sends, events = (
        read_stream(directory / "journal" / table / "producer2.arrows")[0].to_pylist()
        for table in ("sends", "transactions")
    )
    return sends, events


def ran_with(
    kind: str,
    hanging: type,
    for_ever: threading.Event,
    cluster: Cluster,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Rows, Rows]:
    """The same with a client that hangs in some of its calls. In the end its threads may continue."""
    monkeypatch.setattr(f"{__name__}.{kind}", hanging)
    monkeypatch.setattr(kafka_calls, "HUNG_S", 0.05)
    try:
        return ran(cluster, directory, monkeypatch)
    finally:
        for_ever.set()


def told(events: Rows, number: int) -> list[str]:
    return [row["event"] for row in events if row["transaction"] == number]


def outcomes(sends: Rows) -> list[tuple[int, int, str]]:
    """The number of each message, the number of its input message, and its outcome."""
    return [(row["seq"], row["key"], row["outcome"]) for row in sends]


def test_each_input_message_is_written_and_aborted_ones_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(4)
    sends, events = ran(cluster, tmp_path, monkeypatch, abort_every=2)
    assert outcomes(sends) == [
        (0, 0, "ok"), (1, 1, "ok"), (2, 2, "fail"), (3, 3, "fail"), (4, 2, "ok"), (5, 3, "ok"),
    ]  # fmt: skip
    assert cluster.written == [pack(1, seq) for seq in (0, 1, 4, 5)]
    assert told(events, 1) == ["begun", "committing", "committed"]
    assert told(events, 2) == ["begun", "aborting", "aborted"]
    assert [row["partition"] for row in sends] == [0, 1, 0, 1, 0, 1]


def test_retriable_errors_are_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(2, init_transactions=[TIMED_OUT], commit_transaction=[TIMED_OUT], committed=[ABORTABLE])
    sends, events = ran(cluster, tmp_path, monkeypatch)
    assert outcomes(sends) == [(0, 0, "ok"), (1, 1, "ok")]
    assert told(events, 1) == ["begun", "committing", "committed"]


@pytest.mark.parametrize("call", ["begin_transaction", "produce", "send_offsets_to_transaction"])
def test_without_a_requested_commit_the_messages_have_certainly_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    says: dict[str, list[KafkaException | None]] = {call: [ABORTABLE]}
    sends, events = ran(Cluster(2, **says), tmp_path, monkeypatch)
    assert {row["outcome"] for row in sends if row["seq"] < events[-1]["first_seq"]} == {"fail"}
    assert told(events, 1) == ["begun", "aborting", "aborted"]
    assert [(row["key"], row["outcome"]) for row in sends][-2:] == [(0, "ok"), (1, "ok")]


def test_after_an_error_of_the_commit_the_outcome_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sends, events = ran(Cluster(2, commit_transaction=[ABORTABLE]), tmp_path, monkeypatch)
    assert outcomes(sends) == [(0, 0, "info"), (1, 1, "info"), (2, 0, "ok"), (3, 1, "ok")]
    assert told(events, 1) == ["begun", "committing", "aborting", "unknown"]


def test_a_fenced_client_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(2, commit_transaction=[FENCED], abort_transaction=[FENCED])
    sends, _ = ran(cluster, tmp_path, monkeypatch)
    assert cluster.clients == 2
    assert [row["outcome"] for row in sends] == ["info", "info", "ok", "ok"]


@pytest.mark.parametrize(("call", "outcome"), [("send_offsets_to_transaction", "fail"), ("commit_transaction", "info")])
def test_a_client_that_hangs_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, outcome: str
) -> None:
    cluster = Cluster(2)
    for_ever = threading.Event()

    class Hanging(Client):
        def _hang(self, *_: object) -> None:
            for_ever.wait()

        def __getattribute__(self, name: str) -> Any:
            if cluster.clients == 1:
                assert name != "abort_transaction", "it would only wait for the call that hangs"
            return super().__getattribute__("_hang" if cluster.clients == 1 and name == call else name)

    sends, events = ran_with("Client", Hanging, for_ever, cluster, tmp_path, monkeypatch)
    assert cluster.clients == 2
    assert told(events, 1)[-2:] == ["aborting", "aborted" if outcome == "fail" else "unknown"]
    assert [row["outcome"] for row in sends] == [outcome, outcome, "ok", "ok"]


@pytest.mark.parametrize(("kind", "call"), [("Client", "init_transactions"), ("Input", "committed")])
def test_a_replacement_that_hangs_is_replaced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, call: str
) -> None:
    """Commit and abort fail, so a second client is made and the committed offsets are asked again."""
    cluster = Cluster(2, commit_transaction=[ABORTABLE], abort_transaction=[FENCED])
    for_ever, asked = threading.Event(), iter(range(10))

    class Hanging(globals()[kind]):  # type: ignore[misc]
        def __getattribute__(self, name: str) -> Any:
            hangs = name == call and next(asked) in (1, 2)
            return (lambda *_, **__: for_ever.wait()) if hangs else super().__getattribute__(name)

    sends, _ = ran_with(kind, Hanging, for_ever, cluster, tmp_path, monkeypatch)
    assert [row["outcome"] for row in sends] == ["info", "info", "ok", "ok"]
    assert cluster.clients == (4 if kind == "Client" else 2)


def test_clients_are_not_replaced_endlessly(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, made = Clock(), []
    monkeypatch.setattr(kafka_calls, "time", clock)

    def hang(_: float, call: Callable[[], object]) -> None:
        clock.sleep(kafka_calls.HUNG_S)
        raise kafka_calls.Hung("it hangs")

    monkeypatch.setattr(kafka_calls, "_within", hang)
    with pytest.raises(kafka_calls.Hung):
        kafka_calls.with_new_clients(lambda: made.append(1), lambda *_: None)
    assert 2 < len(made) < 10


def test_an_unknown_committed_offset_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the producer took it for no offset, it would process everything twice."""
    cluster = Cluster(4, send_offsets_to_transaction=[None, ABORTABLE])

    class Unstable(Input):
        asked = 0

        def committed(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
            (place,) = super().committed(places, timeout)
            self.asked += 1
            if self.asked != 2:
                return [place]
            unknown = Message(topic="payments", error=KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT))
            return [cast(TopicPartition, Place(unknown.error()))]

    class Place:
        partition, offset = 0, -1001

        def __init__(self, error: Any) -> None:
            self.error = error

    monkeypatch.setattr(f"{__name__}.Input", Unstable)
    sends, _ = ran(cluster, tmp_path, monkeypatch)
    assert [row["key"] for row in sends if row["outcome"] == "ok"] == [0, 1, 2, 3]


def test_numbers_are_reserved_on_disk_before_they_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    class Looking(Client):
        def begin_transaction(self) -> None:
            table, _ = read_stream(tmp_path / "journal" / "blocks" / "producer2.arrows")
            seen.append(sum(row["count"] for row in table.to_pylist() if row["used"] is None))

    monkeypatch.setattr(f"{__name__}.Client", Looking)
    ran(Cluster(4), tmp_path, monkeypatch)
    assert seen == [2, 4]


class Clock:
    """Takes the place of `time`. Each look at it takes a millisecond."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 0.001
        return self.now

    def monotonic_ns(self) -> int:
        return int(self.now * 1e9)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_long_commit_does_not_count_as_time_without_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()

    class Slow(Client):
        def commit_transaction(self, timeout_s: float) -> None:
            clock.sleep(2 * transactional.IDLE_S)
            super().commit_transaction(timeout_s)

    class Hesitant(Input):
        asked = 0

        def consume(self, count: int, wait_s: float) -> list[Message]:
            self.asked += 1
            return [] if self.asked % 2 else super().consume(count, wait_s)

    monkeypatch.setattr(transactional, "time", clock)
    monkeypatch.setattr(f"{__name__}.Client", Slow)
    monkeypatch.setattr(f"{__name__}.Input", Hesitant)
    cluster = Cluster(6)
    ran(cluster, tmp_path, monkeypatch)
    assert cluster.committed == 6


def test_between_retries_there_is_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def refused(_: float) -> None:
        nonlocal asked
        asked += 1
        raise TIMED_OUT

    monkeypatch.setattr(kafka_calls, "time", Clock())
    with pytest.raises(KafkaException):
        kafka_calls.retried(refused)
    assert 100 < asked < 2_000


def test_a_long_time_without_input_is_not_the_end_of_the_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The brokers may be out of reach, or this process was stopped. The producer waits while the brokers report more
    messages, or do not answer."""
    clock = Clock()

    class Silent(Input):
        asked = 0

        def consume(self, count: int, wait_s: float) -> list[Message]:
            self.asked += 1
            if self.asked in (1, 9):
                return super().consume(count, wait_s)
            clock.sleep(transactional.IDLE_S / 2)
            return [] if self.asked < 9 else super().consume(count, wait_s)

    monkeypatch.setattr(transactional, "time", clock)
    monkeypatch.setattr(f"{__name__}.Input", Silent)
    cluster = Cluster(6, get_watermark_offsets=[TIMED_OUT])
    ran(cluster, tmp_path, monkeypatch)
    assert len(cluster.written) == 6
    assert cluster.says["get_watermark_offsets"] == []


def test_the_producer_ends_when_its_input_has_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the scenario asks for more messages."""
    clock = Clock()

    class Short(Input):
        def consume(self, count: int, wait_s: float) -> list[Message]:
            clock.sleep(1)
            found = super().consume(count, wait_s)
            return [message for message in found if (message.offset() or 0) < 4]

        def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
            return [TopicPartition("payments", 0, min(4, self._place))]

        def get_watermark_offsets(self, _: TopicPartition, timeout: float) -> tuple[int, int]:
            return 0, 4

    monkeypatch.setattr(transactional, "time", clock)
    monkeypatch.setattr(f"{__name__}.Input", Short)
    cluster = Cluster(6)
    ran(cluster, tmp_path, monkeypatch)
    assert len(cluster.written) == 4
