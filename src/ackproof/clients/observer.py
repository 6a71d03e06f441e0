"""The observer: it asks every broker for its own view of every partition, several times a second, until SIGTERM.

No fault reaches the observer. It writes down when a broker does not answer. The other brokers need not wait for that
one, because each broker has its own thread.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from ackproof.clients.lateness import Lateness
from ackproof.clients.runtime import Progress, read_config
from ackproof.journal.writer import Writer
from ackproof.kafka.protocol import zookeeper
from ackproof.kafka.protocol.broker import Broker, Eligible, Group, Metadata, NoAnswer

EVERY_S = 0.125  # the docs promise 0.25, because an answer may be slow
TIMEOUT_S = 1.0
MEMBERS_EVERY_S = 0.5
ELIGIBLE_EVERY_S = 0.5
SETTINGS_EVERY_S = 1.0
GROUPS_EVERY_S = 1.0
STRANGERS_MOST = 100  # members from outside the run; one of them is enough to make the run no evidence
# The settings that decide which acknowledged messages the healed log still holds. Brokers also have some as `log.*`.
SETTINGS = (
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "retention.ms",
    "retention.bytes",
    "cleanup.policy",
    "flush.messages",
    "flush.ms",
)
UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
ALL_BROKERS = -1  # instead of a topic's number: settings of brokers

NO_ELIGIBLE = Eligible((), ())


class ObserverConfig(msgspec.Struct, frozen=True):
    run: int
    directory: str
    name: str
    brokers: dict[int, tuple[str, int]]  # Kafka's id: address, port
    names: dict[int, str]  # Kafka's id: the node's name
    zookeeper: dict[str, tuple[str, int]]  # the node's name: address, port; none under KRaft
    topics: dict[str, int]
    transactional: list[str]
    progress: str
    groups: dict[str, list[str]] = {}  # the client ids of each group that has only clients of the run


class TopicRow(msgspec.Struct, frozen=True):
    """A row of `topics`. A row holds either the settings or the replicas."""

    at_ns: int
    source: str
    topic: int
    topic_id: str | None = None
    replicas: list[str] | None = None
    settings: str | None = None


class StateRow(msgspec.Struct, frozen=True):
    """A row of `state`."""

    at_ns: int
    took_ns: int
    broker: int
    topic: int
    partition: int
    error: str | None
    leader: int | None = None
    leader_epoch: int | None = None
    replicas: list[int] | None = None
    isr: list[int] | None = None
    high_watermark: int | None = None
    log_end: int | None = None
    log_start: int | None = None


class Observer:
    def __init__(self, config: ObserverConfig) -> None:
        self._config = config
        names = ["state", "members", "topics", "eligible"]
        names += ["stable"] * bool(config.transactional) + ["nodes"] * bool(config.groups)
        self._tables = {name: Writer(Path(config.directory), name, config.run, config.name) for name in names}
        self._lock = threading.Lock()
        self._topics: dict[tuple[str, int, bool], TopicRow] = {}  # the last row of each source and topic, of each kind
        self._strangers: set[tuple[str, str, str]] = set()  # group, client id and host of members from outside the run
        self._known: set[tuple[str, int]] = set()  # every partition that any broker reported
        self._over = threading.Event()
        self._progress = Progress(Path(config.progress), create=True)

    def stop(self, *_: Any) -> None:
        self._over.set()

    def run(self) -> None:
        threads = [threading.Thread(target=self._follow, args=(number,)) for number in self._config.brokers]
        threads += [threading.Thread(target=self._follow_zookeeper, args=(name,)) for name in self._config.zookeeper]
        if not self._config.zookeeper:
            threads += [
                threading.Thread(target=follow, args=(number,))
                for follow in (self._follow_eligible, self._follow_settings)
                for number in self._config.brokers
            ]
        if self._config.groups:
            threads += [threading.Thread(target=self._follow_groups, args=(number,)) for number in self._config.brokers]
        for thread in threads:
            thread.start()
        self._progress.write(1, 0, 0, 0, 0, 0)
        while not self._over.wait(0.1):
            with self._lock:
                for table in self._tables.values():
                    table.flush_if_due()
        for thread in threads:
            thread.join()
        for row in self._topics.values():
            self._tables["topics"].add(**asdict(row))
        for table in self._tables.values():
            table.close(seal=False)

    def _follow(self, number: int) -> None:
        address, port = self._config.brokers[number]
        with Broker(address, port, TIMEOUT_S) as broker:
            while not self._over.is_set():
                begun = time.monotonic()
                rows = self._look(broker, number)
                with self._lock:
                    for row in rows:
                        self._tables["state"].add(**asdict(row))
                self._over.wait(max(0.0, begun + EVERY_S - time.monotonic()))

    def _follow_zookeeper(self, name: str) -> None:
        """Ask one ZooKeeper node. A node that has lost its quorum does not answer, and then no row is written."""
        address, port = self._config.zookeeper[name]
        while not self._over.is_set():
            begun = time.monotonic()
            at_ns = time.monotonic_ns()
            with suppress(NoAnswer, OSError):
                found, of_topics, of_brokers = zookeeper.brokers_and_settings(
                    address, port, list(self._config.topics), TIMEOUT_S
                )
                with self._lock:
                    self._tables["members"].add(at_ns=at_ns, source=name, brokers=sorted(found))
                    for topic, settings in of_topics.items():
                        self._note_settings(at_ns, name, self._config.topics[topic], settings)
                    settings = {
                        f"{key} of {broker}": value for broker, own in of_brokers.items() for key, value in own.items()
                    }
                    self._note_settings(at_ns, name, ALL_BROKERS, settings)
            self._over.wait(max(0.0, begun + MEMBERS_EVERY_S - time.monotonic()))

    def _follow_settings(self, number: int) -> None:
        """Ask one broker for topic settings. Only under KRaft does each broker know them."""
        address, port = self._config.brokers[number]
        with Broker(address, port, TIMEOUT_S) as broker:
            while True:
                at_ns = time.monotonic_ns()
                with suppress(NoAnswer):
                    found = broker.settings(list(self._config.topics), SETTINGS)
                    with self._lock:
                        for topic, settings in found.items():
                            self._note_settings(at_ns, self._config.names[number], self._config.topics[topic], settings)
                if self._over.wait(SETTINGS_EVERY_S):
                    return

    def _follow_groups(self, number: int) -> None:
        """Ask one broker for the members of the groups that it coordinates."""
        address, port = self._config.brokers[number]
        with Broker(address, port, TIMEOUT_S) as broker:
            while True:
                at_ns = time.monotonic_ns()
                with suppress(NoAnswer):
                    for name in [listed.id for listed in broker.groups() if listed.id in self._config.groups]:
                        with suppress(NoAnswer):
                            if (group := broker.group(name)) is not None:
                                self._note_strangers(at_ns, group)
                if self._over.wait(GROUPS_EVERY_S):
                    return

    def _note_strangers(self, at_ns: int, group: Group) -> None:
        """Write one row for each member whose client id is not one of the run's."""
        with self._lock:
            for member in group.members:
                name = (group.id, member.client_id, member.host)
                new = member.client_id not in self._config.groups[group.id] and name not in self._strangers
                if new and len(self._strangers) < STRANGERS_MOST:
                    self._strangers.add(name)
                    text = f"is a member of the group {group.id}, from {member.host.removeprefix('/')}"
                    self._tables["nodes"].add(
                        at_ns=at_ns, node=member.client_id, event="joined", by_itself=False, text=text
                    )

    def _note_settings(self, at_ns: int, source: str, topic: int, settings: Mapping[str, str | None]) -> None:
        ours = {name: value for name, value in settings.items() if name.split()[0].removeprefix("log.") in SETTINGS}
        text = msgspec.json.encode(ours, order="sorted").decode()
        self._note_topic(TopicRow(at_ns, source, topic, settings=text))

    def _note_topic(self, row: TopicRow) -> None:
        """Write a row if it differs from the last one. The caller holds the lock. `run` writes the last rows again."""
        key = row.source, row.topic, row.settings is not None
        before, self._topics[key] = self._topics.get(key), row
        if before is None or replace(row, at_ns=0) != replace(before, at_ns=0):
            self._tables["topics"].add(**asdict(row))

    def _note_topics(self, at_ns: int, number: int, metadata: Metadata) -> None:
        source, replicas = self._config.names[number], defaultdict(list)
        for view in metadata.partitions:
            replicas[view.topic].append(",".join(map(str, view.replicas)))
        for topic, error in metadata.topic_errors.items():
            if error == UNKNOWN:
                replicas[topic] = []
        for topic, own in replicas.items():
            self._note_topic(TopicRow(at_ns, source, self._config.topics[topic], metadata.topic_ids.get(topic), own))

    def _follow_eligible(self, number: int) -> None:
        """Write a row for every change. A broker that does not know the request is not asked again."""
        address, port = self._config.brokers[number]
        before: dict[tuple[str, int], Eligible] = {}
        warned = False
        with Broker(address, port, TIMEOUT_S) as broker:
            while not self._over.wait(ELIGIBLE_EVERY_S):
                at_ns = time.monotonic_ns()
                try:
                    found = broker.eligible(list(self._config.topics))
                except NoAnswer as silence:
                    if silence.kind == "unsupported":
                        return
                    if silence.kind == "garbage" and not warned:
                        warned = True
                        print(f"broker {number}: its eligible leaders cannot be read ({silence})", file=sys.stderr)
                    continue
                with self._lock:
                    for (topic, partition), now in found.items():
                        if before.get((topic, partition), NO_ELIGIBLE) != now:
                            self._tables["eligible"].add(
                                at_ns=at_ns,
                                broker=number,
                                topic=self._config.topics[topic],
                                partition=partition,
                                eligible=list(now.replicas),
                                last_known=list(now.last_known),
                            )
                before = found

    def _look(self, broker: Broker, number: int) -> list[StateRow]:
        """The broker's view of each partition. Members, topics and stable offsets are written on the way."""
        at_ns = time.monotonic_ns()
        try:
            metadata = broker.metadata(list(self._config.topics))
            wanted = [(view.topic, view.partition) for view in metadata.partitions]
            offsets = broker.offsets(wanted)
            stable = broker.last_stable(each for each in wanted if each[0] in self._config.transactional)
        except NoAnswer as silence:
            return list(self._without_answer(at_ns, number, f"{silence.kind}: {silence.reason}"))
        took_ns = time.monotonic_ns() - at_ns
        self._known |= set(wanted)
        with self._lock:
            members = sorted(node.id for node in metadata.brokers)
            self._tables["members"].add(at_ns=at_ns, source=self._config.names[number], brokers=members)
            self._note_topics(at_ns, number, metadata)
            for (topic, partition), offset in stable.items():
                own = offsets[(topic, partition)]
                place = {"broker": number, "topic": self._config.topics[topic], "partition": partition}
                if offset is not None and own.high_watermark is not None:
                    self._tables["stable"].add(
                        at_ns=at_ns, **place, last_stable=offset, high_watermark=own.high_watermark
                    )
        rows = []
        for view in metadata.partitions:
            own = offsets[(view.topic, view.partition)]
            rows.append(
                StateRow(
                    at_ns,
                    took_ns,
                    number,
                    self._config.topics[view.topic],
                    view.partition,
                    view.error,
                    view.leader,
                    view.leader_epoch,
                    list(view.replicas),
                    list(view.isr),
                    own.high_watermark,
                    own.log_end,
                    own.log_start,
                )
            )
        return rows

    def _without_answer(self, at_ns: int, number: int, error: str) -> Iterator[StateRow]:
        """A row for each known partition: the broker's view of it is now unknown."""
        took_ns = time.monotonic_ns() - at_ns
        places = [(self._config.topics[topic], partition) for topic, partition in sorted(self._known)]
        for topic, partition in places or [(-1, -1)]:
            yield StateRow(at_ns, took_ns, number, topic, partition, error)


def main() -> None:
    config = read_config(ObserverConfig)
    observer = Observer(config)
    signal.signal(signal.SIGTERM, observer.stop)
    with Lateness(config.directory, config.run, config.name):
        observer.run()


if __name__ == "__main__":
    main()
