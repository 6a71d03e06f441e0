"""Ask every broker for its partitions, and who is the controller, again and again, each node in a thread of its own.

If brokers describe a partition differently, the newest leader epoch counts: a leader that was cut off goes on reporting
an old ISR. `merged`, `ReadableOffsets` and `Elections` send no requests; they only work on the answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass

from ackproof.health.rules import UncleanElection, WatchedPartition
from ackproof.kafka.protocol import broker as ask
from ackproof.kafka.protocol import zookeeper
from ackproof.kafka.protocol.broker import Broker, Metadata, NoAnswer

EVERY_S = 0.5
ENSEMBLE_EVERY_S = 1.0  # each question opens a session, which ZooKeeper's ensemble has to agree on
TIMEOUT_S = 1.0
FRESH_S = 3.0  # an older answer no longer counts
SHOWN_S = 10.0  # how long an unclean election is reported

Address = tuple[str, int]


@dataclass(frozen=True)
class Nodes:
    """The addresses to ask: brokers by Kafka's id, ZooKeeper nodes or controllers by name."""

    brokers: Mapping[int, Address]
    zookeeper: Mapping[str, Address]
    controllers: Mapping[str, Address]


@dataclass(frozen=True)
class LeaderOffsets:
    """The offsets of a partition, as its leader reports them."""

    name: str
    epoch: int
    high_watermark: int | None
    log_end: int | None


class ClusterProbe:
    def __init__(self, nodes: Nodes, min_isr: Mapping[str, int], over: threading.Event) -> None:
        self._nodes = nodes
        self._min_isr = min_isr  # by topic, all that are watched
        self._over = over
        self._answers: dict[int, tuple[float, Metadata]] = {}
        self._offsets: dict[int, list[LeaderOffsets]] = {}
        self._controllers: dict[str, tuple[float, int | None]] = {}  # by the node that named it

    def start(self) -> None:
        for number in self._nodes.brokers:
            threading.Thread(target=self._follow_broker, args=(number,), daemon=True).start()
        for name, address in {**self._nodes.zookeeper, **self._nodes.controllers}.items():
            threading.Thread(target=self._follow_ensemble, args=(name, address), daemon=True).start()

    def answers(self) -> dict[int, Metadata]:
        """The last answer of each broker, also of one that no longer answers."""
        return {number: answer for number, (_, answer) in dict(self._answers).items()}

    def answering(self) -> frozenset[int]:
        now = time.monotonic()
        return frozenset(number for number, (at, _) in dict(self._answers).items() if now - at <= FRESH_S)

    def leader_offsets(self) -> list[LeaderOffsets]:
        """The offsets of each partition, from every broker that claims to lead it."""
        return [offsets for led in list(self._offsets.values()) for offsets in led]

    def controller(self) -> int | None:
        now = time.monotonic()
        known = [who for at, who in list(self._controllers.values()) if who is not None and now - at <= FRESH_S]
        return known[0] if known else None

    def _follow_broker(self, number: int) -> None:
        address, port = self._nodes.brokers[number]
        with Broker(address, port, TIMEOUT_S) as broker:
            while not self._over.wait(EVERY_S):
                with suppress(NoAnswer):
                    answer = broker.metadata(list(self._min_isr))
                    self._answers[number] = (time.monotonic(), answer)
                    led = [partition for partition in answer.partitions if partition.leader == number]
                    self._offsets[number] = _leader_offsets(broker, led)

    def _follow_ensemble(self, name: str, address: Address) -> None:
        """Ask who is the controller. Every ZooKeeper node knows it; of a KRaft quorum only the leader answers."""
        with Broker(*address, TIMEOUT_S) as node:
            while not self._over.wait(ENSEMBLE_EVERY_S):
                try:
                    in_zookeeper = name in self._nodes.zookeeper
                    who = zookeeper.controller_id(*address, TIMEOUT_S) if in_zookeeper else node.quorum().leader_id
                except (NoAnswer, OSError):
                    who = None
                self._controllers[name] = (time.monotonic(), who)


def _leader_offsets(broker: Broker, led: Sequence[ask.Partition]) -> list[LeaderOffsets]:
    found = broker.offsets([(each.topic, each.partition) for each in led]) if led else {}
    return [
        LeaderOffsets(f"{each.topic}/{each.partition}", each.leader_epoch or 0, offsets.high_watermark, offsets.log_end)
        for each in led
        for offsets in [found[(each.topic, each.partition)]]
    ]


def merged(answers: Mapping[int, Metadata], answering: Set[int], min_isr: Mapping[str, int]) -> list[WatchedPartition]:
    """The watched partitions, each as the newest answer describes it."""
    newest: dict[tuple[str, int], tuple[tuple[int, bool, bool], ask.Partition]] = {}
    for broker, metadata in answers.items():
        for view in metadata.partitions:
            rank = (view.leader_epoch or 0, broker in answering, view.leader == broker)
            place = (view.topic, view.partition)
            if place not in newest or rank > newest[place][0]:
                newest[place] = (rank, view)
    return [
        WatchedPartition(
            f"{topic}/{partition}",
            view.leader,
            view.leader in answering,
            view.leader_epoch or 0,
            view.replicas,
            view.isr,
            min_isr[topic],
        )
        for (topic, partition), (_, view) in sorted(newest.items())
        if topic in min_isr
    ]


class ReadableOffsets:
    """Remembers how far consumers could read, to notice a log that now ends earlier.

    A new leader reports no high watermark until it has one of its own epoch, so a normal failover never looks like a
    fall. If the log of a new leader ends below the last high watermark, that is a fall at once: by the time it has a
    high watermark, it may have written far past the old one.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}

    def fell(self, offsets: LeaderOffsets) -> tuple[int, int] | None:
        """The offsets before and after a fall, else None. What a deposed leader still reports does not count."""
        epoch, last = self._seen.get(offsets.name, (offsets.epoch, -1))
        now = offsets.high_watermark
        if now is None and offsets.log_end is not None and offsets.log_end < last:
            now = offsets.log_end
        if now is None or offsets.epoch < epoch:
            return None
        self._seen[offsets.name] = (offsets.epoch, now)
        return (last, now) if now < last else None


class Elections:
    """Remembers which replicas were in sync, to notice a new leader that was not.

    With `eligible` (KRaft), a replica that was in sync when the ISR last had its minimum may lead too: the high
    watermark has not moved since then, so the replica holds all that was acknowledged.
    """

    def __init__(self, eligible: bool) -> None:
        self._eligible = eligible
        self._epochs: dict[str, int] = {}
        self._in_sync: dict[str, frozenset[int]] = {}
        self._enough: dict[str, frozenset[int]] = {}
        self._seen: list[tuple[float, UncleanElection]] = []

    def see(self, partitions: Sequence[WatchedPartition], now: float) -> list[UncleanElection]:
        """The unclean elections of the last few seconds, including those that these partitions show."""
        for each in partitions:
            fit = self._in_sync.get(each.name)
            if self._eligible and fit is not None:
                fit |= self._enough.get(each.name, frozenset())
            if each.leader is not None:
                elected = each.leader_epoch > self._epochs.get(each.name, each.leader_epoch)
                if elected and fit is not None and each.leader not in fit:
                    self._seen.append((now, UncleanElection(each.name, each.leader, tuple(sorted(fit)))))
                self._epochs[each.name] = each.leader_epoch
            if each.isr:
                self._in_sync[each.name] = frozenset(each.isr)
            if len(each.isr) >= each.min_isr:
                self._enough[each.name] = frozenset(each.isr)
        self._seen = [(at, found) for at, found in self._seen if now - at <= SHOWN_S]
        return [found for _, found in self._seen]
