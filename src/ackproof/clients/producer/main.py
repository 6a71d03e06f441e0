"""A producer: numbered messages at a steady rate, each with the moment it was due, and what became of each.

A message is due by the rate, not when the last one was done: a producer that is held up sends late, and the journal
shows how late. Numbers are reserved on disk, a block at a time, before any of them reaches the wire; so after a crash
nothing is on the wire that the disk could not know about.

Outcomes are noted as they come and go to the journal as whole columns.
"""

from __future__ import annotations

import gc
import math
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
from confluent_kafka import Producer as KafkaProducer

from ackproof.clients.lateness import Lateness
from ackproof.clients.producer.delivery_reports import NO_PARTITION, Numbers, Outcomes, Spoken
from ackproof.clients.producer.in_flight import UnderWay
from ackproof.clients.producer.shared_client import Sharing
from ackproof.clients.producer.topic_check import TopicProblem, check_topic
from ackproof.clients.runtime import Login, Progress, login_settings, read_config, wait_for_go
from ackproof.journal.writer import FLUSH_EVERY_S, FLUSH_ROWS, Writer, repeated
from ackproof.kafka.client_settings import Value, kafka_settings
from ackproof.model.message import MAGIC, MESSAGE

BLOCK = 65_536
BATCH_MAX = 1_000  # messages given to the client between two looks at the clock
TICK_S = 0.001  # the shortest wait that librdkafka knows; what falls due within one is sent together
QUEUE_MESSAGES = 100_000  # librdkafka's own default
GO_S = 120.0
ANY_PARTITION = -1  # librdkafka's own word for it


class OutboxConfig(msgspec.Struct, frozen=True):
    give_up_after: int  # failures in a row
    retry_s: float
    exit_code: int


class TransactionsConfig(msgspec.Struct, frozen=True):
    input: str
    size: int
    abort_every: int | None
    timeout_s: float


class ProducerConfig(msgspec.Struct, frozen=True):
    run: int
    directory: str
    id: int
    name: str
    topic: str
    topic_id: int
    bootstrap: str
    count: int
    rate: float | None
    acks: str
    size: int
    keys: int | None
    print: bool
    go: str
    progress: str
    flush_s: float
    pauses: list[tuple[int, float]] = []  # after so many messages nothing is due for so many seconds
    topic_check: Literal["validate", "create", "assume"] = "validate"
    topic_timeout_s: float = 30.0
    partitions: int = 1  # of a topic that it creates itself
    replication: int = 1
    grows: bool = False  # the topic, while it sends
    outbox: OutboxConfig | None = None
    transactions: TransactionsConfig | None = None
    login: Login | None = None
    journal: str | None = None  # the name of its files, where that is another
    partition: int | None = None  # of all its messages; null: the client chooses
    threads: int | None = None  # so many give messages to the one client; null: whoever polls it does
    settings: dict[str, Value] = {}


class Pace:
    """When each message is due, in nanoseconds since the load began."""

    def __init__(self, rate: float, pauses: Sequence[tuple[int, float]]) -> None:
        self._step_ns = 1e9 / rate
        self._pauses = [(after, round(seconds * 1e9)) for after, seconds in sorted(pauses)]

    def when(self, seq: int) -> int:
        return int(seq * self._step_ns) + sum(pause_ns for after, pause_ns in self._pauses if seq >= after)

    def all(self, seq: Numbers) -> Numbers:
        due = (seq * self._step_ns).astype(np.int64)
        for after, pause_ns in self._pauses:
            due[seq >= after] += pause_ns
        return due

    def due(self, elapsed_ns: int) -> int:
        """How many messages are due by now."""
        for after, pause_ns in self._pauses:
            if elapsed_ns < after * self._step_ns:
                break
            elapsed_ns = max(int(after * self._step_ns) - 1, elapsed_ns - pause_ns)
        return math.floor(elapsed_ns / self._step_ns) + 1


class Load:
    """The producer at work."""

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self._settings = client_settings(config)
        retries = str(self._settings.get("retries", "")) not in ("0",)
        self._say = Spoken(config.name).say if config.print else None
        self._outcomes = Outcomes(retries, config.acks != "0", self._say)
        directory = Path(config.directory)
        self._sends = Writer(directory, "sends", config.run, config.name)
        self._blocks = Writer(directory, "blocks", config.run, config.name)
        self._progress = Progress(Path(config.progress), create=True)
        self._under_way = UnderWay()
        self._queue_max = int(self._settings.get("queue.buffering.max.messages", QUEUE_MESSAGES))
        self._pace = Pace(config.rate or 1.0, config.pauses)
        self._begun_ns = self._turned_ns = self._behind_ns = 0
        self._reserved = 0
        self._flushed = time.monotonic()
        self._stopped = False

    def stop(self, *_: Any) -> None:
        self._stopped = True

    def run(self) -> None:
        client = KafkaProducer(self._settings)
        partitions = check_topic(client, self._config)  # also so that the first message is not late for the metadata
        if not self._config.grows:
            self._outcomes.know_partitions(partitions)
        self._progress.write(1, 0, 0, 0, 0, 0)
        self._begun_ns = wait_for_go(Path(self._config.go), GO_S)
        self._turned_ns = time.monotonic_ns()
        if self._config.threads is None:
            self._send_all(client)
        else:
            self._send_shared(client, self._config.threads)
        self._wait_for_outcomes(client)
        self._finish()

    def _send_all(self, client: KafkaProducer) -> None:
        seq, count, rate = 0, self._config.count, self._config.rate
        while seq < count and not self._stopped:
            due = count if rate is None else min(count, self._pace.due(time.monotonic_ns() - self._begun_ns))
            if seq < due:
                seq = self._send(client, seq, min(due, seq + BATCH_MAX))
            self._poll(client, 0)
            self._tell_if_due()
            if rate is not None and seq == due < count:
                wait_s = (self._begun_ns + self._pace.when(seq) - time.monotonic_ns()) / 1e9
                if wait_s > 0:
                    self._poll(client, min(max(wait_s, TICK_S), 0.05))

    def _send_shared(self, client: KafkaProducer, threads: int) -> None:
        """Threads give messages to the one client, each a stretch of numbers at a time; this one hears what became."""
        sharing = Sharing(self._take, self._batch, partial(self._give, client))
        sharing.start(threads)
        busy = True
        while busy and not self._stopped:
            busy = sharing.busy()
            self._poll(client, 0.01)
            for seq, error in sharing.refused():
                self._outcomes.refused(seq, error)
            self._tell_if_due()

    def _take(self) -> range:
        """The next numbers, reserved, for whoever asks; none when there are no more."""
        seq = len(self._under_way)
        if self._stopped or seq >= self._config.count:
            return range(0)
        if seq >= self._reserved:
            self._reserve(seq)
        taken = range(seq, min(seq + BATCH_MAX, self._reserved))
        self._under_way.add(time.monotonic_ns(), len(taken))
        return taken

    def _poll(self, client: KafkaProducer, wait_s: float) -> None:
        client.poll(wait_s)
        self._outcomes.stamp()
        # Nothing between two polls waits for Kafka: a turn that takes longer than it wanted to wait is our own doing.
        turned_ns, self._turned_ns = self._turned_ns, time.monotonic_ns()
        self._behind_ns = max(self._behind_ns, self._turned_ns - turned_ns - int(wait_s * 1e9))

    def _send(self, client: KafkaProducer, seq: int, last: int) -> int:
        """Give these messages to the client, as many as its queue takes; the next number to send."""
        room = self._queue_max - len(client)
        if room <= 0:  # here a producer that is held up waits, and is late
            self._poll(client, 0.01)
            return seq
        if seq >= self._reserved:
            self._reserve(seq)
        batch = self._batch(seq, min(last, seq + room, self._reserved))
        now = time.monotonic_ns()
        count = len(batch) if self._give(client, batch) == len(batch) else self._refusals(client, seq, batch)
        self._under_way.add(now, count)
        return seq + count

    def _give(self, client: KafkaProducer, batch: list[dict[str, Any]]) -> int:
        """How many the client took."""
        partition = ANY_PARTITION if self._config.partition is None else self._config.partition
        taken: int = client.produce_batch(self._config.topic, batch, partition, on_delivery=self._outcomes.delivered)
        return taken

    def _refusals(self, client: KafkaProducer, seq: int, batch: list[dict[str, Any]]) -> int:
        """Note what the client refused for good; how many of the batch are done with, one way or the other."""
        for place, message in enumerate(batch):
            if (error := message.get("_error")) is None:
                continue
            if error.name() == "_QUEUE_FULL":  # by bytes; nothing behind it was taken either, so order holds
                self._poll(client, 0.01)
                return place
            self._outcomes.refused(seq + place, error.name())
        return len(batch)

    def _batch(self, first: int, last: int) -> list[dict[str, Any]]:
        make, number, keys = MESSAGE.pack, self._config.id, self._config.keys
        padding = b"." * (self._config.size - MESSAGE.size)
        if keys is None:
            return [{"value": make(MAGIC, number, seq) + padding} for seq in range(first, last)]
        return [
            {"value": make(MAGIC, number, seq) + padding, "key": str(seq % keys).encode()} for seq in range(first, last)
        ]

    def _reserve(self, seq: int) -> None:
        if seq:
            self._close_block(seq)
        count = min(BLOCK, self._config.count - seq)
        self._blocks.add(producer=self._config.id, first_seq=seq, count=count, at_ns=time.monotonic_ns())
        self._blocks.flush()
        self._reserved = seq + count

    def _close_block(self, used_to: int) -> None:
        """Say how many numbers of the block that was reserved last were used: all below this one, or none."""
        first = (self._reserved - 1) // BLOCK * BLOCK
        count = min(BLOCK, self._config.count - first)
        told = {"used": used_to - first, "at_ns": time.monotonic_ns(), "behind_ns": self._behind_ns}
        self._blocks.add(producer=self._config.id, first_seq=first, count=count, **told)

    def _wait_for_outcomes(self, client: KafkaProducer) -> None:
        deadline = time.monotonic() + self._config.flush_s
        while len(client) > 0 and time.monotonic() < deadline:
            self._poll(client, 0.05)
            self._tell_if_due()
            if self._stopped:
                deadline = min(deadline, time.monotonic() + 2)

    def _tell_if_due(self) -> None:
        now = time.monotonic()
        if now - self._flushed >= FLUSH_EVERY_S or len(self._outcomes) >= FLUSH_ROWS:
            self._flushed = now
            self._flush()
        outcomes = self._outcomes
        self._progress.write(1, len(self._under_way), outcomes.acked, outcomes.failed, outcomes.unknown, 0)

    def _flush(self) -> None:
        if len(self._outcomes):
            columns = self._outcomes.take()
            self._journal(columns.pop("seq"), columns)

    def _journal(self, seq: Numbers, columns: dict[str, Any]) -> None:
        """Rows of `sends`, with what is known of these numbers from when they were sent."""
        count, sent_ns = len(seq), self._under_way.sent_ns(seq)
        rate, keys = self._config.rate, self._config.keys
        due_ns = sent_ns if rate is None else self._begun_ns + self._pace.all(seq)
        self._sends.add_columns(
            {
                **columns,
                "producer": repeated(self._config.id, pa.int32(), count),
                "topic": repeated(self._config.topic_id, pa.int32(), count),
                "seq": pa.array(seq),
                "key": repeated(None, pa.int64(), count) if keys is None else pa.array(seq % keys),
                "due_ns": pa.array(due_ns),
                "sent_ns": pa.array(sent_ns),
            }
        )
        self._under_way.answer(seq)

    def _finish(self) -> None:
        """Whatever has no outcome by now is of unknown outcome; the blocks say how many numbers were really used."""
        self._flush()
        total = len(self._under_way)
        self._journal_unanswered()
        if self._reserved:
            self._close_block(total)
        self._blocks.close(seal=False)
        self._sends.close(seal=False)
        outcomes = self._outcomes
        self._progress.write(1, total, outcomes.acked, outcomes.failed, total - outcomes.acked - outcomes.failed, 1)

    def _journal_unanswered(self) -> None:
        missing = self._under_way.unanswered()
        if len(missing):
            count = len(missing)
            self._journal(
                missing,
                {
                    "partition": repeated(NO_PARTITION, pa.int32(), count),
                    "outcome": repeated("info", pa.string(), count),
                    "error": repeated("no answer", pa.string(), count),
                },
            )


def client_settings(config: ProducerConfig) -> dict[str, Any]:
    return {
        "bootstrap.servers": config.bootstrap,
        "client.id": config.name,
        "broker.address.family": "v4",
        "acks": config.acks,
        "log_level": 3,
        **login_settings(config.login),
        **kafka_settings(config.settings),
    }


def main() -> None:
    gc.disable()  # nothing here refers in circles, and looking for it costs a tenth at full speed
    config = read_config(ProducerConfig)
    load = Load(config)
    signal.signal(signal.SIGTERM, load.stop)
    try:
        with Lateness(config.directory, config.run, config.name):
            load.run()
    except TopicProblem as problem:
        print(f"{config.name}: {problem}", flush=True)
        sys.exit(problem.exit_code)


if __name__ == "__main__":
    main()
