"""A producer that reads, processes and writes in transactions. Each message of its input becomes one message of its
own. Its position in the input is committed together with what it wrote, or not at all.

The outcome of a transaction is the outcome of each of its messages. If the producer aborts without having requested a
commit, the messages have certainly failed (`fail`). After it has requested a commit, an error proves nothing, because
the coordinator may have committed before the answer was lost (`info`). Each request is in the journal before it is
sent.

After an abort the producer asks the group's coordinator for the committed position and reads on from there. It does
not trust its own position. If the client can no longer end a transaction, a new client fences it and ends it.
"""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka import Producer as KafkaProducer

from ackproof.clients.lateness import Lateness
from ackproof.clients.producer.config import GO_S, ProducerConfig, client_settings
from ackproof.clients.producer.delivery_reports import NO_PARTITION
from ackproof.clients.producer.kafka_calls import CALL_S, Hung, retried, with_new_clients
from ackproof.clients.producer.topic_check import TopicProblem, check_topic
from ackproof.clients.runtime import Progress, login_settings, read_config, wait_for_go
from ackproof.journal.writer import Writer
from ackproof.kafka.client_settings import Value
from ackproof.model.message import MESSAGE, pack, unpack

POLL_S = 0.05
LINGER_S = 1.0  # a transaction that is not full ends after this time
IDLE_S = 30.0  # after this time without input, the producer asks whether there is more


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
    positions: dict[int, int] = field(default_factory=dict)  # by input partition: the offset to read next
    commit_requested: bool = False
    problem: str | None = None


class TransactionLoop:
    def __init__(self, config: ProducerConfig) -> None:
        assert config.transactions is not None  # noqa: S101  # the run starts this program only with transactions
        self._config = config
        self._plan = config.transactions
        directory = Path(config.directory)
        self._sends = Writer(directory, "sends", config.run, config.name)
        self._blocks = Writer(directory, "blocks", config.run, config.name)
        self._events = Writer(directory, "transactions", config.run, config.name)
        self._progress = Progress(Path(config.progress), create=True)
        self._padding = b"." * (config.size - MESSAGE.size)
        self._committed: dict[int, int] = {}  # by input partition: the committed offset
        self._open: Transaction | None = None
        self._seq = self._number = 0
        self._outcomes = {"ok": 0, "fail": 0, "info": 0}
        self._rebalanced = False  # the input's partitions were reassigned, so the open transaction cannot commit
        self._stopped = False

    def stop(self, *_: Any) -> None:
        self._stopped = True

    def run(self) -> None:
        self._client = self._new_client()
        check_topic(self._client, self._config)
        self._input = self._new_input()
        note = self._note_rebalance
        self._input.subscribe([self._plan.input], on_assign=note, on_revoke=note, on_lost=note)
        self._tell()
        wait_for_go(Path(self._config.go), GO_S)
        last_input = time.monotonic()
        while not self._stopped and self._processed() < self._config.count:
            if self._read_input():
                last_input = time.monotonic()
            if time.monotonic() - last_input > IDLE_S:
                last_input = time.monotonic()
                if self._open is None and self._has_read_all():
                    self._say(f"ends with {self._processed():,} processed: its input has no more")
                    break
            self._client.poll(0)
            if self._open is not None and self._is_due(self._open):
                self._end(self._open)
                last_input = time.monotonic()  # ending it may have taken long
            self._tell()
        if self._open is not None:
            self._abort(self._open, "the producer ended")
        self._input.close()
        for writer in (self._sends, self._blocks, self._events):
            writer.close(seal=False)
        self._tell(done=1)

    def _new_client(self) -> KafkaProducer:
        """A client that may begin transactions. Kafka aborts what an earlier client of this id left open."""
        timeout_ms = round(self._plan.timeout_s * 1000)
        own = {"transactional.id": self._config.name, "transaction.timeout.ms": timeout_ms}
        make = partial(KafkaProducer, {**client_settings(self._config), **own})
        client, _ = with_new_clients(make, lambda client, timeout_s: client.init_transactions(timeout_s))
        return client

    # -- reading ---------------------------------------------------------------------------------------------------

    def _new_input(self) -> KafkaConsumer:
        return KafkaConsumer(_input_settings(self._config))

    def _note_rebalance(self, *_: Any) -> None:
        self._rebalanced = True

    def _processed(self) -> int:
        return sum(self._committed.values())

    def _read_input(self) -> bool:
        """Process the next messages of the input. Return whether something came."""
        room = self._plan.size - (len(self._open.sent) if self._open else 0)
        messages = self._input.consume(room, POLL_S)
        if self._rebalanced:
            if self._open is not None:
                self._abort(self._open, "the input's partitions were reassigned")
            self._rewind()
            return True
        for message in messages:
            if (error := message.error()) is not None:
                self._say(f"got an error: {error}")
            elif self._open is None or self._open.problem is None:
                self._process(message)
        return bool(messages)

    def _has_read_all(self) -> bool:
        """Whether it has reached the end of its input, as the brokers report that end.

        A long time without input proves nothing: this process may have been stopped, or the brokers out of reach.
        """
        owned = self._input.assignment()
        try:
            ends = [self._input.get_watermark_offsets(place, timeout=CALL_S) for place in owned]
        except KafkaException:
            return False
        positions = self._input.position(owned) if owned else []
        read = [max(self._committed.get(each.partition, 0), each.offset) for each in positions]
        return bool(owned) and all(end is not None and at >= end[1] for at, end in zip(read, ends, strict=True))

    def _rewind(self) -> None:
        """Read on from the offsets that the coordinator reports as committed, not from this process's own position."""
        self._rebalanced = False
        try:
            found = retried(partial(self._ask_committed, self._input), any_error=True)
        except Hung as problem:
            self._say(f"gets no answer about its committed offsets ({problem}): another client asks")
            _, found = with_new_clients(self._new_input, self._ask_committed, any_error=True)
        self._committed = {place.partition: max(0, place.offset) for place in found}
        self._input.assign([TopicPartition(self._plan.input, *place) for place in self._committed.items()])

    def _ask_committed(self, client: KafkaConsumer, timeout_s: float) -> list[TopicPartition]:
        places = client.committed(self._input.assignment(), timeout=timeout_s)
        for place in places:
            if place.error is not None:  # an unknown offset is not the same as no offset
                raise KafkaException(place.error)
        return places

    # -- a transaction ---------------------------------------------------------------------------------------------

    def _process(self, message: Any) -> None:
        transaction = self._open or self._begin()
        _, number = unpack(message.value())
        sent = Sent(self._seq, number, time.monotonic_ns())
        transaction.sent.append(sent)
        transaction.positions[message.partition()] = message.offset() + 1
        self._seq += 1
        try:
            self._client.produce(
                self._config.topic,
                pack(self._config.id, sent.seq, self._padding),
                str(number).encode(),
                sent.seq % self._config.partitions,  # in turn, so that each transaction spans several partitions
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
            self._client.flush(CALL_S)  # so that the log holds aborted messages, which no consumer may read
            return self._abort(transaction, "on purpose")
        places = [TopicPartition(self._plan.input, *place) for place in transaction.positions.items()]
        try:
            members = self._input.consumer_group_metadata()
            retried(partial(self._client.send_offsets_to_transaction, places, members))
            transaction.commit_requested = True
            self._note(transaction, "committing")
            retried(self._client.commit_transaction)
        except KafkaException as problem:
            return self._abort(transaction, problem.args[0].name())
        except Hung as problem:
            self._note(transaction, "aborting", text=str(problem))
            return self._replace_client(transaction, str(problem), str(problem))
        self._committed |= transaction.positions
        return self._close(transaction, "committed", "ok", None)

    def _abort(self, transaction: Transaction, why: str) -> None:
        self._note(transaction, "aborting", text=why)
        try:
            retried(self._client.abort_transaction)
        except KafkaException as problem:
            return self._replace_client(transaction, why, problem.args[0].str())
        except Hung as problem:
            return self._replace_client(transaction, why, str(problem))
        return self._aborted(transaction, why)

    def _replace_client(self, transaction: Transaction, why: str, problem: str) -> None:
        """End a transaction that this client can no longer end: a new client fences it."""
        self._say(f"cannot end transaction {transaction.number} ({problem}): continues with a new client")
        self._client = self._new_client()
        self._aborted(transaction, why)

    def _aborted(self, transaction: Transaction, why: str) -> None:
        if transaction.commit_requested:
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
        in_flight = len(self._open.sent) if self._open else 0
        acked, failed, unknown = (self._outcomes[outcome] for outcome in ("ok", "fail", "info"))
        self._progress.write(1, self._processed() + in_flight, acked, failed, unknown, done)

    def _say(self, text: str) -> None:
        print(f"{self._config.name}: {text}", flush=True)


def _input_settings(config: ProducerConfig) -> dict[str, Value]:
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
    producer = TransactionLoop(config)
    signal.signal(signal.SIGTERM, producer.stop)
    try:
        with Lateness(config.directory, config.run, config.name):
            producer.run()
    except TopicProblem as problem:
        print(f"{config.name}: {problem}", flush=True)
        return problem.exit_code
    except Hung as problem:
        print(f"{config.name}: {problem}, and neither did the clients that replaced it", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
