"""What the brokers themselves say, and who is the controller, looked at again and again, each in a thread of its own.

`merged` and `Elections` are pure. Of several views of a partition the one of the newest epoch counts: a leader that was
cut off goes on telling of an ISR that is past.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass

from ackproof.health.rules import Partition, Unclean
from ackproof.kafka.protocol import broker as ask
from ackproof.kafka.protocol import zookeeper
from ackproof.kafka.protocol.broker import Broker, Metadata, NoAnswer

EVERY_S = 0.5
ENSEMBLE_EVERY_S = 1.0  # each question is a session of ZooKeeper's, which its ensemble agrees on
TIMEOUT_S = 1.0
FRESH_S = 3.0  # what a node said longer ago it says no more
SHOWN_S = 10.0  # an election is an event: it is told of for so long

Address = tuple[str, int]


@dataclass(frozen=True)
class Nodes:
    """Where to ask: brokers by Kafka's id, and the ensemble of ZooKeeper or of controllers by name."""

    brokers: Mapping[int, Address]
    zookeeper: Mapping[str, Address]
    controllers: Mapping[str, Address]


@dataclass(frozen=True)
class Mark:
    """How far a partition goes, by its leader's word."""

    name: str
    epoch: int
    high_watermark: int | None
    log_end: int | None


class Looks:
    def __init__(self, nodes: Nodes, min_isr: Mapping[str, int], over: threading.Event) -> None:
        self._nodes = nodes
        self._min_isr = min_isr  # by topic, all that are watched
        self._over = over
        self._said: dict[int, tuple[float, Metadata]] = {}
        self._marks: dict[int, list[Mark]] = {}
        self._controllers: dict[str, tuple[float, int | None]] = {}  # by who said so

    def start(self) -> None:
        for number in self._nodes.brokers:
            threading.Thread(target=self._follow_broker, args=(number,), daemon=True).start()
        for name, address in {**self._nodes.zookeeper, **self._nodes.controllers}.items():
            threading.Thread(target=self._follow_ensemble, args=(name, address), daemon=True).start()

    def said(self) -> dict[int, Metadata]:
        """What each broker said last, also one that has fallen silent: it is the last that is known."""
        return {number: said for number, (_, said) in dict(self._said).items()}

    def answering(self) -> frozenset[int]:
        now = time.monotonic()
        return frozenset(number for number, (at, _) in dict(self._said).items() if now - at <= FRESH_S)

    def marks(self) -> list[Mark]:
        """Of each partition that a broker says it leads."""
        return [mark for led in list(self._marks.values()) for mark in led]

    def controller(self) -> int | None:
        now = time.monotonic()
        known = [who for at, who in list(self._controllers.values()) if who is not None and now - at <= FRESH_S]
        return known[0] if known else None

    def _follow_broker(self, number: int) -> None:
        address, port = self._nodes.brokers[number]
        with Broker(address, port, TIMEOUT_S) as broker:
            while not self._over.wait(EVERY_S):
                with suppress(NoAnswer):
                    said = broker.metadata(list(self._min_isr))
                    self._said[number] = (time.monotonic(), said)
                    self._marks[number] = _marks(broker, [each for each in said.partitions if each.leader == number])

    def _follow_ensemble(self, name: str, address: Address) -> None:
        """ZooKeeper holds who is the controller; of a quorum only its leader tells."""
        with Broker(*address, TIMEOUT_S) as node:
            while not self._over.wait(ENSEMBLE_EVERY_S):
                try:
                    in_zookeeper = name in self._nodes.zookeeper
                    who = zookeeper.controller_id(*address, TIMEOUT_S) if in_zookeeper else node.quorum().leader_id
                except (NoAnswer, OSError):
                    who = None
                self._controllers[name] = (time.monotonic(), who)


def _marks(broker: Broker, led: Sequence[ask.Partition]) -> list[Mark]:
    found = broker.offsets([(each.topic, each.partition) for each in led]) if led else {}
    told = ((each, found[(each.topic, each.partition)]) for each in led)
    return [
        Mark(f"{each.topic}/{each.partition}", each.leader_epoch or 0, offsets.high_watermark, offsets.log_end)
        for each, offsets in told
    ]


def merged(said: Mapping[int, Metadata], answering: Set[int], min_isr: Mapping[str, int]) -> list[Partition]:
    newest: dict[tuple[str, int], tuple[tuple[int, bool, bool], ask.Partition]] = {}
    for broker, metadata in said.items():
        for view in metadata.partitions:
            rank = (view.leader_epoch or 0, broker in answering, view.leader == broker)
            place = (view.topic, view.partition)
            if place not in newest or rank > newest[place][0]:
                newest[place] = (rank, view)
    return [
        Partition(
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


class Marks:
    """Remembers how far consumers could read, so that a log that ends earlier than it did is noticed.

    A new leader tells no high watermark before it has one of its own epoch, so an ordinary failover makes none fall.
    One whose log ends below the last is told of at once: until it has a high watermark it may have written far past it.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}

    def fell(self, mark: Mark) -> tuple[int, int] | None:
        """From which offset to which it fell, if it did. What a deposed leader still says does not count."""
        epoch, last = self._seen.get(mark.name, (mark.epoch, -1))
        now = mark.high_watermark
        if now is None and mark.log_end is not None and mark.log_end < last:
            now = mark.log_end
        if now is None or mark.epoch < epoch:
            return None
        self._seen[mark.name] = (mark.epoch, now)
        return (last, now) if now < last else None


class Elections:
    """Remembers who was in sync, so that a leader who was not is noticed.

    KRaft also lets those lead that were in sync when the ISR last had its minimum (`eligible`): from then on the high
    watermark has stood still, so they hold all of it.
    """

    def __init__(self, eligible: bool) -> None:
        self._eligible = eligible
        self._epochs: dict[str, int] = {}
        self._in_sync: dict[str, frozenset[int]] = {}
        self._enough: dict[str, frozenset[int]] = {}
        self._seen: list[tuple[float, Unclean]] = []

    def see(self, partitions: Sequence[Partition], now: float) -> list[Unclean]:
        """The unclean elections of the last few seconds, with those that these views show."""
        for each in partitions:
            fit = self._in_sync.get(each.name)
            if self._eligible and fit is not None:
                fit |= self._enough.get(each.name, frozenset())
            if each.leader is not None:
                elected = each.leader_epoch > self._epochs.get(each.name, each.leader_epoch)
                if elected and fit is not None and each.leader not in fit:
                    self._seen.append((now, Unclean(each.name, each.leader, tuple(sorted(fit)))))
                self._epochs[each.name] = each.leader_epoch
            if each.isr:
                self._in_sync[each.name] = frozenset(each.isr)
            if len(each.isr) >= each.min_isr:
                self._enough[each.name] = frozenset(each.isr)
        self._seen = [(at, found) for at, found in self._seen if now - at <= SHOWN_S]
        return [found for _, found in self._seen]
