"""A producer that reads, processes and writes in transactions: each message of its input becomes one of its own, and
how far it has read is committed together with what it wrote, or not at all.

The outcome of a transaction is the outcome of each of its messages. Aborted without ever having been asked to commit,
they have certainly failed. Once a commit was asked for, an error proves nothing: the coordinator may have decided
before it was heard, so that is `info`. What is about to be asked is in the journal before it is asked.

After an abort it reads on from where the group's coordinator says that it had committed: its own word counts for
nothing. A transaction that the client can no longer end is ended by its successor, which fences it.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka import Producer as KafkaProducer

from ackproof.clients.lateness import Lateness
from ackproof.clients.producer.delivery_reports import NO_PARTITION
from ackproof.clients.producer.main import GO_S, ProducerConfig, client_settings
from ackproof.clients.producer.topic_check import TopicProblem, check_topic
from ackproof.clients.runtime import Progress, login_settings, read_config, wait_for_go
from ackproof.journal.writer import Writer
from ackproof.model.message import MESSAGE, pack, unpack

POLL_S = 0.05
LINGER_S = 1.0  # after which a transaction ends although it is not full
IDLE_S = 30.0  # without input, it is time to ask whether there is more of it
CALL_S = 5.0
HUNG_S = 20.0  # after which a call that should have taken five will not come back
PATIENCE_S = 90.0  # for what may be tried again
AGAIN_S = 0.1  # later, where it was refused at once

C = TypeVar("C")
T = TypeVar("T")


@dataclass
class Sent:
    seq: int
    key: int
    sent_ns: int
    partition: int = NO_PARTITION
    offset: int | None = None
    error: str | None = None

    def delivered(self, error: KafkaError | None, message: Any) -> None:
        self.partition = message.partition()
        self.error = None if error is None else error.name()
        self.offset = None if error is not None else message.offset()


@dataclass
class Transaction:
    number: int
    first_seq: int
    begun: float
    sent: list[Sent] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)  # of each input partition, where to read on
    commit_asked: bool = False
    problem: str | None = None


class Processing:
    def __init__(self, config: ProducerConfig) -> None:
        assert config.transactions is not None  # noqa: S101  # this producer has them
        self._config = config
        self._plan = config.transactions
        directory = Path(config.directory)
        self._sends = Writer(directory, "sends", config.run, config.name)
        self._blocks = Writer(directory, "blocks", config.run, config.name)
        self._events = Writer(directory, "transactions", config.run, config.name)
        self._progress = Progress(Path(config.progress), create=True)
        self._padding = b"." * (config.size - MESSAGE.size)
        self._places: dict[int, int] = {}  # of each input partition, up to where it is committed
        self._open: Transaction | None = None
        self._seq = self._number = 0
        self._outcomes = {"ok": 0, "fail": 0, "info": 0}
        self._moved = False  # the input's partitions were given or taken, so what is open cannot be committed
        self._stopped = False

    def stop(self, *_: Any) -> None:
        self._stopped = True

    def run(self) -> None:
        self._client = self._made()
        check_topic(self._client, self._config)
        self._input = self._reader()
        self._input.subscribe([self._plan.input], on_assign=self._move, on_revoke=self._move, on_lost=self._move)
        self._tell()
        wait_for_go(Path(self._config.go), GO_S)
        heard = time.monotonic()
        while not self._stopped and self._processed() < self._config.count:
            if self._take_in():
                heard = time.monotonic()
            if time.monotonic() - heard > IDLE_S:
                heard = time.monotonic()
                if self._open is None and self._has_read_all():
                    self._say(f"ends with {self._processed():,} processed: its input has no more")
                    break
            self._client.poll(0)
            if self._open is not None and self._is_due(self._open):
                self._end(self._open)
                heard = time.monotonic()  # it may have taken long
            self._tell()
        if self._open is not None:
            self._abort(self._open, "the producer ended")
        self._input.close()
        for writer in (self._sends, self._blocks, self._events):
            writer.close(seal=False)
        self._tell(done=1)

    def _made(self) -> KafkaProducer:
        """A client that may begin: whatever a former one of its id left open is aborted."""
        timeout_ms = round(self._plan.timeout_s * 1000)
        own = {"transactional.id": self._config.name, "transaction.timeout.ms": timeout_ms}
        made = partial(KafkaProducer, {**client_settings(self._config), **own})
        client, _ = _anew(made, lambda client, timeout_s: client.init_transactions(timeout_s))
        return client

    # -- reading ---------------------------------------------------------------------------------------------------

    def _reader(self) -> KafkaConsumer:
        return KafkaConsumer(_input_settings(self._config))

    def _move(self, *_: Any) -> None:
        self._moved = True

    def _processed(self) -> int:
        return sum(self._places.values())

    def _take_in(self) -> bool:
        room = self._plan.size - (len(self._open.sent) if self._open else 0)
        messages = self._input.consume(room, POLL_S)
        if self._moved:
            if self._open is not None:
                self._abort(self._open, "the input's partitions were given anew")
            self._rewind()
            return True
        for message in messages:
            if (error := message.error()) is not None:
                self._say(f"is told: {error}")
            elif self._open is None or self._open.problem is None:
                self._process(message)
        return bool(messages)

    def _has_read_all(self) -> bool:
        """Whether it stands at the end of its input, by the brokers' own word: that none came for long proves nothing,
        neither of a process that was stopped nor of brokers that were out of reach."""
        owned = self._input.assignment()
        try:
            ends = [self._input.get_watermark_offsets(place, timeout=CALL_S) for place in owned]
        except KafkaException:
            return False
        stands = self._input.position(owned) if owned else []
        read = [max(self._places.get(each.partition, 0), each.offset) for each in stands]
        return bool(owned) and all(end is not None and at >= end[1] for at, end in zip(read, ends, strict=True))

    def _rewind(self) -> None:
        """Read on from what is committed; not from where this process believes to be."""
        self._moved = False
        try:
            found = _insist(partial(self._committed, self._input), any_error=True)
        except Hung as problem:
            self._say(f"does not hear how far it has committed ({problem}): another client asks")
            _, found = _anew(self._reader, self._committed, any_error=True)
        self._places = {place.partition: max(0, place.offset) for place in found}
        self._input.assign([TopicPartition(self._plan.input, *place) for place in self._places.items()])

    def _committed(self, reader: KafkaConsumer, timeout_s: float) -> list[TopicPartition]:
        places = reader.committed(self._input.assignment(), timeout=timeout_s)
        for place in places:
            if place.error is not None:  # not known is not none
                raise KafkaException(place.error)
        return places

    # -- a transaction ---------------------------------------------------------------------------------------------

    def _process(self, message: Any) -> None:
        transaction = self._open or self._begin()
        _, number = unpack(message.value())
        sent = Sent(self._seq, number, time.monotonic_ns())
        transaction.sent.append(sent)
        transaction.places[message.partition()] = message.offset() + 1
        self._seq += 1
        try:
            self._client.produce(
                self._config.topic,
                pack(self._config.id, sent.seq, self._padding),
                str(number).encode(),
                sent.seq % self._config.partitions,  # in turn: no transaction stands in one partition alone
                on_delivery=sent.delivered,
            )
        except KafkaException as problem:
            sent.error = transaction.problem = problem.args[0].name()

    def _begin(self) -> Transaction:
        self._number += 1
        block = {"first_seq": self._seq, "count": self._plan.size, "at_ns": time.monotonic_ns()}
        self._blocks.add(producer=self._config.id, **block)
        self._blocks.flush()
        self._open = Transaction(self._number, self._seq, time.monotonic())
        self._note(self._open, "begun", last_seq=self._seq + self._plan.size - 1)
        try:
            self._client.begin_transaction()
        except KafkaException as problem:
            self._open.problem = problem.args[0].name()
        return self._open

    def _is_due(self, transaction: Transaction) -> bool:
        full = len(transaction.sent) >= self._plan.size
        return full or transaction.problem is not None or time.monotonic() - transaction.begun >= LINGER_S

    def _end(self, transaction: Transaction) -> None:
        if transaction.problem is not None:
            return self._abort(transaction, transaction.problem)
        if self._plan.abort_every and transaction.number % self._plan.abort_every == 0:
            self._client.flush(CALL_S)  # so that there is something that nobody may read
            return self._abort(transaction, "on purpose")
        places = [TopicPartition(self._plan.input, *place) for place in transaction.places.items()]
        try:
            members = self._input.consumer_group_metadata()
            _insist(partial(self._client.send_offsets_to_transaction, places, members))
            transaction.commit_asked = True
            self._note(transaction, "committing")
            _insist(self._client.commit_transaction)
        except KafkaException as problem:
            return self._abort(transaction, problem.args[0].name())
        except Hung as problem:
            self._note(transaction, "aborting", text=str(problem))
            return self._give_up(transaction, str(problem), str(problem))
        self._places |= transaction.places
        return self._close(transaction, "committed", "ok", None)

    def _abort(self, transaction: Transaction, why: str) -> None:
        self._note(transaction, "aborting", text=why)
        try:
            _insist(self._client.abort_transaction)
        except KafkaException as problem:
            return self._give_up(transaction, why, problem.args[0].str())
        except Hung as problem:
            return self._give_up(transaction, why, str(problem))
        return self._aborted(transaction, why)

    def _give_up(self, transaction: Transaction, why: str, problem: str) -> None:
        """What this client can no longer end its successor ends, by fencing it."""
        self._say(f"cannot end transaction {transaction.number} ({problem}): begins anew")
        self._client = self._made()
        self._aborted(transaction, why)

    def _aborted(self, transaction: Transaction, why: str) -> None:
        if transaction.commit_asked:
            self._close(transaction, "unknown", "info", why)
        else:
            self._close(transaction, "aborted", "fail", why)
        self._rewind()

    def _close(self, transaction: Transaction, event: str, outcome: str, why: str | None) -> None:
        now = time.monotonic_ns()
        for sent in transaction.sent:
            self._sends.add(
                producer=self._config.id,
                seq=sent.seq,
                topic=self._config.topic_id,
                partition=sent.partition,
                key=sent.key,
                due_ns=sent.sent_ns,
                sent_ns=sent.sent_ns,
                done_ns=now,
                outcome=outcome,
                error=sent.error or (why and f"{event}: {why}"),
                offset=sent.offset,
            )
        used = {"first_seq": transaction.first_seq, "count": self._plan.size, "used": len(transaction.sent)}
        self._blocks.add(producer=self._config.id, at_ns=now, **used)
        self._note(transaction, event, text=why)
        self._sends.flush()
        self._blocks.flush()
        self._outcomes[outcome] += len(transaction.sent)
        self._open = None

    def _note(self, transaction: Transaction, event: str, text: str | None = None, last_seq: int | None = None) -> None:
        self._events.add(
            producer=self._config.id,
            transaction=transaction.number,
            event=event,
            first_seq=transaction.first_seq,
            last_seq=self._seq - 1 if last_seq is None else last_seq,
            timeout_ms=round(self._plan.timeout_s * 1000),
            at_ns=time.monotonic_ns(),
            text=text,
        )
        self._events.flush()
        if text is not None and event != "aborting":
            self._say(f"transaction {transaction.number} {event}: {text}")

    def _tell(self, done: int = 0) -> None:
        under_way = len(self._open.sent) if self._open else 0
        acked, failed, unknown = (self._outcomes[outcome] for outcome in ("ok", "fail", "info"))
        self._progress.write(1, self._processed() + under_way, acked, failed, unknown, done)

    def _say(self, text: str) -> None:
        print(f"{self._config.name}: {text}", flush=True)


def _insist(call: Callable[[float], T], any_error: bool = False) -> T:
    """Again, as long as Kafka says that trying again may help."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _within(HUNG_S, partial(call, CALL_S))
        except KafkaException as problem:
            if time.monotonic() > deadline or not (any_error or problem.args[0].retriable()):
                raise
            time.sleep(AGAIN_S)


def _anew(made: Callable[[], C], call: Callable[[C, float], T], any_error: bool = False) -> tuple[C, T]:
    """Insist, with a new client each time that one does not come back: the client, and what it was answered."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        client = made()
        try:
            return client, _insist(partial(call, client), any_error)
        except Hung:
            if time.monotonic() > deadline:
                raise


class Hung(Exception):
    """A call that should have come back long ago, in one sentence."""


def _within(seconds: float, call: Callable[[], T]) -> T:
    """librdkafka has been seen not to come back from `send_offsets_to_transaction`, whatever time it was given, after
    the coordinator had died: such a call is left to itself."""
    answer: Future[T] = Future()

    def ask() -> None:
        try:
            answer.set_result(call())
        except BaseException as problem:  # noqa: BLE001  it is for whoever asked
            answer.set_exception(problem)

    threading.Thread(target=ask, daemon=True).start()
    try:
        return answer.result(timeout=seconds)
    except TimeoutError:
        raise Hung(f"the client did not come back after {seconds:g} s") from None


def _input_settings(config: ProducerConfig) -> dict[str, Any]:
    return {
        "bootstrap.servers": config.bootstrap,
        "client.id": f"{config.name}-input",
        "group.id": f"{config.name}-input",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "broker.address.family": "v4",
        "log_level": 3,
        **login_settings(config.login),
    }


def main() -> int:
    config = read_config(ProducerConfig)
    processing = Processing(config)
    signal.signal(signal.SIGTERM, processing.stop)
    try:
        with Lateness(config.directory, config.run, config.name):
            processing.run()
    except TopicProblem as problem:
        print(f"{config.name}: {problem}", flush=True)
        return problem.exit_code
    except Hung as problem:
        print(f"{config.name}: {problem}, nor did those that followed it", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
