"""The observer: asks every broker for its own view of every partition, several times a second, as long as it lives.

It stands where no fault reaches. A broker that does not answer is noted as that; the others are not kept waiting for
it, because each broker is asked in a thread of its own, at its own pace.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ackproof.clients.lateness import Lateness
from ackproof.clients.runtime import Progress, read_config
from ackproof.journal.writer import Writer
from ackproof.kafka.protocol import zookeeper
from ackproof.kafka.protocol.broker import Broker, Eligible, Group, Metadata, NoAnswer

EVERY_S = 0.125  # 0.25 is promised, also where an answer is slow
TIMEOUT_S = 1.0
MEMBERS_EVERY_S = 0.5
ELIGIBLE_EVERY_S = 0.5
SETTINGS_EVERY_S = 1.0
GROUPS_EVERY_S = 1.0
STRANGERS_MOST = 100  # members that are none of ours, of which one is enough to make a run no evidence
# What decides which acknowledged message the healed log still holds. Brokers have some of them under `log.` too.
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
ALL_BROKERS = -1  # in place of a topic's number: what was set for brokers

NOBODY = Eligible((), ())


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
    groups: dict[str, list[str]] = {}  # of each group whose members are all ours: their client ids


class Observer:
    def __init__(self, config: ObserverConfig) -> None:
        self._config = config
        names = ["state", "members", "topics", "eligible"]
        names += ["stable"] * bool(config.transactional) + ["nodes"] * bool(config.groups)
        self._tables = {name: Writer(Path(config.directory), name, config.run, config.name) for name in names}
        self._turn = threading.Lock()
        self._topics: dict[
            tuple[str, int, bool], dict[str, Any]
        ] = {}  # the last row of each; of its settings one apart
        self._strangers: set[tuple[str, str, str]] = set()  # group, client id and host of members that are none of ours
        self._known: set[tuple[str, int]] = set()  # every partition that any broker told of
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
            with self._turn:
                for table in self._tables.values():
                    table.flush_if_due()
        for thread in threads:
            thread.join()
        for row in self._topics.values():
            self._tables["topics"].add(**row)
        for table in self._tables.values():
            table.close(seal=False)

    def _follow(self, number: int) -> None:
        address, port = self._config.brokers[number]
        with Broker(address, port, TIMEOUT_S) as broker:
            while not self._over.is_set():
                begun = time.monotonic()
                rows = self._look(broker, number)
                with self._turn:
                    for row in rows:
                        self._tables["state"].add(**row)
                self._over.wait(max(0.0, begun + EVERY_S - time.monotonic()))

    def _follow_zookeeper(self, name: str) -> None:
        """One that has lost its quorum does not answer, and then nothing is noted."""
        address, port = self._config.zookeeper[name]
        while not self._over.is_set():
            begun = time.monotonic()
            at_ns = time.monotonic_ns()
            with suppress(NoAnswer, OSError):
                found, of_topics, of_brokers = zookeeper.brokers_and_settings(
                    address, port, list(self._config.topics), TIMEOUT_S
                )
                with self._turn:
                    self._tables["members"].add(at_ns=at_ns, source=name, brokers=sorted(found))
                    for topic, settings in of_topics.items():
                        self._note_settings(at_ns, name, self._config.topics[topic], settings)
                    together = {
                        f"{key} of {who}": value for who, own in of_brokers.items() for key, value in own.items()
                    }
                    self._note_settings(at_ns, name, ALL_BROKERS, together)
            self._over.wait(max(0.0, begun + MEMBERS_EVERY_S - time.monotonic()))

    def _follow_settings(self, number: int) -> None:
        """Under KRaft, where each broker knows them by itself."""
        address, port = self._config.brokers[number]
        with Broker(address, port, TIMEOUT_S) as broker:
            while True:
                at_ns = time.monotonic_ns()
                with suppress(NoAnswer):
                    found = broker.settings(list(self._config.topics), SETTINGS)
                    with self._turn:
                        for topic, settings in found.items():
                            self._note_settings(at_ns, self._config.names[number], self._config.topics[topic], settings)
                if self._over.wait(SETTINGS_EVERY_S):
                    return

    def _follow_groups(self, number: int) -> None:
        """Asks each broker for the members of those of the run's groups that it coordinates."""
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
        """A row for each member of a group that has no client id of ours, once."""
        with self._turn:
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
        self._note_topic({"at_ns": at_ns, "source": source, "topic": topic, "settings": text})

    def _note_topic(self, row: dict[str, Any]) -> None:
        """In your turn: written where it differs from the last, and the last of all once more at the end."""
        key = row["source"], row["topic"], "settings" in row
        before, self._topics[key] = self._topics.get(key), row
        if before is None or row | {"at_ns": 0} != before | {"at_ns": 0}:
            self._tables["topics"].add(**row)

    def _note_topics(self, at_ns: int, number: int, metadata: Metadata) -> None:
        source, replicas = self._config.names[number], defaultdict(list)
        for view in metadata.partitions:
            replicas[view.topic].append(",".join(map(str, view.replicas)))
        for topic, error in metadata.topic_errors.items():
            if error == UNKNOWN:
                replicas[topic] = []
        for topic, own in replicas.items():
            row = {"at_ns": at_ns, "source": source, "topic": self._config.topics[topic], "replicas": own}
            self._note_topic({**row, "topic_id": metadata.topic_ids.get(topic)})

    def _follow_eligible(self, number: int) -> None:
        """A row whenever the answer changes; a broker that knows no such question is not asked again."""
        address, port = self._config.brokers[number]
        before: dict[tuple[str, int], Eligible] = {}
        told = False
        with Broker(address, port, TIMEOUT_S) as broker:
            while not self._over.wait(ELIGIBLE_EVERY_S):
                at_ns = time.monotonic_ns()
                try:
                    found = broker.eligible(list(self._config.topics))
                except NoAnswer as silence:
                    if silence.kind == "unsupported":
                        return
                    if silence.kind == "garbage" and not told:
                        told = True
                        print(f"broker {number}: who may lead is not understood ({silence})", file=sys.stderr)
                    continue
                with self._turn:
                    for (topic, partition), now in found.items():
                        if before.get((topic, partition), NOBODY) != now:
                            self._tables["eligible"].add(
                                at_ns=at_ns,
                                broker=number,
                                topic=self._config.topics[topic],
                                partition=partition,
                                eligible=list(now.replicas),
                                last_known=list(now.last_known),
                            )
                before = found

    def _look(self, broker: Broker, number: int) -> list[dict[str, Any]]:
        at_ns = time.monotonic_ns()
        try:
            metadata = broker.metadata(list(self._config.topics))
            wanted = [(view.topic, view.partition) for view in metadata.partitions]
            offsets = broker.offsets(wanted)
            stable = broker.last_stable(each for each in wanted if each[0] in self._config.transactional)
        except NoAnswer as silence:
            return self._silence(at_ns, number, f"{silence.kind}: {silence.reason}")
        took_ns = time.monotonic_ns() - at_ns
        self._known |= set(wanted)
        with self._turn:
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
                {
                    "at_ns": at_ns,
                    "took_ns": took_ns,
                    "broker": number,
                    "topic": self._config.topics[view.topic],
                    "partition": view.partition,
                    "error": view.error,
                    "leader": view.leader,
                    "leader_epoch": view.leader_epoch,
                    "replicas": list(view.replicas),
                    "isr": list(view.isr),
                    "high_watermark": own.high_watermark,
                    "log_end": own.log_end,
                    "log_start": own.log_start,
                }
            )
        return rows

    def _silence(self, at_ns: int, number: int, error: str) -> list[dict[str, Any]]:
        """A row for each partition: whatever the broker said of it before, it says no longer."""
        row = {"at_ns": at_ns, "took_ns": time.monotonic_ns() - at_ns, "broker": number, "error": error}
        places = [(self._config.topics[topic], partition) for topic, partition in sorted(self._known)]
        return [row | {"topic": topic, "partition": partition} for topic, partition in places or [(-1, -1)]]


def main() -> None:
    config = read_config(ObserverConfig)
    observer = Observer(config)
    signal.signal(signal.SIGTERM, observer.stop)
    with Lateness(config.directory, config.run, config.name):
        observer.run()


if __name__ == "__main__":
    main()
