"""A consumer in a group: every message it was given, every partition it was given or lost, every offset it committed.

It reads until it is told to stop. What it was given is in the journal before its offset is committed, so a crash can
make it read twice, and never makes the journal lack what was committed.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import KafkaException, TopicPartition

from ackproof.clients.common import Progress, Value, kafka_settings, read_config, unpack
from ackproof.journal import FLUSH_EVERY_S, Writer

BATCH = 1_000
POLL_S = 0.1


class ConsumerConfig(msgspec.Struct, frozen=True):
    run: int
    directory: str
    id: int
    name: str
    topic: str
    topic_id: int
    group: str
    group_id: int
    bootstrap: str
    progress: str
    settings: dict[str, Value] = {}


class Reading:
    def __init__(self, config: ConsumerConfig) -> None:
        self._config = config
        directory = Path(config.directory)
        self._reads = Writer(directory, "reads", config.run, config.name)
        self._groups = Writer(directory, "groups", config.run, config.name)
        self._commits = Writer(directory, "commits", config.run, config.name)
        self._progress = Progress(Path(config.progress), create=True)
        self._assignment = 0
        self._polls = 0
        self._count = 0
        self._committed = time.monotonic()
        self._stopped = False

    def stop(self, *_: Any) -> None:
        self._stopped = True

    def run(self) -> None:
        client = KafkaConsumer(client_settings(self._config))
        client.subscribe([self._config.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        self._progress.write(1, 0, 0, 0, 0, 0)
        while not self._stopped:
            messages = client.consume(BATCH, POLL_S)
            good = [message for message in messages if message.error() is None]
            for message in messages:
                if message.error() is not None:
                    print(f"{self._config.name}: {message.error()}", flush=True)
            if good:
                self._polls += 1
                self._journal(good)
            if time.monotonic() - self._committed >= FLUSH_EVERY_S:
                self._commit(client)
        self._commit(client)
        client.close()
        for writer in (self._reads, self._groups, self._commits):
            writer.close(seal=False)
        self._progress.write(1, self._count, 0, 0, 0, 1)

    def _journal(self, messages: list[Any]) -> None:
        now = time.monotonic_ns()
        count = len(messages)
        values = [unpack(message.value()) for message in messages]
        self._reads.add_columns(
            {
                "consumer": [self._config.id] * count,
                "group": [self._config.group_id] * count,
                "topic": [self._config.topic_id] * count,
                "partition": [message.partition() for message in messages],
                "offset": [message.offset() for message in messages],
                "leader_epoch": pa.array([message.leader_epoch() for message in messages], pa.int32()),
                "producer": [producer for producer, _ in values],
                "seq": [seq for _, seq in values],
                "read_ns": [now] * count,
                "poll": [self._polls] * count,
                "assignment": [self._assignment] * count,
            }
        )
        self._count += count
        self._progress.write(1, self._count, 0, 0, 0, 0)

    def _commit(self, client: KafkaConsumer) -> None:
        """What was journaled, and no more: the position is where the next message would come from."""
        self._committed = time.monotonic()
        places = [place for place in client.position(client.assignment()) if place.offset >= 0]
        if not places:
            return
        try:
            client.commit(offsets=places, asynchronous=False)
            outcome, error = "ok", None
        except KafkaException as problem:
            outcome, error = "info", problem.args[0].name()
        for place in places:
            self._commits.add(
                consumer=self._config.id,
                group=self._config.group_id,
                at_ns=time.monotonic_ns(),
                topic=self._config.topic_id,
                partition=place.partition,
                offset=place.offset,
                outcome=outcome,
                error=error,
            )
        self._commits.flush()

    def _assigned(self, _: Any, places: list[TopicPartition]) -> None:
        self._assignment += 1
        self._tell("assigned", places)

    def _revoked(self, client: Any, places: list[TopicPartition]) -> None:
        self._commit(client)
        self._tell("revoked", places)

    def _lost(self, _: Any, places: list[TopicPartition]) -> None:
        self._tell("lost", places)

    def _tell(self, event: str, places: list[TopicPartition]) -> None:
        shown = ", ".join(f"{place.topic}/{place.partition}" for place in places) or "nothing"
        print(f"{self._config.name}: {event} {shown}", flush=True)
        for place in places:
            self._groups.add(
                consumer=self._config.id,
                group=self._config.group_id,
                at_ns=time.monotonic_ns(),
                event=event,
                topic=self._config.topic_id,
                partition=place.partition,
                assignment=self._assignment,
            )
        self._groups.flush()


def client_settings(config: ConsumerConfig) -> dict[str, Any]:
    return {
        "bootstrap.servers": config.bootstrap,
        "client.id": config.name,
        "group.id": config.group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "broker.address.family": "v4",
        "log_level": 3,
        **kafka_settings(config.settings),
    }


def main() -> None:
    reading = Reading(read_config(ConsumerConfig))
    signal.signal(signal.SIGTERM, reading.stop)
    reading.run()
    sys.exit(0)


if __name__ == "__main__":
    main()
