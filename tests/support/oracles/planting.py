"""Runs in which nothing is wrong, and anomalies and their legal look-alikes planted into them.

A `World` is a run of some partitions, each with a producer of its own that writes a message every ten milliseconds,
and one consumer that is given all of them. Each planted case goes into a slot: five messages of one partition, and
the fifty milliseconds in which they were sent. It tells which witnesses of which checks it makes, and no other may be
found.

Measures of the whole run are planted into a `SlowWorld`, which lasts some seconds: a slot is two of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ackproof.model.run_record import Marks
from tests.support.histories import History, at

SLOT = 5  # messages
EVERY = 10.0  # milliseconds from one message to the next
SECOND = 1_000.0
COMMITTING = 45.0  # when a transaction asks for its commit, after it was begun
INPUTS = 8_000  # those who write what is processed in transactions

WITNESS = {
    "lost": ("producer", "seq", "fate"),
    "duplicated": ("producer", "seq", "copies"),
    "reordered": ("partition", "producer", "seq"),
    "inconsistent_offset": ("partition", "offset"),
    "unstable_read": ("partition", "offset", "consumer", "producer", "seq"),
    "phantom": ("by", "partition", "offset", "producer", "seq"),
    "aborted_read": ("partition", "offset", "consumer", "producer", "seq"),
    "resurrected": ("producer", "seq"),
    "offset_gap": ("partition", "first_missing", "missing"),
    "realtime_order": ("producer", "seq", "acked_before"),
    "poll_skip": ("consumer", "partition", "offset", "skipped"),
    "nonmonotonic_poll": ("consumer", "partition", "offset"),
    "stale_leader_ack": ("producer", "seq", "older_than"),
    "dual_leader": ("partition", "from_ns", "to_ns", "one_broker", "other_broker"),
    "watermark_regression": ("partition", "leader_epoch", "before", "after"),
    "unavailable": ("partition", "from_ns", "to_ns"),
    "failover": (
        "fault",
        "partition",
        "old_epoch",
        "new_epoch",
        "first_error_ms",
        "new_epoch_ms",
        "first_ack_ms",
        "isr_full_ms",
    ),
    "ack_latency": ("basis", "late", "max_ms"),
    "undelivered": ("group", "partition", "offset", "producer", "seq"),
    "delivered_twice": ("group", "partition", "offset", "times", "consumers"),
    "rebalances": ("group", "rebalances", "unowned_partition_s"),
    "dual_ownership": ("partition", "one_consumer", "other_consumer", "from_ns", "to_ns"),
    "ownership_gap": ("partition", "from_ns", "to_ns"),
    "commit_regression": ("partition", "at_ns", "highest", "offset"),
    "torn_transaction": ("producer", "transaction", "in_log", "missing"),
    "uncommitted_read": ("partition", "offset", "producer", "seq", "transaction"),
    "hanging_transaction": ("partition", "last_stable"),
    "not_exactly_once": ("producer", "key", "records", "answers"),
    "rate": ("second", "sent"),
    "dips": ("second", "sent", "acked", "read", "unacked"),
    "alerts": ("rule", "fault", "result", "raised_ns"),
}
Value = tuple[int, int]


@dataclass
class Sent:
    partition: int
    offset: int | None
    sent: float
    done: float
    outcome: str = "ok"
    key: int | None = None
    due: float | None = None  # when it was sent, unless told
    error: str | None = None


@dataclass
class Extra:
    """One more read, by another walk through the partition than the consumer's own."""

    consumer: int
    assignment: int
    when: float


@dataclass(frozen=True)
class Move:
    """Of a partition to another leader: when clients and the observer saw what of it."""

    proved: float
    error: float
    epoch: float
    ack: float
    full: float | None  # its ISR


@dataclass
class World:
    run: int
    partitions: int
    messages: int  # of each partition
    transactional: bool = False
    every: float = EVERY
    settings: dict[str, float] = field(default_factory=dict)
    sends: dict[Value, Sent] = field(default_factory=dict)
    log: dict[tuple[int, int], Value] = field(default_factory=dict)
    tails: dict[int, int] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)  # what retention left, where it took something
    kinds: dict[int, str] = field(default_factory=dict)  # compacted or transactional partitions
    unread: set[tuple[int, int]] = field(default_factory=set)
    twice: set[tuple[int, int]] = field(default_factory=set)  # by the consumer itself
    extra: dict[tuple[int, int], Extra] = field(default_factory=dict)
    past: dict[int, list[Value]] = field(default_factory=lambda: defaultdict(list))  # read where the log has ended
    read_as: dict[Value, Value] = field(default_factory=dict)  # what another reader was given there
    outages: list[Value] = field(default_factory=list)
    waits: dict[str, list[float]] = field(
        default_factory=lambda: defaultdict(list)
    )  # too long, by what they began with
    faults: list[float] = field(default_factory=list)  # when each was proved
    moves: dict[int, list[Move]] = field(default_factory=lambda: defaultdict(list))
    epochs: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))  # the first offset of each new one
    falls: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # of the high watermark
    expected: dict[str, set[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(set))
    strangers: int = 1_000
    asked: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # to be answered in transactions
    not_committed: dict[tuple[int, int], str] = field(default_factory=dict)  # the outcome of a slot's transaction
    history: History = field(init=False)

    def __post_init__(self) -> None:
        self.history = History(run=self.run, settings=dict(self.settings))
        for partition in range(self.partitions):
            self.tails[partition] = self.messages
            for seq in range(self.messages):
                self.sends[partition, seq] = Sent(partition, seq, self.every * seq, self.every * seq + 1)
                self.log[partition, seq] = (partition, seq)
        if self.transactional:
            self._process()

    @property
    def slots(self) -> list[tuple[int, int]]:
        return [(partition, k) for partition in range(self.partitions) for k in range(self.messages // SLOT)]

    @property
    def over(self) -> float:
        """When the last message was acknowledged."""
        return self.every * self.messages

    def expect(self, check: str, *witness: Any) -> None:
        self.expected[check].add(witness)

    def stranger(self, partition: int, outcome: str, offset: int | None = None, sent: float = 0.0) -> Value:
        """One message of a producer of its own."""
        self.strangers += 1
        self.sends[self.strangers, 0] = Sent(partition, offset, sent, sent + 1, outcome)
        return self.strangers, 0

    def append(self, partition: int, value: Value, gap: int = 0) -> int:
        offset = self.tails[partition] + gap
        self.log[partition, offset] = value
        self.tails[partition] = offset + 1
        return offset

    def finished(self) -> History:
        for (producer, seq), sent in self.sends.items():
            self.history.send(
                seq,
                sent.offset,
                producer=producer,
                partition=sent.partition,
                outcome=sent.outcome,
                sent=sent.sent,
                done=sent.done,
                key=sent.key,
                due=sent.due,
                error=sent.error,
            )
        for partition in range(self.partitions):
            self._finish(partition)
        if self.transactional:
            self._tell_of_transactions()
        for producer, seq in self.outages:
            sent = self.sends[producer, seq]
            self.expect("unavailable", sent.partition, at(sent.sent), at(sent.done))
        for basis, waits in self.waits.items():
            self.expect("ack_latency", basis, len(waits), max(waits))
        self._tell_of_faults()
        return self.history

    def _finish(self, partition: int) -> None:
        history, tail, start = self.history, self.tails[partition], self.starts.get(partition, 0)
        history.end(
            tail,
            partition=partition,
            log_start=start,
            epoch=len(self.epochs[partition]),
            compacted=self.kinds.get(partition) == "compacted",
            transactional=self.transactional or self.kinds.get(partition) == "transactional",
        )
        history.group(-EVERY, "assigned", 0, partition=partition)
        for offset in range(tail):
            value = self.log.get((partition, offset))
            if value is None:
                continue
            if offset >= start:
                epoch = bisect_right(self.epochs[partition], offset)
                history.log(offset, value[1], producer=value[0], partition=partition, epoch=epoch)
            if (partition, offset) not in self.unread:
                self._read(partition, offset, value)
            if (partition, offset) in self.twice:
                self._read(partition, offset, value)
            if more := self.extra.get((partition, offset)):
                self._read(partition, offset, value, more)
        for place, value in enumerate(self.past[partition]):
            self._read(partition, tail + place, value)
            self.expect("unstable_read", partition, tail + place, 0, *value)
            if self.sends[value].outcome == "fail":
                self.expect("aborted_read", partition, tail + place, 0, *value)
            if other := self.read_as.get(value):
                self._read(partition, tail + place, other, Extra(1, 100 + place, self.over + 500))
                self.expect("unstable_read", partition, tail + place, 1, *other)
                self.expect("inconsistent_offset", partition, tail + place)
                self.expect("delivered_twice", 0, partition, tail + place, 2, 2)
        for epoch in range(1, self.falls[partition] + 1):
            when = self.over + 10 * epoch
            history.state(when, 1, leader=1, epoch=epoch, high_watermark=tail - 1, partition=partition)
            self.expect("watermark_regression", partition, epoch, tail, tail - 1)

    def _read(self, partition: int, offset: int, value: Value, by: Extra | None = None) -> None:
        by = by or Extra(0, 1, self._when_read(partition, offset, value))
        self.history.read(
            offset,
            value[1],
            producer=value[0],
            partition=partition,
            consumer=by.consumer,
            assignment=by.assignment,
            when=by.when,
        )

    def _when_read(self, partition: int, offset: int, value: Value) -> float:
        return self.over + 1_000 + len(self.history.rows["reads"])

    def _tell_of_faults(self) -> None:
        """Each fault has a story at each partition: that of its next move, whichever fault was the cause of it."""
        for fault, proved in enumerate(self.faults, start=1):

            def since(when: float | None, proved: float = proved) -> float | None:
                return None if when is None else (at(when) - at(proved)) / 1e6

            for partition in range(self.partitions):
                moves = self.moves[partition]
                place = sum(move.proved < proved for move in moves)
                story: tuple[float | None, ...] = (None,) * 5
                if place < len(moves):
                    its = moves[place]
                    # A replica that is in sync again stays so until the next move: only the last of them is the end.
                    told = (its.error, its.epoch, its.ack, moves[-1].full)
                    story = (place + 1, *(since(when) for when in told))
                self.expect("failover", fault, partition, place if moves else None, *story)

    def _process(self) -> None:
        """Each producer answers the messages of a topic of its own, one by one."""
        own = [f"payments{partition}" for partition in range(self.partitions)]
        self.history.topics = ("orders", *own)
        self.history.producers = [{"transactions": {"input": name}} for name in own]
        for partition in range(self.partitions):
            for seq in range(self.messages):
                self.sends[partition, seq].key = self.ask(partition)

    def ask(self, partition: int) -> int:
        """One more message for the producer of this partition to answer."""
        producer, topic, seq = INPUTS + partition, 1 + partition, self.asked[partition]
        self.history.send(seq, seq, producer=producer, topic=topic, sent=self.every * seq - 2)
        self.history.log(seq, seq, producer=producer, topic=topic)
        self.asked[partition] += 1
        return seq

    def _tell_of_transactions(self) -> None:
        for partition, k in self.slots:
            begun, outcome = EVERY * SLOT * k, self.not_committed.get((partition, k), "committed")
            asked = "aborting" if outcome == "aborted" else "committing"
            events = (("begun", begun), (asked, begun + COMMITTING), (outcome, begun + COMMITTING + 1))
            self.history.transaction(k, SLOT * k, SLOT * k + SLOT - 1, *events, producer=partition)


@dataclass
class SlowWorld(World):
    """A message a second of each partition, read as soon as it was acknowledged; and so many a second are asked for."""

    every: float = SECOND
    read_late: dict[tuple[int, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.messages = 25
        self.settings = {"rate_line": self.partitions}
        super().__post_init__()

    @property
    def slots(self) -> list[tuple[int, int]]:
        """Each in other seconds, in whichever partition. The last second is never judged."""
        return [(37 * k % self.partitions, k) for k in range((self.messages - 1) // 2)]

    def _when_read(self, partition: int, offset: int, value: Value) -> float:
        return self.read_late.get((partition, offset), self.sends[value].done + 1)


Plant = Callable[[Any, int, int], None]


def middle(k: int) -> int:
    return SLOT * k + 2


# -- anomalies -------------------------------------------------------------------------------------------------------


def lost_overwritten(world: World, partition: int, k: int) -> None:
    m = middle(k)
    world.log[partition, m] = world.stranger(partition, "info", sent=EVERY * m)
    world.expect("lost", partition, m, "lost_overwritten")
    world.expect("inconsistent_offset", partition, m)


def lost_truncated(world: World, partition: int, _: int) -> None:
    world.tails[partition] -= 1
    producer, seq = world.log.pop((partition, world.tails[partition]))
    world.expect("lost", producer, seq, "lost_truncated")


def lost_hole(world: World, partition: int, k: int) -> None:
    del world.log[partition, middle(k)]
    world.expect("lost", partition, middle(k), "lost_hole")
    world.expect("offset_gap", partition, middle(k), 1)


def lost_unplaced(world: World, partition: int, k: int) -> None:
    producer, seq = world.stranger(partition, "ok", sent=EVERY * middle(k))
    world.expect("lost", producer, seq, "lost_unplaced")


def duplicated(world: World, partition: int, k: int) -> None:
    world.append(partition, (partition, middle(k)))
    world.expect("duplicated", partition, middle(k), 2)


def duplicated_elsewhere(world: World, partition: int, k: int) -> None:
    """The copy stands in the next partition."""
    world.append((partition + 1) % world.partitions, (partition, middle(k)))
    world.expect("duplicated", partition, middle(k), 2)


def reordered(world: World, partition: int, k: int) -> None:
    """Two in flight together, written the wrong way round."""
    m = middle(k)
    first, second = world.sends[partition, m], world.sends[partition, m + 1]
    first.offset, first.done = m + 1, first.sent + 3
    second.offset, second.sent, second.done = m, first.sent + 1, first.sent + 2
    world.log[partition, m], world.log[partition, m + 1] = (partition, m + 1), (partition, m)
    world.expect("reordered", partition, partition, m + 1)


def inconsistent_offset(world: World, partition: int, k: int) -> None:
    """Acknowledged where another message stands, and written elsewhere."""
    m = middle(k)
    world.append(partition, world.stranger(partition, "ok", offset=m, sent=EVERY * m))
    world.expect("inconsistent_offset", partition, m)


def read_where_another_was_acked(world: World, partition: int, k: int) -> None:
    """Where the log has ended: of the final log nobody can tell."""
    lost_truncated(world, partition, k)
    unstable_read(world, partition, k)
    world.expect("inconsistent_offset", partition, world.tails[partition])


def read_as_two(world: World, partition: int, k: int) -> None:
    """By two readers, where the log has ended and nothing was acknowledged."""
    unstable_read(world, partition, k)
    world.read_as[world.past[partition][-1]] = world.stranger(partition, "info")


def unstable_read(world: World, partition: int, _: int) -> None:
    world.past[partition].append(world.stranger(partition, "info"))


def aborted_read(world: World, partition: int, _: int) -> None:
    world.past[partition].append(world.stranger(partition, "fail"))


def phantom(world: World, partition: int, k: int) -> None:
    nobody = (9_000 + 100 * partition + k, 0)
    offset = world.append(partition, nobody)
    world.expect("phantom", "log", partition, offset, *nobody)
    world.expect("phantom", "read", partition, offset, *nobody)


def resurrected(world: World, partition: int, _: int) -> None:
    value = world.stranger(partition, "fail")
    offset = world.append(partition, value)
    world.expect("resurrected", *value)
    world.expect("aborted_read", partition, offset, 0, *value)


def offset_gap(world: World, partition: int, _: int) -> None:
    world.expect("offset_gap", partition, world.tails[partition], 2)
    world.append(partition, world.stranger(partition, "info"), gap=2)


def realtime_order(world: World, partition: int, k: int) -> None:
    """Sent only when the next one had been acknowledged, and yet written before it."""
    m = middle(k)
    late, after = world.sends[partition, m], world.sends[partition, m + 1].done + 1
    late.sent, late.done = after, after + 1
    world.expect("realtime_order", partition, m, m + 1)


def poll_skip(world: World, partition: int, k: int) -> None:
    m = middle(k)
    world.unread.add((partition, m))
    world.expect("poll_skip", 0, partition, m + 1, 1)
    world.expect("undelivered", 0, partition, m, partition, m)


def nonmonotonic_poll(world: World, partition: int, k: int) -> None:
    world.twice.add((partition, middle(k)))
    world.expect("nonmonotonic_poll", 0, partition, middle(k))
    world.expect("delivered_twice", 0, partition, middle(k), 2, 1)


def undelivered(world: World, partition: int, _: int) -> None:
    """The last of them, so that no consumer reads past it."""
    offset = next(o for o in range(world.tails[partition] - 1, -1, -1) if (partition, o) not in world.unread)
    world.unread.add((partition, offset))
    world.expect("undelivered", 0, partition, offset, *world.log[partition, offset])


def delivered_twice(world: World, partition: int, k: int) -> None:
    m = middle(k)
    world.extra[partition, m] = Extra(1, 100 + len(world.extra), world.over + 500)
    world.expect("delivered_twice", 0, partition, m, 2, 2)


def stale_leader_ack(world: World, partition: int, k: int) -> None:
    """Acknowledged by the first epoch when the second had been seen."""
    m = middle(k)
    world.history.state(world.over + 5, 2, leader=2, epoch=1, partition=partition)
    world.sends[partition, m].done = world.over + 6 + k
    world.expect("stale_leader_ack", partition, m, 1)


def dual_leader(world: World, partition: int, k: int) -> None:
    begun = EVERY * SLOT * k
    for when, broker, leader in ((5, 1, 1), (20, 2, 2), (30, 2, 2), (40, 2, 1), (45, 1, 1)):
        world.history.state(begun + when, broker, leader=leader, epoch=0, partition=partition)
    world.expect("dual_leader", partition, at(begun + 20), at(begun + 30), 1, 2)


def watermark_regression(world: World, partition: int, _: int) -> None:
    world.falls[partition] += 1


def unavailable(world: World, partition: int, k: int) -> None:
    _wait(world, partition, k, 2_000)
    m = middle(k)
    world.sends[partition, m].done += 2_000
    world.outages.append((partition, m))
    world.waits["due"].append(2_001.0)
    world.waits["sent"].append(2_001.0)


def _wait(world: World, partition: int, k: int, ms: float) -> None:
    for (producer, seq), sent in world.sends.items():
        if producer == partition and seq > middle(k):
            sent.sent += ms
            sent.done += ms


def dual_ownership(world: World, partition: int, k: int) -> None:
    begun = EVERY * SLOT * k
    world.history.group(begun + 10, "assigned", 1, position=None, partition=partition)
    world.history.group(begun + 20, "revoked", 1, partition=partition)
    world.expect("dual_ownership", partition, 0, 1, at(begun + 10), at(begun + 20))


def ownership_gap(world: World, partition: int, k: int) -> None:
    begun = EVERY * SLOT * k
    world.history.group(begun + 10, "revoked", 0, partition=partition)
    world.history.group(begun + 20, "assigned", 0, position=None, partition=partition)
    world.expect("ownership_gap", partition, at(begun + 10), at(begun + 20))


def commit_regression(world: World, partition: int, k: int) -> None:
    begun = EVERY * SLOT * k
    world.history.commit(begun + 10, 10, partition=partition)
    world.history.commit(begun + 20, 5, partition=partition)
    world.expect("commit_regression", partition, at(begun + 20), 10, 5)


def torn_transaction(world: World, partition: int, k: int) -> None:
    del world.log[partition, middle(k)]
    world.expect("lost", partition, middle(k), "lost_hole")
    world.expect("torn_transaction", partition, k, SLOT - 1, 1)
    world.expect("not_exactly_once", partition, middle(k), 1, 0)


def uncommitted_read(world: World, partition: int, k: int) -> None:
    m = middle(k)
    world.extra[partition, m] = Extra(1, 100 + len(world.extra), EVERY * m + 2)
    world.expect("uncommitted_read", partition, m, partition, m, k)
    world.expect("delivered_twice", 0, partition, m, 2, 2)


def hanging_transaction(world: World, partition: int, k: int) -> None:
    for when in (0, 20_001):
        world.history.stable(30_000 * k + when, middle(k), world.messages, partition=partition)
    world.expect("hanging_transaction", partition, middle(k))


def answered_twice(world: World, partition: int, k: int) -> None:
    seq, sent = next_seq(world, partition), world.over + k
    offset = world.append(partition, (partition, seq))
    world.sends[partition, seq] = Sent(partition, offset, sent, sent + 1, key=middle(k))
    world.expect("not_exactly_once", partition, middle(k), 1, 2)


def never_answered(world: World, partition: int, _: int) -> None:
    world.expect("not_exactly_once", partition, world.ask(partition), 1, 0)


def next_seq(world: World, producer: int) -> int:
    return 1 + max(seq for own, seq in world.sends if own == producer)


def late_ack(world: World, partition: int, k: int) -> None:
    """While those after it are acknowledged."""
    world.sends[partition, middle(k)].done += 300 + k
    world.waits["due"].append(301.0 + k)
    world.waits["sent"].append(301.0 + k)


def late_send(world: World, partition: int, k: int) -> None:
    """Acknowledged at once, but sent long after it was due."""
    sent = world.sends[partition, middle(k)]
    sent.due = sent.sent - 300 - k
    world.waits["due"].append(301.0 + k)


def failover(world: World, partition: int, k: int, *, stays_in_sync: bool = True) -> None:
    """The next broker leads from the middle message on."""
    begun, epoch = EVERY * SLOT * k, len(world.moves[partition]) + 1
    leader = 1 + epoch % 2
    if epoch == 1:
        world.history.state(-EVERY, 1, leader=1, epoch=0, partition=partition)
    _fault(world, partition, ("asked", begun + 11), ("proved", begun + 12), ("healed", begun + 25))
    error = begun + 13 + epoch % 3
    world.sends[world.stranger(partition, "fail", sent=begun + 10)].done = error
    world.history.state(begun + 17, leader, leader=leader, epoch=epoch, isr=(2, 3), partition=partition)
    world.epochs[partition].append(middle(k))
    world.history.state(begun + 30, leader, leader=leader, epoch=epoch, partition=partition)
    if not stays_in_sync:
        world.history.state(begun + 35, leader, leader=leader, epoch=epoch, isr=(2, 3), partition=partition)
    full = begun + 30 if stays_in_sync else None
    world.moves[partition].append(Move(begun + 12, error, begun + 17, begun + 21, full))


def failover_without_end(world: World, partition: int, k: int) -> None:
    """One replica comes back, and is gone again."""
    failover(world, partition, k, stays_in_sync=False)


def _fault(world: World, partition: int, *events: tuple[str, float]) -> int:
    world.history.fault(*events, asked=f"leader:orders/{partition}")
    world.faults.append(dict(events)["proved"])
    return len(world.faults)


def rebalanced(world: SlowWorld, partition: int, k: int) -> None:
    begun, done = SECOND * _hit(k) + 300, len(world.expected["ownership_gap"])
    world.history.group(begun, "revoked", 0, partition=partition)
    world.history.group(begun + 100, "assigned", 0, position=None, partition=partition)
    world.expect("ownership_gap", partition, at(begun), at(begun + 100))
    world.expected["rebalances"] = {(0, done + 1, (done + 1) / 10)}


def _hit(k: int) -> int:
    """The first second is never judged for dips."""
    return 2 * k + 1


def sent_a_second_later(world: SlowWorld, partition: int, k: int) -> None:
    second, one_less = _hit(k), world.partitions - 1
    sent = world.sends[partition, second]
    sent.sent += SECOND
    sent.done += SECOND
    world.expect("rate", second, one_less)
    world.expect("dips", second, one_less, one_less, one_less, 0)


def acked_in_the_next_second(world: SlowWorld, partition: int, k: int) -> None:
    second, one_less = _hit(k), world.partitions - 1
    sent = world.sends[partition, second]
    sent.sent += SECOND - 10
    sent.done += SECOND
    world.expect("dips", second, world.partitions, one_less, one_less, 1)


def read_a_second_later(world: SlowWorld, partition: int, k: int) -> None:
    second = _hit(k)
    world.read_late[partition, second] = world.sends[partition, second].done + SECOND
    world.expect("dips", second, world.partitions, world.partitions, world.partitions - 1, 0)


def _expects(world: World, partition: int, *, clears: float = 10) -> tuple[int, float]:
    """A fault of which an alert has to tell by 12, and to stand no longer than until 30: each in a time of its own."""
    begun = EVERY * SLOT * len(world.faults)
    fault = _fault(world, partition, ("asked", begun + 1), ("proved", begun + 2), ("healed", begun + 20))
    world.history.expects("rate", fault, within=10, clears=clears)
    return fault, begun


def _alert(world: World, raised: float, cleared: float, rule: str = "rate") -> None:
    world.history.alert(raised, rule, "raised").alert(cleared, rule, "cleared")


def alert_missed(world: World, partition: int, _: int) -> None:
    fault, begun = _expects(world, partition)
    world.history.alert(begun, "rate", "watching")
    world.expect("alerts", "rate", fault, "missed", None)


def alert_of_another_rule(world: World, partition: int, _: int) -> None:
    fault, begun = _expects(world, partition)
    _alert(world, begun + 5, begun + 25, "no-leader")
    world.expect("alerts", "rate", fault, "missed", None)
    world.expect("alerts", "no-leader", fault, "false", at(begun + 5))


def alert_late(world: World, partition: int, _: int) -> None:
    fault, begun = _expects(world, partition)
    _alert(world, begun + 13, begun + 25)
    world.expect("alerts", "rate", fault, "late", at(begun + 13))


def alert_stuck(world: World, partition: int, _: int) -> None:
    fault, begun = _expects(world, partition)
    _alert(world, begun + 5, begun + 31)
    world.expect("alerts", "rate", fault, "stuck", at(begun + 5))


def alert_false(world: World, partition: int, _: int) -> None:
    """After one that was right."""
    fault, begun = _expects(world, partition)
    _alert(world, begun + 5, begun + 25)
    _alert(world, begun + 35, begun + 40)
    world.expect("alerts", "rate", fault, "false", at(begun + 35))


def alert_unfinished(world: World, partition: int, _: int) -> None:
    """The watching ends while it stands, and may: one alert tells of as many faults as come meanwhile."""
    fault, begun = _expects(world, partition, clears=60_000)
    if fault == 1:
        world.history.alert(5, "rate", "raised")
    world.history.marks = Marks(load_ended_ns=at(begun + 45))
    world.expect("alerts", "rate", fault, "unfinished", at(5))


ANOMALIES: tuple[Plant, ...] = (
    lost_overwritten,
    lost_truncated,
    lost_hole,
    lost_unplaced,
    duplicated,
    duplicated_elsewhere,
    reordered,
    inconsistent_offset,
    read_where_another_was_acked,
    read_as_two,
    unstable_read,
    aborted_read,
    phantom,
    resurrected,
    offset_gap,
    realtime_order,
    poll_skip,
    nonmonotonic_poll,
    undelivered,
    delivered_twice,
    stale_leader_ack,
    dual_leader,
    watermark_regression,
    unavailable,
    dual_ownership,
    ownership_gap,
    commit_regression,
    torn_transaction,
    uncommitted_read,
    hanging_transaction,
    answered_twice,
    never_answered,
    late_ack,
    late_send,
    failover,
    failover_without_end,
    rebalanced,
    sent_a_second_later,
    acked_in_the_next_second,
    read_a_second_later,
    alert_missed,
    alert_of_another_rule,
    alert_late,
    alert_stuck,
    alert_false,
    alert_unfinished,
)
IN: dict[Plant, Callable[..., World]] = {  # worlds of their own
    torn_transaction: partial(World, transactional=True),
    uncommitted_read: partial(World, transactional=True),
    hanging_transaction: partial(World, transactional=True),
    answered_twice: partial(World, transactional=True),
    never_answered: partial(World, transactional=True),
    late_ack: partial(World, settings={"late_ms": 300.0}),
    late_send: partial(World, settings={"late_ms": 300.0}),
    rebalanced: SlowWorld,
    sent_a_second_later: SlowWorld,
    acked_in_the_next_second: SlowWorld,
    read_a_second_later: SlowWorld,
}


# -- what looks like one, and is legal -------------------------------------------------------------------------------


def unknown_that_appears(world: World, partition: int, _: int) -> None:
    world.append(partition, world.stranger(partition, "info"))


def unknown_that_does_not(world: World, partition: int, _: int) -> None:
    world.stranger(partition, "info")


def failed_and_not_there(world: World, partition: int, _: int) -> None:
    world.stranger(partition, "fail")


def copy_by_a_retry(world: World, partition: int, k: int) -> None:
    """A fact, and no more than that: no copy is a loss, a step back or a record from nowhere."""
    duplicated(world, partition, k)


def read_again_after_a_rebalance(world: World, partition: int, k: int) -> None:
    """The next owner begins where the last commit was: a fact, and no step back of a consumer."""
    delivered_twice(world, partition, k)


def gap_by_a_marker(world: World, partition: int, _: int) -> None:
    world.kinds[partition] = "transactional"
    world.append(partition, world.stranger(partition, "info"), gap=1)


def compacted(world: World, partition: int, k: int) -> None:
    world.kinds[partition] = "compacted"
    m = middle(k)
    world.sends[partition, m].key = world.sends[partition, m + 1].key = 7
    del world.log[partition, m]


def expired(world: World, partition: int, k: int) -> None:
    """Read while it was there, and gone when the final log was read."""
    world.starts[partition] = middle(k)


def acks_that_cross(world: World, partition: int, k: int) -> None:
    m = middle(k)
    first, second = world.sends[partition, m], world.sends[partition, m + 1]
    second.sent = first.sent + 0.5
    second.done = first.sent + 1
    first.done = first.sent + 5


def leader_that_hands_over(world: World, partition: int, _: int) -> None:
    """When the load is over; the next epoch's high watermark is above all that the first one showed."""
    for when, broker, leader, epoch, mark in ((1, 1, 1, 0, 3), (9, 1, 1, 0, 4), (20, 2, 2, 1, 99), (25, 1, 2, 1, None)):
        world.history.state(
            world.over + when, broker, leader=leader, epoch=epoch, high_watermark=mark, partition=partition
        )


def owner_that_hands_over(world: World, partition: int, k: int) -> None:
    begun = EVERY * SLOT * k
    world.history.group(begun + 10, "revoked", 0, partition=partition)
    world.history.group(begun + 10, "assigned", 1, position=None, partition=partition)


def producer_that_pauses(world: World, partition: int, k: int) -> None:
    _wait(world, partition, k, 3_000)


def commits_that_fail(world: World, partition: int, k: int) -> None:
    begun = EVERY * SLOT * k
    world.history.commit(begun + 10, 10, partition=partition, outcome="fail")
    world.history.commit(begun + 20, 5, partition=partition)


def _ends_as(world: World, partition: int, k: int, transaction: str, sends: str) -> None:
    world.not_committed[partition, k] = transaction
    for seq in range(SLOT * k, SLOT * k + SLOT):
        world.sends[partition, seq].outcome = sends


def _taken_back(world: World, partition: int, k: int) -> None:
    """Nothing of it stands in the log; a later transaction answers the same messages."""
    first, begun = next_seq(world, partition), world.over + EVERY * SLOT * k
    for place in range(SLOT):
        asked = SLOT * k + place
        del world.log[partition, asked]
        offset, sent = world.append(partition, (partition, first + place)), begun + EVERY * place
        world.sends[partition, first + place] = Sent(partition, offset, sent, sent + 1, key=asked)
    events = (("begun", begun), ("committing", begun + COMMITTING), ("committed", begun + COMMITTING + 1))
    world.history.transaction(1_000 + k, first, first + SLOT - 1, *events, producer=partition)


def aborted_and_done_again(world: World, partition: int, k: int) -> None:
    _ends_as(world, partition, k, "aborted", "fail")
    _taken_back(world, partition, k)


def unknown_commit_that_failed(world: World, partition: int, k: int) -> None:
    _ends_as(world, partition, k, "unknown", "info")
    _taken_back(world, partition, k)


def unknown_commit_that_was_made(world: World, partition: int, k: int) -> None:
    _ends_as(world, partition, k, "unknown", "info")


def read_while_it_is_committed(world: World, partition: int, k: int) -> None:
    """After it was asked for, and before it was answered; by one more reader, which is a fact."""
    delivered_twice(world, partition, k)
    world.extra[partition, middle(k)].when = EVERY * SLOT * k + COMMITTING


def open_as_long_as_it_may(world: World, partition: int, k: int) -> None:
    for when in (0, 20_000):
        world.history.stable(30_000 * k + when, middle(k), world.messages, partition=partition)


LOOK_ALIKES: tuple[Plant, ...] = (
    unknown_that_appears,
    unknown_that_does_not,
    failed_and_not_there,
    copy_by_a_retry,
    read_again_after_a_rebalance,
    gap_by_a_marker,
    compacted,
    expired,
    acks_that_cross,
    leader_that_hands_over,
    owner_that_hands_over,
    producer_that_pauses,
    commits_that_fail,
)
OF_TRANSACTIONS: tuple[Plant, ...] = (
    aborted_and_done_again,
    unknown_commit_that_failed,
    unknown_commit_that_was_made,
    read_while_it_is_committed,
    open_as_long_as_it_may,
    acks_that_cross,
    leader_that_hands_over,
    owner_that_hands_over,
)
