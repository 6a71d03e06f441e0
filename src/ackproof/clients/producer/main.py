"""A producer: it sends numbered messages at a steady rate, and writes down when each was due and what became of it.

The rate decides when a message is due, not the end of the message before. A producer that is held up sends late, and
the journal shows how late. The producer reserves a block of numbers on disk before any of them reaches the wire. So
after a crash the wire holds no message that the journal does not know.

Delivery reports go to the journal as whole columns.
"""

from __future__ import annotations

import gc
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer as KafkaProducer

from ackproof.clients.lateness import Lateness
from ackproof.clients.producer.config import GO_S, ProducerConfig, client_settings, retries
from ackproof.clients.producer.delivery_reports import NO_PARTITION, DeliveryPrinter, DeliveryReports, Numbers
from ackproof.clients.producer.in_flight import InFlight
from ackproof.clients.producer.pacing import Pace
from ackproof.clients.producer.shared_client import Batch, SharedClient
from ackproof.clients.producer.topic_check import TopicProblem, check_topic
from ackproof.clients.runtime import Progress, read_config, wait_for_go
from ackproof.journal.writer import FLUSH_EVERY_S, FLUSH_ROWS, Writer, repeated
from ackproof.model.message import MAGIC, MESSAGE

BLOCK = 65_536
BATCH_MAX = 1_000  # messages given to the client between two looks at the clock
TICK_S = 0.001  # librdkafka's shortest wait; messages that become due within one tick are sent together
QUEUE_MESSAGES = 100_000  # librdkafka's default
ANY_PARTITION = -1  # librdkafka's value for "the client chooses"


class ProducerLoop:
    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self._settings = client_settings(config)
        show = DeliveryPrinter(config.name).show if config.print else None
        self._reports = DeliveryReports(retries(self._settings), config.acks != "0", show)
        directory = Path(config.directory)
        self._sends = Writer(directory, "sends", config.run, config.name)
        self._blocks = Writer(directory, "blocks", config.run, config.name)
        self._progress = Progress(Path(config.progress), create=True)
        self._in_flight = InFlight()
        self._queue_max = int(self._settings.get("queue.buffering.max.messages", QUEUE_MESSAGES))
        self._pace = Pace(config.rate or 1.0, config.pauses)
        self._begun_ns = self._polled_ns = self._behind_ns = 0
        self._reserved = 0
        self._flushed = time.monotonic()
        self._stopped = False

    def stop(self, *_: Any) -> None:
        self._stopped = True

    def run(self) -> None:
        client = KafkaProducer(self._settings)
        partitions = check_topic(client, self._config)  # it also fetches the metadata, so the first message is not late
        if not self._config.grows:
            self._reports.know_partitions(partitions)
        self._progress.write(1, 0, 0, 0, 0, 0)
        self._begun_ns = wait_for_go(Path(self._config.go), GO_S)
        self._polled_ns = time.monotonic_ns()
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
        """Several threads send through one client. This thread handles the delivery reports."""
        shared = SharedClient(self._take, self._batch, partial(self._give, client))
        shared.start(threads)
        busy = True
        while busy and not self._stopped:
            busy = shared.busy()
            self._poll(client, 0.01)
            for seq, error in shared.refused():
                self._reports.refused(seq, error)
            self._tell_if_due()

    def _take(self) -> range:
        """The next reserved numbers for a thread; none when there are no more."""
        seq = len(self._in_flight)
        if self._stopped or seq >= self._config.count:
            return range(0)
        if seq >= self._reserved:
            self._reserve(seq)
        taken = range(seq, min(seq + BATCH_MAX, self._reserved))
        self._in_flight.add(time.monotonic_ns(), len(taken))
        return taken

    def _poll(self, client: KafkaProducer, wait_s: float) -> None:
        client.poll(wait_s)
        self._reports.stamp()
        # Nothing between two polls waits for Kafka. If a turn takes longer than its wait, the delay is our own.
        before_ns, self._polled_ns = self._polled_ns, time.monotonic_ns()
        self._behind_ns = max(self._behind_ns, self._polled_ns - before_ns - int(wait_s * 1e9))

    def _send(self, client: KafkaProducer, seq: int, last: int) -> int:
        """Give these messages to the client, as many as its queue accepts. Return the next number to send."""
        room = self._queue_max - len(client)
        if room <= 0:  # a producer that Kafka holds up waits here, and its messages become late
            self._poll(client, 0.01)
            return seq
        if seq >= self._reserved:
            self._reserve(seq)
        batch = self._batch(seq, min(last, seq + room, self._reserved))
        now = time.monotonic_ns()
        count = len(batch) if self._give(client, batch) == len(batch) else self._refusals(client, seq, batch)
        self._in_flight.add(now, count)
        return seq + count

    def _give(self, client: KafkaProducer, batch: Batch) -> int:
        """Give a batch to the client. Return how many messages it accepted."""
        partition = ANY_PARTITION if self._config.partition is None else self._config.partition
        accepted: int = client.produce_batch(self._config.topic, batch, partition, on_delivery=self._reports.delivered)
        return accepted

    def _refusals(self, client: KafkaProducer, seq: int, batch: Batch) -> int:
        """Note the messages that the client refused for good. Return how many of the batch were accepted or refused."""
        for place, message in enumerate(batch):
            if (error := message.get("_error")) is None:
                continue
            if error.name() == "_QUEUE_FULL":  # in bytes; no later message was accepted either, so the order holds
                self._poll(client, 0.01)
                return place
            self._reports.refused(seq + place, error.name())
        return len(batch)

    def _batch(self, first: int, last: int) -> Batch:
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
        """Write down how many numbers of the last reserved block were used: all below `used_to`."""
        first = (self._reserved - 1) // BLOCK * BLOCK
        count = min(BLOCK, self._config.count - first)
        self._blocks.add(
            producer=self._config.id,
            first_seq=first,
            count=count,
            used=used_to - first,
            at_ns=time.monotonic_ns(),
            behind_ns=self._behind_ns,
        )

    def _wait_for_outcomes(self, client: KafkaProducer) -> None:
        deadline = time.monotonic() + self._config.flush_s
        while len(client) > 0 and time.monotonic() < deadline:
            self._poll(client, 0.05)
            self._tell_if_due()
            if self._stopped:
                deadline = min(deadline, time.monotonic() + 2)

    def _tell_if_due(self) -> None:
        now = time.monotonic()
        if now - self._flushed >= FLUSH_EVERY_S or len(self._reports) >= FLUSH_ROWS:
            self._flushed = now
            self._flush()
        reports = self._reports
        self._progress.write(1, len(self._in_flight), reports.acked, reports.failed, reports.unknown, 0)

    def _flush(self) -> None:
        if len(self._reports):
            columns = self._reports.take()._asdict()
            self._journal(columns.pop("seq"), columns)

    def _journal(self, seq: Numbers, columns: dict[str, pa.Array]) -> None:
        """Write rows of `sends`, with the times at which these numbers were due and sent."""
        count, sent_ns = len(seq), self._in_flight.sent_ns(seq)
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
        self._in_flight.answer(seq)

    def _finish(self) -> None:
        """Close the journal. Messages without a report are `info`; the last block says how many were sent."""
        self._flush()
        total = len(self._in_flight)
        self._journal_unanswered()
        if self._reserved:
            self._close_block(total)
        self._blocks.close(seal=False)
        self._sends.close(seal=False)
        acked, failed = self._reports.acked, self._reports.failed
        self._progress.write(1, total, acked, failed, total - acked - failed, 1)

    def _journal_unanswered(self) -> None:
        missing = self._in_flight.unanswered()
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


def main() -> None:
    gc.disable()  # this process makes no reference cycles, and the collector would cost a tenth at full speed
    config = read_config(ProducerConfig)
    producer = ProducerLoop(config)
    signal.signal(signal.SIGTERM, producer.stop)
    try:
        with Lateness(config.directory, config.run, config.name):
            producer.run()
    except TopicProblem as problem:
        print(f"{config.name}: {problem}", flush=True)
        sys.exit(problem.exit_code)


if __name__ == "__main__":
    main()
