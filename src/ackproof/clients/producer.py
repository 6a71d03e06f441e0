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
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as KafkaProducer

from ackproof.clients.common import MAGIC, MESSAGE, Progress, Value, kafka_settings, read_config, wait_for_go
from ackproof.clients.outcomes import meaning
from ackproof.journal import FLUSH_EVERY_S, FLUSH_ROWS, Writer, same

BLOCK = 65_536
BATCH_MAX = 1_000  # messages given to the client between two looks at the clock
TICK_S = 0.001  # the shortest wait that librdkafka knows; what falls due within one is sent together
NO_OFFSET, NO_PARTITION = -1001, -1
QUEUE_MESSAGES = 100_000  # librdkafka's own default
GO_S = 120.0

Numbers = npt.NDArray[np.int64]
Say = Callable[[int, int | None, int | None, str | None], None]  # number, partition, offset, error


class OutboxConfig(msgspec.Struct, frozen=True):
    give_up_after: int  # failures in a row
    retry_s: float
    exit_code: int


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
    outbox: OutboxConfig | None = None
    journal: str | None = None  # the name of its files, where that is another
    settings: dict[str, Value] = {}


class Outcomes:
    """What came back, in the order it came; emptied into the journal by `take`.

    The callback runs once for every message and is what a producer at full speed spends its time on. So it only keeps
    what it was given. Whoever polls the client calls `stamp` afterwards: what one poll brought came at one moment, and
    is asked for its number and its offset while it is still in the processor's cache. The rest is worked out by `take`,
    for thousands of messages at a time.
    """

    def __init__(self, retries: bool, answered: bool = True, say: Say | None = None) -> None:
        """`answered`: not with acks=0, where what the client calls an offset is only a place in its own batch."""
        self._retries = retries
        self._answered = answered
        self._partitions = 0  # not known
        self.acked = self.failed = self.unknown = 0
        self._messages: list[Any] = []  # since the last stamp
        self._values: list[bytes] = []  # these and the next two: one entry for each stamp
        self._offsets: list[Numbers] = []
        self._partition: list[Numbers] = []
        self._stamped = 0
        self._errors: dict[int, str] = {}  # by place among all: few, so a dict costs nothing
        self._refused: list[tuple[int, str, int]] = []
        self._stamps: list[tuple[int, int]] = []  # how many came, and when
        self.delivered = self._keeping() if say is None else self._saying(say)

    def _keeping(self) -> Callable[[KafkaError | None, Any], None]:
        keep, messages, errors = self._messages.append, self._messages, self._errors

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                errors[self._stamped + len(messages)] = error.name()
            keep(message)

        return delivered

    def _saying(self, say: Say) -> Callable[[KafkaError | None, Any], None]:
        keep = self._keeping()

        def delivered(error: KafkaError | None, message: Any) -> None:
            keep(error, message)
            seq = MESSAGE.unpack_from(message.value())[2]
            offset = message.offset() if error is None and self._answered else None
            say(seq, message.partition(), offset, error.name() if error else None)

        return delivered

    def refused(self, seq: int, name: str) -> None:
        """The client did not even take it."""
        self._refused.append((seq, name, time.monotonic_ns()))

    def know_partitions(self, count: int) -> None:
        """With one partition there is nothing to ask a message for."""
        self._partitions = count

    def stamp(self) -> None:
        messages = self._messages
        if not messages:
            return
        now, count = time.monotonic_ns(), len(messages)
        self._values.append(b"".join(map(_VALUE, messages)))
        self._offsets.append(_asked(_OFFSET, messages, NO_OFFSET))
        if self._partitions != 1:
            self._partition.append(_asked(_PARTITION, messages, NO_PARTITION))
        self._stamps.append((count, now))
        self._stamped += count
        messages.clear()

    def __len__(self) -> int:
        return self._stamped + len(self._refused)

    def take(self) -> dict[str, Any]:
        """The columns of `sends` for all that came since the last time; `seq` as numpy has it."""
        self.stamp()
        errors, refused, stamps = dict(self._errors), self._refused, self._stamps
        count, total = self._stamped, len(self)
        seq = np.empty(total, dtype=np.int64)
        seq[:count] = _numbers(b"".join(self._values), count)
        seq[count:] = [number for number, _, _ in refused]
        done_ns = np.empty(total, dtype=np.int64)
        done_ns[:count] = np.repeat([at for _, at in stamps], [came for came, _ in stamps])
        done_ns[count:] = [at for _, _, at in refused]
        partition = np.full(total, NO_PARTITION, dtype=np.int32)
        offset = np.full(total, NO_OFFSET, dtype=np.int64)
        partition[:count] = np.concatenate(self._partition) if self._partition else 0
        offset[:count] = np.concatenate(self._offsets) if self._offsets else ()
        self._errors.clear()  # the callback holds this very dict
        self._stamped = 0
        self._values, self._offsets, self._partition, self._refused, self._stamps = [], [], [], [], []
        wrong = {**errors, **{count + place: name for place, (_, name, _) in enumerate(refused)}}
        offset[list(wrong) if self._answered else slice(None)] = NO_OFFSET
        unknown = offset < 0
        return {
            "seq": seq,
            "done_ns": pa.array(done_ns),
            "partition": pa.array(partition),
            "offset": pa.array(offset, mask=unknown) if unknown.any() else pa.array(offset),
            **self._judged(total, wrong),
        }

    def _judged(self, total: int, wrong: dict[int, str]) -> dict[str, Any]:
        self.acked += total - len(wrong)
        if not wrong:
            return {"outcome": same("ok", pa.string(), total), "error": same(None, pa.string(), total)}
        outcome = np.full(total, "ok", dtype=object)
        error = np.full(total, None, dtype=object)
        for place, name in wrong.items():
            outcome[place], error[place] = meaning(name, self._retries).outcome, name
        failed = int((outcome == "fail").sum())
        self.failed += failed
        self.unknown += len(wrong) - failed
        return {"outcome": pa.array(outcome, pa.string()), "error": pa.array(error, pa.string())}


_VALUE = cast(Callable[[Any], bytes], Message.value)
_OFFSET, _PARTITION = (cast(Callable[[Any], int | None], method) for method in (Message.offset, Message.partition))


def _asked(method: Callable[[Any], int | None], messages: list[Any], unknown: int) -> Numbers:
    """A number from each message; where one has none, as all have with acks=0, the slow way."""
    try:
        return np.fromiter(cast(Iterator[int], map(method, messages)), np.int64, len(messages))
    except TypeError:
        found = map(method, messages)
        return np.fromiter((unknown if number is None else number for number in found), np.int64, len(messages))


def _numbers(joined: bytes, count: int) -> Numbers:
    """The number of each of so many messages, from their own values."""
    step = len(joined) // count if count else MESSAGE.size
    if step != MESSAGE.size:  # padded, all of them to the same size
        joined = b"".join(joined[place : place + MESSAGE.size] for place in range(0, len(joined), step))
    return np.frombuffer(joined, dtype=_MESSAGE_DTYPE)["seq"].astype(np.int64)


_MESSAGE_DTYPE = np.dtype([("magic", "S4"), ("producer", ">i4"), ("seq", ">i8")])


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
        self._sent_ns = array("q")  # by number
        self._answered: list[Numbers] = []
        self._queue_max = int(self._settings.get("queue.buffering.max.messages", QUEUE_MESSAGES))
        self._pace = Pace(config.rate or 1.0, config.pauses)
        self._begun_ns = 0
        self._reserved = 0
        self._flushed = time.monotonic()
        self._stopped = False

    def stop(self, *_: Any) -> None:
        self._stopped = True

    def run(self) -> None:
        client = KafkaProducer(self._settings)
        # Also so that the first message is not late for the metadata.
        self._outcomes.know_partitions(check_topic(client, self._config))
        self._progress.write(1, 0, 0, 0, 0, 0)
        self._begun_ns = wait_for_go(Path(self._config.go), GO_S)
        self._send_all(client)
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

    def _poll(self, client: KafkaProducer, wait_s: float) -> None:
        client.poll(wait_s)
        self._outcomes.stamp()

    def _send(self, client: KafkaProducer, seq: int, last: int) -> int:
        """Give these messages to the client, as many as its queue takes; the next number to send."""
        if seq >= self._reserved:
            self._reserve(seq)
        room = self._queue_max - len(client)
        if room <= 0:  # here a producer that is held up waits, and is late
            self._poll(client, 0.01)
            return seq
        batch = self._batch(seq, min(last, seq + room, self._reserved))
        now = time.monotonic_ns()
        taken = client.produce_batch(self._config.topic, batch, on_delivery=self._outcomes.delivered)
        count = len(batch) if taken == len(batch) else self._refusals(client, seq, batch)
        self._sent_ns.extend(array("q", (now,)) * count)
        return seq + count

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
        """Say how many numbers of the last block were used: all below this one."""
        first = (used_to - 1) // BLOCK * BLOCK
        count = min(BLOCK, self._config.count - first)
        now = time.monotonic_ns()
        self._blocks.add(producer=self._config.id, first_seq=first, count=count, used=used_to - first, at_ns=now)

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
        self._progress.write(1, len(self._sent_ns), outcomes.acked, outcomes.failed, outcomes.unknown, 0)

    def _flush(self) -> None:
        if len(self._outcomes):
            columns = self._outcomes.take()
            self._answered.append(columns["seq"])
            self._journal(columns.pop("seq"), columns)

    def _journal(self, seq: Numbers, columns: dict[str, Any]) -> None:
        """Rows of `sends`, with what is known of these numbers from when they were sent."""
        count, lowest = len(seq), int(seq.min())
        sent_ns = np.frombuffer(self._sent_ns[lowest : int(seq.max()) + 1], dtype=np.int64)[seq - lowest]
        rate, keys = self._config.rate, self._config.keys
        due_ns = sent_ns if rate is None else self._begun_ns + self._pace.all(seq)
        self._sends.add_columns(
            {
                **columns,
                "producer": same(self._config.id, pa.int32(), count),
                "topic": same(self._config.topic_id, pa.int32(), count),
                "seq": pa.array(seq),
                "key": same(None, pa.int64(), count) if keys is None else pa.array(seq % keys),
                "due_ns": pa.array(due_ns),
                "sent_ns": pa.array(sent_ns),
            }
        )

    def _finish(self) -> None:
        """Whatever has no outcome by now is of unknown outcome; the blocks say how many numbers were really used."""
        self._flush()
        total = len(self._sent_ns)
        self._journal_unanswered(total)
        if total:
            self._close_block(total)
        self._blocks.close(seal=False)
        self._sends.close(seal=False)
        outcomes = self._outcomes
        self._progress.write(1, total, outcomes.acked, outcomes.failed, total - outcomes.acked - outcomes.failed, 1)

    def _journal_unanswered(self, total: int) -> None:
        answered = np.zeros(total, dtype=bool)
        for seq in self._answered:
            answered[seq] = True
        missing = np.flatnonzero(~answered)
        if len(missing):
            count = len(missing)
            self._journal(
                missing,
                {
                    "partition": same(NO_PARTITION, pa.int32(), count),
                    "outcome": same("info", pa.string(), count),
                    "error": same("no answer", pa.string(), count),
                },
            )


class TopicProblem(Exception):
    """The topic could not be validated or created in time, in one sentence."""

    exit_code = 69  # "unavailable"


def check_topic(client: KafkaProducer, config: ProducerConfig) -> int:
    """How many partitions the topic has, as its check found; 0 where it is only assumed to be there."""
    if config.topic_check == "assume":
        return 0
    if config.topic_check == "create":
        _create_topic(config)
    try:
        known = client.list_topics(config.topic, timeout=config.topic_timeout_s).topics[config.topic]
    except KafkaException as problem:
        raise TopicProblem(
            f"topic {config.topic} could not be validated within {config.topic_timeout_s:g} s: "
            f"{problem.args[0].str().rstrip('.')}"
        ) from None
    if known.error is not None:
        raise TopicProblem(f"topic {config.topic}: {known.error.str().rstrip('.')}")
    return len(known.partitions)


def _create_topic(config: ProducerConfig) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": config.bootstrap,
        "log_level": 0,
        "broker.address.family": "v4",
    }
    wanted = NewTopic(config.topic, num_partitions=config.partitions, replication_factor=config.replication)
    admin = AdminClient(settings)
    future = admin.create_topics([wanted], request_timeout=config.topic_timeout_s)[config.topic]
    try:
        future.result(timeout=config.topic_timeout_s + 1)
    except (KafkaException, TimeoutError) as problem:
        error = problem.args[0] if problem.args else None
        if error is not None and hasattr(error, "name") and error.name() == "TOPIC_ALREADY_EXISTS":
            return
        why = error.str().rstrip(".") if error is not None and hasattr(error, "str") else "no answer"
        raise TopicProblem(
            f"topic {config.topic} could not be created within {config.topic_timeout_s:g} s: {why}"
        ) from None


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
        self._last: dict[int | None, int] = {}  # by partition

    def say(self, seq: int, partition: int | None, offset: int | None, error: str | None) -> None:
        if offset is None or offset < 0:
            print(f"{self._name}: {seq} {'not acknowledged: ' + error if error else 'acknowledged without offset'}")
        else:
            last = self._last.get(partition, -1)
            if offset <= last:
                print(f"{self._name}: failed over, {last + 1 - offset} lost")
            self._last[partition] = offset
            print(f"{self._name}: {seq} at offset {offset}")
        sys.stdout.flush()


def main() -> None:
    gc.disable()  # nothing here refers in circles, and looking for it costs a tenth at full speed
    load = Load(read_config(ProducerConfig))
    signal.signal(signal.SIGTERM, load.stop)
    try:
        load.run()
    except TopicProblem as problem:
        print(f"{read_config(ProducerConfig).name}: {problem}", flush=True)
        sys.exit(problem.exit_code)


if __name__ == "__main__":
    main()
