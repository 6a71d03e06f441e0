"""A producer: numbered messages at a steady rate, each with the moment it was due, and what became of each.

A message is due by the rate, not when the last one was done: a producer that is held up sends late, and the journal
shows how late. Numbers are reserved on disk, a block at a time, before any of them reaches the wire; so after a crash
nothing is on the wire that the disk could not know about.

Outcomes are collected as they come, in plain arrays, and go to the journal as whole columns.
"""

from __future__ import annotations

import signal
import sys
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as KafkaProducer

from ackproof.clients.common import MESSAGE, Progress, Value, kafka_settings, pack, read_config, wait_for_go
from ackproof.clients.outcomes import meaning
from ackproof.journal import FLUSH_EVERY_S, Writer

BLOCK = 65_536
BATCH_MAX = 1_000  # messages given to the client between two looks at the clock
NO_OFFSET = -1001
GO_S = 120.0


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
    settings: dict[str, Value] = {}


class Outcomes:
    """What came back, in the order it came; emptied into the journal by `take`."""

    def __init__(self, retries: bool, say: Callable[[int, int | None, str | None], None] | None) -> None:
        self._retries = retries
        self._say = say
        self.acked = self.failed = self.unknown = 0
        self._clear()

    def _clear(self) -> None:
        self.seq = array("q")
        self.done_ns = array("q")
        self.partition = array("i")
        self.offset = array("q")
        self.errors: dict[int, str] = {}  # by place in the arrays: few, so a dict costs nothing

    def delivered(self, error: KafkaError | None, message: Any) -> None:
        seq = MESSAGE.unpack_from(message.value())[2]
        if error is not None:
            self._failed(error.name())
        else:
            self.acked += 1
        self.seq.append(seq)
        self.done_ns.append(time.monotonic_ns())
        self.partition.append(message.partition())
        self.offset.append(message.offset() if error is None else NO_OFFSET)
        if self._say is not None:
            self._say(seq, message.offset() if error is None else None, error.name() if error else None)

    def _failed(self, name: str) -> None:
        self.errors[len(self.seq)] = name
        if meaning(name, self._retries).outcome == "fail":
            self.failed += 1
        else:
            self.unknown += 1

    def refused(self, seq: int, name: str) -> None:
        """The client did not even take it."""
        self._failed(name)
        self.seq.append(seq)
        self.done_ns.append(time.monotonic_ns())
        self.partition.append(-1)
        self.offset.append(NO_OFFSET)

    def take(self) -> dict[str, Any]:
        """The columns of `sends` for all that came since the last time."""
        count = len(self.seq)
        outcome, error = ["ok"] * count, [None] * count
        for place, name in self.errors.items():
            outcome[place] = meaning(name, self._retries).outcome
            error[place] = name  # type: ignore[call-overload]
        columns = {
            "seq": _column(self.seq, pa.int64()),
            "done_ns": _column(self.done_ns, pa.int64()),
            "partition": _column(self.partition, pa.int32()),
            "offset": pa.array([offset if offset >= 0 else None for offset in self.offset], pa.int64()),
            "outcome": pa.array(outcome),
            "error": pa.array(error, pa.string()),
        }
        self._clear()
        return columns


def _column(values: array[int], kind: pa.DataType) -> pa.Array:
    """Without a copy: the array is given away, and not written again."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


class Load:
    """The producer at work."""

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self._settings = client_settings(config)
        retries = str(self._settings.get("retries", "")) not in ("0",)
        self._say = Spoken(config.name).say if config.print else None
        self._outcomes = Outcomes(retries, self._say)
        directory = Path(config.directory)
        self._sends = Writer(directory, "sends", config.run, config.name)
        self._blocks = Writer(directory, "blocks", config.run, config.name)
        self._progress = Progress(Path(config.progress), create=True)
        self._sent_ns = array("q")
        self._begun_ns = 0
        self._reserved = 0
        self._flushed = time.monotonic()
        self._stopped = False

    def stop(self, *_: Any) -> None:
        self._stopped = True

    def run(self) -> None:
        client = KafkaProducer(self._settings)
        client.list_topics(self._config.topic, timeout=30)  # so that the first message is not late for the metadata
        self._progress.write(1, 0, 0, 0, 0, 0)
        self._begun_ns = wait_for_go(Path(self._config.go), GO_S)
        self._send_all(client)
        self._wait_for_outcomes(client)
        self._finish()

    def _due_ns(self, seq: int) -> int:
        rate = self._config.rate
        return self._begun_ns + int(seq * 1e9 / rate) if rate else self._sent_ns[seq]

    def _send_all(self, client: KafkaProducer) -> None:
        seq, count, rate = 0, self._config.count, self._config.rate
        while seq < count and not self._stopped:
            now = time.monotonic_ns()
            due = count if rate is None else min(count, int((now - self._begun_ns) * rate / 1e9) + 1)
            last = min(due, seq + BATCH_MAX)
            while seq < last:
                self._send(client, seq)
                seq += 1
            client.poll(0)
            self._tell_if_due()
            if rate is not None and seq == due < count:
                wait_s = (self._begun_ns + seq * 1e9 / rate - time.monotonic_ns()) / 1e9
                if wait_s > 0:
                    client.poll(min(wait_s, 0.05))

    def _send(self, client: KafkaProducer, seq: int) -> None:
        config = self._config
        if seq >= self._reserved:
            self._reserve(seq)
        key = None if config.keys is None else str(seq % config.keys).encode()
        value = pack(config.id, seq, b"." * (config.size - MESSAGE.size))
        self._sent_ns.append(time.monotonic_ns())
        while True:
            try:
                client.produce(config.topic, value, key, on_delivery=self._outcomes.delivered)
                return
            except BufferError:  # its queue is full: that is where a held-up producer waits, and is late
                client.poll(0.01)
                self._tell_if_due()
                if self._stopped:
                    self._outcomes.refused(seq, "_QUEUE_FULL")
                    return
            except KafkaException as problem:
                self._outcomes.refused(seq, problem.args[0].name())
                return

    def _reserve(self, seq: int) -> None:
        count = min(BLOCK, self._config.count - seq)
        self._blocks.add(producer=self._config.id, first_seq=seq, count=count, at_ns=time.monotonic_ns())
        self._blocks.flush()
        self._reserved = seq + count

    def _wait_for_outcomes(self, client: KafkaProducer) -> None:
        deadline = time.monotonic() + self._config.flush_s
        while len(client) > 0 and time.monotonic() < deadline:
            client.flush(0.1)
            self._tell_if_due()
            if self._stopped:
                deadline = min(deadline, time.monotonic() + 2)

    def _tell_if_due(self) -> None:
        if time.monotonic() - self._flushed >= FLUSH_EVERY_S:
            self._flush()
        outcomes = self._outcomes
        self._progress.write(1, len(self._sent_ns), outcomes.acked, outcomes.failed, outcomes.unknown, 0)

    def _flush(self) -> None:
        self._flushed = time.monotonic()
        if self._outcomes.seq:
            self._journal(self._outcomes.take())

    def _journal(self, columns: dict[str, Any]) -> None:
        seqs = columns["seq"].to_pylist()
        count = len(seqs)
        keys = self._config.keys
        self._sends.add_columns(
            {
                **columns,
                "producer": [self._config.id] * count,
                "topic": [self._config.topic_id] * count,
                "key": [seq % keys for seq in seqs] if keys else [None] * count,
                "due_ns": [self._due_ns(seq) for seq in seqs],
                "sent_ns": [self._sent_ns[seq] for seq in seqs],
            }
        )

    def _finish(self) -> None:
        """Whatever has no outcome by now is of unknown outcome; the blocks say how many numbers were really used."""
        self._flush()
        total = len(self._sent_ns)
        self._journal_unanswered(total)
        if total:
            first = (total - 1) // BLOCK * BLOCK
            self._blocks.add(
                producer=self._config.id,
                first_seq=first,
                count=min(BLOCK, self._config.count - first),
                used=total - first,
                at_ns=time.monotonic_ns(),
            )
        self._blocks.close(seal=False)
        self._sends.close(seal=False)
        outcomes = self._outcomes
        known = outcomes.acked + outcomes.failed
        self._progress.write(1, total, outcomes.acked, outcomes.failed, total - known, 1)

    def _journal_unanswered(self, total: int) -> None:
        from ackproof.journal import read_stream

        self._sends.flush()
        answered = (
            set(read_stream(self._sends.path)[0].column("seq").to_pylist()) if self._open_answers(total) else set()
        )
        missing = [seq for seq in range(total) if seq not in answered] if self._open_answers(total) else []
        if missing:
            count = len(missing)
            self._sends.add_columns(
                {
                    "producer": [self._config.id] * count,
                    "seq": missing,
                    "topic": [self._config.topic_id] * count,
                    "partition": [-1] * count,
                    "due_ns": [self._due_ns(seq) for seq in missing],
                    "sent_ns": [self._sent_ns[seq] for seq in missing],
                    "outcome": ["info"] * count,
                    "error": ["no answer"] * count,
                }
            )

    def _open_answers(self, total: int) -> bool:
        outcomes = self._outcomes
        return outcomes.acked + outcomes.failed + outcomes.unknown < total


def client_settings(config: ProducerConfig) -> dict[str, Any]:
    return {
        "bootstrap.servers": config.bootstrap,
        "client.id": config.name,
        "broker.address.family": "v4",
        "acks": config.acks,
        "log_level": 3,
        **kafka_settings(config.settings),
    }


class Spoken:
    """The slow shape's words: each value with its offset; when the offset falls, a fail-over with the number lost."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last: int | None = None

    def say(self, seq: int, offset: int | None, error: str | None) -> None:
        if offset is None or offset < 0:
            print(f"{self._name}: {seq} {'not acknowledged: ' + error if error else 'acknowledged without offset'}")
        else:
            if self._last is not None and offset <= self._last:
                print(f"{self._name}: failed over, {self._last + 1 - offset} lost")
            self._last = offset
            print(f"{self._name}: {seq} at offset {offset}")
        sys.stdout.flush()


def main() -> None:
    load = Load(read_config(ProducerConfig))
    signal.signal(signal.SIGTERM, load.stop)
    load.run()


if __name__ == "__main__":
    main()
