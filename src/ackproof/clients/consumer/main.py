"""A consumer in a group. It writes down every message, every change of its partitions, and every offset it commits.

It reads until SIGTERM. A message is in the journal before its offset is committed. So a crash can make the consumer
read a message twice, but the journal never lacks a committed message. The consumer writes down where it begins in a
partition when it is assigned, and where it stands when it ends. So the judge knows which messages it had to read, and
whether it reached them.

A consumer with a receiver is in no group and commits nothing. It reads every partition from the offset in its own
database.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Any, Literal

import msgspec
import pyarrow as pa
from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import KafkaException, TopicPartition

from ackproof.clients.consumer.deduplication import Costs, ReceivedMessage, Receiver
from ackproof.clients.lateness import Lateness
from ackproof.clients.positions import Positions
from ackproof.clients.runtime import GROUP_WORDS, LIFE, Login, Progress, login_settings, read_config
from ackproof.clients.sqlite import database_of
from ackproof.journal.writer import FLUSH_EVERY_S, Writer
from ackproof.kafka.client_settings import Value, kafka_settings
from ackproof.model.message import unpack

BATCH = 1_000
POLL_S = 0.1
ASK_S = 5.0  # how long a question about a position may take
ASSIGNED_S = 15.0  # then a consumer without a partition counts as ready: the client may not report an empty assignment


class ConsumerConfig(msgspec.Struct, frozen=True):
    run: int
    directory: str
    id: int
    name: str
    journal: str  # the name of its journal files; a consumer that is started again gets another name
    topic: str
    topic_id: int
    group: str
    group_id: int
    bootstrap: str
    progress: str
    over: str  # this file exists when the load is over and the logs no longer grow
    protocol: Literal["eager", "cooperative", "consumer"] = "eager"
    static: bool = False
    start: Literal["earliest", "latest"] = "earliest"
    commit: Literal["journaled", "auto", "never"] = "journaled"
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    print: bool = False
    life: int = 1
    login: Login | None = None
    external: list[int] = []  # the external producers of the run
    receiver: str | None = None  # the strategy with which it accepts each message once
    partitions: int = 1  # of the topic: a receiver reads them all
    also: dict[str, int] = {}  # more topics, and their numbers
    settings: dict[str, Value] = {}


class ConsumerLoop:
    def __init__(self, config: ConsumerConfig) -> None:
        self._config = config
        self._topics = {config.topic: config.topic_id, **config.also}
        directory = Path(config.directory)
        self._reads = Writer(directory, "reads", config.run, config.journal)
        self._groups = Writer(directory, "groups", config.run, config.journal)
        self._commits = Writer(directory, "commits", config.run, config.journal)
        self._last_positions = Writer(directory, "positions", config.run, config.journal)
        self._progress = Progress(Path(config.progress), create=True)
        self._positions = Positions(Path(config.over))
        # A restarted consumer continues the count, so that no two assignments or polls have one number.
        self._assignment = self._polls = (config.life - 1) * LIFE
        self._count = 0
        self._begun = self._committed = time.monotonic()
        self._stopped = False
        self._rebalancing = False  # it gave back all its partitions, and waits for the next assignment
        self._receiver: Receiver | None = None
        self._costs: Costs | None = None
        if config.receiver is not None:
            self._receiver = Receiver(database_of(directory, config.name), config.receiver, config.topic_id)
            self._costs = Costs(self._receiver, Writer(directory, "costs", config.run, config.journal), config.id)

    def stop(self, *_: Any) -> None:
        self._stopped = True

    def run(self) -> None:
        client = KafkaConsumer(client_settings(self._config))
        self._begin(client)
        while not self._stopped:
            messages = client.consume(BATCH, POLL_S)
            good = [message for message in messages if message.error() is None]
            for message in messages:
                if message.error() is not None:
                    self._say(f"got an error: {message.error()}")
            if good:
                self._polls += 1
                self._journal(good)
                self._receive(good)
            if self._costs is not None:
                self._costs.tell_if_due()
            if time.monotonic() - self._committed >= FLUSH_EVERY_S:
                self._commit(client)
            self._positions.look(client)
            self._tell_ready()
        self._write_positions(client)
        self._commit(client)
        client.close()
        if self._costs is not None:
            self._costs.close()
        for writer in (self._reads, self._groups, self._commits, self._last_positions):
            writer.close(seal=False)
        self._progress.write(1, self._count, 0, 0, 0, 1)

    def _begin(self, client: KafkaConsumer) -> None:
        """Join the group; with a receiver, take every partition instead, at the offsets of its database."""
        topic = self._config.topic
        if self._receiver is None:
            topics = list(self._topics)
            client.subscribe(topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
            return
        known = self._receiver.positions()
        places = [TopicPartition(topic, each, known.get(each, 0)) for each in range(self._config.partitions)]
        self._assignment += 1
        client.assign(places)
        self._positions.assigned(places)
        self._write_event("assigned", places)

    def _receive(self, messages: list[Any]) -> None:
        if self._receiver is not None:
            external = self._config.external
            self._receiver.handle(
                [ReceivedMessage(each.partition(), each.offset(), *unpack(each.value(), external)) for each in messages]
            )

    def _tell_ready(self) -> None:
        if self._assignment or time.monotonic() - self._begun >= ASSIGNED_S:
            positions = self._positions
            ready = 0 if self._rebalancing else 1
            self._progress.write(ready, self._count, 0, 0, 0, 0, positions.owned, positions.read_whole)

    def _write_positions(self, client: KafkaConsumer) -> None:
        for place, position, log_end in self._positions.current(client):
            self._last_positions.add(
                consumer=self._config.id,
                group=self._config.group_id,
                at_ns=time.monotonic_ns(),
                topic=self._topics[place.topic],
                partition=place.partition,
                position=position,
                log_end=log_end,
            )
        self._last_positions.flush()

    def _say(self, text: str) -> None:
        print(f"{self._config.name} {text}", flush=True)

    def _journal(self, messages: list[Any]) -> None:
        now = time.monotonic_ns()
        count = len(messages)
        values = [unpack(message.value(), self._config.external) for message in messages]
        self._reads.add_columns(
            {
                "consumer": [self._config.id] * count,
                "group": [self._config.group_id] * count,
                "topic": [self._topics[message.topic()] for message in messages],
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
        if self._config.print:
            for message, (producer, seq) in zip(messages, values, strict=True):
                self._say(f"reads {seq} of producer{producer + 1}, {_place(message.partition(), message.offset())}")

    # -- offsets ---------------------------------------------------------------------------------------------------

    def _commit(self, client: KafkaConsumer) -> None:
        """Commit the positions. Every message before them is in the journal."""
        self._committed = time.monotonic()
        if self._config.commit != "journaled":
            return
        places = [place for place in client.position(client.assignment()) if place.offset >= 0]
        if not places:
            return
        try:
            answers = client.commit(offsets=places, asynchronous=False) or []
            errors = {(each.topic, each.partition): each.error.name() for each in answers if each.error is not None}
            error_of_all = None
        except KafkaException as problem:
            errors, error_of_all = {}, problem.args[0].name()
        for place in places:
            error = errors.get((place.topic, place.partition), error_of_all)
            self._commits.add(
                consumer=self._config.id,
                group=self._config.group_id,
                at_ns=time.monotonic_ns(),
                topic=self._topics[place.topic],
                partition=place.partition,
                offset=place.offset,
                outcome="ok" if error is None else "info",
                error=error,
            )
        self._commits.flush()

    def _with_offsets(self, client: KafkaConsumer, places: list[TopicPartition]) -> list[TopicPartition]:
        """Each partition with the offset at which to begin: the committed one, or the log's start or end."""
        try:
            found = client.committed(places, timeout=ASK_S)
            return [self._begins(client, place) if place.offset < 0 else place for place in found]
        except KafkaException as problem:
            self._say(f"gets no answer where to begin ({problem.args[0].name()}); the client decides")
            return places

    def _begins(self, client: KafkaConsumer, place: TopicPartition) -> TopicPartition:
        low, high = client.get_watermark_offsets(place, timeout=ASK_S)
        return TopicPartition(place.topic, place.partition, high if self._config.start == "latest" else low)

    # -- the group -------------------------------------------------------------------------------------------------

    def _assigned(self, client: KafkaConsumer, places: list[TopicPartition]) -> None:
        self._assignment += 1
        self._rebalancing = False
        placed = self._with_offsets(client, places) if places else []
        if self._config.protocol == "eager":
            client.assign(placed)
        else:
            client.incremental_assign(placed)
        self._positions.assigned(placed)
        self._write_event("assigned", placed)

    def _revoked(self, client: KafkaConsumer, places: list[TopicPartition]) -> None:
        self._commit(client)
        self._rebalancing = self._config.protocol == "eager"
        self._positions.reset()
        self._write_event("revoked", places)

    def _lost(self, _: Any, places: list[TopicPartition]) -> None:
        self._positions.reset()
        self._write_event("lost", places)

    def _write_event(self, event: str, places: list[TopicPartition]) -> None:
        shown = ", ".join(f"{place.topic}/{place.partition}" for place in places) or "nothing"
        self._say(f"{GROUP_WORDS[event]} {shown}")
        for place in places:
            self._groups.add(
                consumer=self._config.id,
                group=self._config.group_id,
                at_ns=time.monotonic_ns(),
                event=event,
                topic=self._topics[place.topic],
                partition=place.partition,
                assignment=self._assignment,
                position=place.offset if event == "assigned" and place.offset >= 0 else None,
            )
        self._groups.flush()


def _place(partition: int, offset: int) -> str:
    return f"partition {partition} at offset {offset}"


PROTOCOLS: dict[str, dict[str, str]] = {
    "eager": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}


def client_settings(config: ConsumerConfig) -> dict[str, Value]:
    return {
        "bootstrap.servers": config.bootstrap,
        "client.id": config.name,
        "group.id": config.group,
        **({"group.instance.id": config.name} if config.static else {}),
        **PROTOCOLS[config.protocol],
        "enable.auto.commit": config.commit == "auto",
        "auto.offset.reset": config.start,
        "isolation.level": config.isolation,
        "broker.address.family": "v4",
        "log_level": 3,
        **login_settings(config.login),
        **kafka_settings(config.settings),
    }


def main() -> None:
    config = read_config(ConsumerConfig)
    consumer = ConsumerLoop(config)
    signal.signal(signal.SIGTERM, consumer.stop)
    with Lateness(config.directory, config.run, config.name, config.journal):
        consumer.run()
    sys.exit(0)


if __name__ == "__main__":
    main()
