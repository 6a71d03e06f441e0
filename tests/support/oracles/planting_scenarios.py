"""Anomalies of what only some scenarios ask about: keys, seeks, members, mirrors, receivers, claims and the like.

They are planted as those of `planting` are, into worlds in which all that is asked about is as it should be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from ackproof.judge.replica_placement import documented
from ackproof.model.run_record import Marks
from tests.support.histories import History, at
from tests.support.oracles import planting
from tests.support.oracles.planting import EVERY, SLOT, Plant, Sent, World, middle, next_seq

BROKERS = (1, 2, 3)
SECOND_SITE = 5_000  # the producer there
WITNESS = {
    "partition_shares": ("group", "consumer", "reading", "readers"),
    "allocation": ("partition", "problem"),
    "log_dir_placement": ("broker", "step", "before", "after"),
    "seek_mismatch": ("partition", "asked", "landed"),
    "membership_gap": ("source", "broker", "from_ns", "to_ns"),
    "unpublished": ("producer", "seq", "fate"),
    "exit_codes": ("node", "found"),
    "key_moved": ("key", "producer", "seq", "partition_before", "partition"),
    "key_reordered": ("group", "key", "producer", "seq", "partition"),
    "refusals": ("producer", "seq", "fate", "error"),
    "claims": ("claim", "partition", "leader"),
    "duplicate_accepted": ("consumer", "producer", "seq", "times"),
    "wrongly_dropped": ("consumer", "partition", "offset", "producer", "seq"),
    "receivers": ("consumer", "duplicate_accepted", "wrongly_dropped"),
    "mirror_differs": ("difference", "partition", "producer", "seq"),
    "offset_translation": ("partition", "offset", "mirror_offset", "missed"),
    "unreplicated": ("partition", "offset", "producer", "seq", "explained"),
    "unexplained": ("partition", "offset", "producer", "seq"),
    "site_gap": ("what", "from_site", "to_site", "ms"),
}
VIEWS = (
    "phases",
    "leadership_history",
    "eligible_leaders",
    "mirror_layout",
    "throughput",
)  # tables of what was seen: no anomaly is in them
Place = tuple[int, int]  # partition, offset


@cache
def _replicas(partitions: int) -> list[list[int]]:
    return documented(BROKERS, partitions, len(BROKERS), 1, 0, {})


def tell_of_replicas(world: World) -> None:
    """Which brokers hold which partition, as reported before the first leader."""
    for partition, replicas in enumerate(_replicas(world.partitions)):
        world.history.state(-2 * EVERY, 1, leader=None, epoch=None, isr=None, partition=partition)
        world.history.rows["state"][-1]["replicas"] = replicas


@dataclass
class ReceivedWorld(World):
    """Each message that the consumer reads goes to a receiver, which has to process each message once."""

    taken_twice: set[Place] = field(default_factory=set)
    came_again: set[Place] = field(default_factory=set)
    dropped: set[Place] = field(default_factory=set)

    def finished(self) -> History:
        history = super().finished().receiver("ids")
        for place, (producer, seq) in self.log.items():
            partition, offset = place
            for _ in range(1 + (place in self.taken_twice)):
                taken = place not in self.dropped
                history.received(offset, seq, producer=producer, partition=partition, accepted=taken)
            if place in self.came_again:
                history.received(offset, seq, producer=producer, partition=partition, accepted=False)
        if self.taken_twice or self.dropped:
            self.expect("receivers", 0, len(self.taken_twice), len(self.dropped))
        return history


@dataclass
class MirroredWorld(World):
    """A mirror copies all of it to a second site, and when it has, the writers go on there."""

    passed_over: set[Place] = field(default_factory=set)
    copied_twice: set[Place] = field(default_factory=set)
    changed: set[Place] = field(default_factory=set)
    swapped: set[Place] = field(default_factory=set)  # with the next
    behind: dict[int, int] = field(default_factory=lambda: defaultdict(int))  # messages, when the writers moved

    def finished(self) -> History:
        history = super().finished()
        history.topics = ("orders", "dc2:dc1.orders", "dc2:orders")
        for row in history.rows["log"]:
            row["digest"] = 1
        for partition in range(self.partitions):
            self._mirror(partition)
        moved, last = self.over + 100, max(sent.done for sent in self.sends.values())
        history.send(0, 0, producer=SECOND_SITE, topic=2, sent=moved - 1, done=moved)
        history.log(0, 0, producer=SECOND_SITE, topic=2)
        self.expect("site_gap", "writes", "dc1", "dc2", (at(moved) - at(last)) / 1e6)
        return history

    def _mirror(self, partition: int) -> None:
        tail, behind = self.tails[partition], self.behind[partition]
        offsets = [offset for offset in range(tail) if (partition, offset) not in self.passed_over]
        for own, offset in self.swapped:
            if own == partition:
                offsets[offset : offset + 2] = offset + 1, offset
        offsets += sorted(offset for own, offset in self.copied_twice if own == partition)
        for place, offset in enumerate(offsets):
            producer, seq = self.log[partition, offset]
            digest = 2 if (partition, offset) in self.changed else 1
            self.history.copied(place, seq, producer=producer, partition=partition, digest=digest)
        end = len(offsets) - behind
        self.history.state(self.over, 4, leader=4, epoch=0, topic=1, high_watermark=end, partition=partition)
        for offset in range(tail - behind, tail):
            self.expect("unreplicated", partition, offset, *self.log[partition, offset], True)


@dataclass
class AskedWorld(World):
    """One of which a scenario says much, and in which all that it says is so."""

    def finished(self) -> History:
        refused = {"copies": 1, "refused": True}
        self.history.producers = [{"copies": self.partitions, "exits": [0], "outbox": {"give_up_after": 3}}, refused]
        self.sends[self.partitions, 0] = Sent(0, None, 0, 1, "fail", error="TOPIC_AUTHORIZATION_FAILED")
        history = super().finished()
        for producer in range(self.partitions):
            ended = {"event": "exited", "node": f"producer{producer}", "at_ns": at(self.over), "by_itself": True}
            history.rows["nodes"].append({**ended, "signal": None, "code": 0})
        return history


# -- anomalies -------------------------------------------------------------------------------------------------------


def idle_member(world: World, partition: int, _: int) -> None:
    """Each of a group should read; all but one had a partition only before the load."""
    consumer = len(world.expected["partition_shares"]) or 1
    before = -2 * EVERY * (consumer + 1)
    world.history.group(before, "assigned", consumer, partition=partition)
    world.history.group(before + EVERY, "revoked", consumer, partition=partition)
    world.history.readers = consumer + 1
    world.expected["partition_shares"] = {(0, each, 1, consumer + 1) for each in range(consumer + 1)}


def held_twice(world: World, partition: int, _: int) -> None:
    first, second, _third = _replicas(world.partitions)[partition]
    world.history.rows["state"][partition]["replicas"] = [first, second, first]
    world.expect("allocation", partition, "a broker holds it twice")
    world.expect("allocation", -1, "no start and no shift explain this sequence")


def log_dir_placement(world: World, _: int, k: int) -> None:
    """Two more logs, and both in one of two directories that held as many."""
    broker = 1 + len(world.expected["log_dir_placement"])
    for step, counts in enumerate(([k, k], [k + 2, k])):
        for directory, count in enumerate(counts, start=1):
            names = [f"t{directory}-{number}" for number in range(count)]
            row = {"step": step, "at_ns": at(step), "broker": broker, "directory": directory, "partitions": names}
            world.history.rows["places"].append(row)
    world.expect("log_dir_placement", broker, 1, (k, k), (k + 2, k))


def seek_mismatch(world: World, partition: int, k: int) -> None:
    """After one that landed where it should."""
    log = {"log_start": 0, "log_start_after": 0, "log_end": world.messages, "log_end_after": world.messages}
    place = {"fault": 1, "topic": 0, "partition": partition, "by": "offset", "policy": "error"}
    for when, landed in enumerate((middle(k), middle(k) + 1)):
        sought = {"at_ns": at(when), "asked": middle(k), "landed": landed}
        world.history.rows["seeks"].append({**log, **place, **sought})
    world.expect("seek_mismatch", partition, middle(k), middle(k) + 1)


def membership_gap(world: World, _: int, k: int) -> None:
    begun, broker = EVERY * SLOT * len(world.expected["membership_gap"]), 1 + k % len(BROKERS)
    others = [each for each in BROKERS if each != broker]
    for when, brokers in ((0, BROKERS), (10, others), (20, others), (30, BROKERS)):
        row = {"at_ns": at(begun + when), "source": "zk1", "brokers": list(brokers)}
        world.history.rows["members"].append(row)
    world.expect("membership_gap", "zk1", broker, at(begun + 10), at(begun + 30))


def unpublished(world: World, partition: int, k: int) -> None:
    world.history.producers = [{"copies": world.partitions, "outbox": {"give_up_after": 3}}]
    seq, sent = next_seq(world, partition), world.over + k
    world.sends[partition, seq] = Sent(partition, None, sent, sent + 1, "fail")
    world.expect("unpublished", partition, seq, "rejected")


def one_life_more(world: World, partition: int, k: int) -> None:
    """All producers ended once, as expected; this one was started again, and ended with an error."""
    ended, node = world.history.rows["nodes"], f"producer{partition}"
    exited = {"event": "exited", "by_itself": True, "signal": None}
    if not ended:
        world.history.producers = [{"copies": world.partitions, "exits": [0]}]
        for each in range(world.partitions):
            ended.append({**exited, "node": f"producer{each}", "at_ns": at(world.over), "code": 0})
    before = tuple(row["code"] for row in ended if row["node"] == node)
    ended.append({**exited, "node": node, "at_ns": at(world.over + 1 + k), "code": 70 + k})
    world.expected["exit_codes"].discard((node, before))
    world.expect("exit_codes", node, (*before, 70 + k))


def key_moved(world: World, partition: int, _: int) -> None:
    lower = min(partition, world.partitions - 2)
    _move_key(world, lower, lower + 1)


def key_reordered(world: World, partition: int, _: int) -> None:
    """To a partition that is read before the one that it comes from."""
    upper = max(partition, 1)
    key, producer = _move_key(world, upper, upper - 1)
    world.expect("key_reordered", 0, key, producer, 0, upper)


def _move_key(world: World, one: int, other: int) -> tuple[int, int]:
    world.strangers += 1
    producer, key = world.strangers, 3 * world.strangers
    for seq, partition in enumerate((one, other)):
        sent = world.over + 3 * len(world.expected["key_moved"]) + seq
        world.sends[producer, seq] = Sent(partition, world.append(partition, (producer, seq)), sent, sent + 1, key=key)
    world.expect("key_moved", key, producer, 1, one, other)
    return key, producer


def refused_unclearly(world: World, partition: int, k: int) -> None:
    """After one that was refused as it should be."""
    world.history.producers = [{"copies": world.partitions}, {"copies": 1, "refused": True}]
    producer, first = world.partitions, 2 * len(world.expected["refusals"])
    for seq, error in enumerate(("TOPIC_AUTHORIZATION_FAILED", "MSG_SIZE_TOO_LARGE"), start=first):
        world.sends[producer, seq] = Sent(partition, None, EVERY * k, EVERY * k + 1, "fail", error=error)
    world.expect("refusals", producer, first + 1, "rejected", "MSG_SIZE_TOO_LARGE")


def claimed_wrongly(world: World, partition: int, k: int) -> None:
    """After a claim that holds."""
    world.history.marks = Marks(load_begun_ns=at(0), drained_ns=at(world.over + 100))
    world.history.state(world.over + k, 1, leader=1, epoch=0, partition=partition)
    for leader in ("kafka1", "kafka2"):
        world.history.claim("end", f"orders/{partition}", leader=[leader])
    world.expect("claims", len(world.history.claims), partition, 1)


def taken_twice(world: ReceivedWorld, partition: int, k: int) -> None:
    world.taken_twice.add((partition, middle(k)))
    world.expect("duplicate_accepted", 0, partition, middle(k), 2)


def wrongly_dropped(world: ReceivedWorld, partition: int, k: int) -> None:
    world.dropped.add((partition, middle(k)))
    world.expect("wrongly_dropped", 0, partition, middle(k), partition, middle(k))


def passed_over(world: MirroredWorld, partition: int, k: int) -> None:
    value = partition, middle(k)
    world.passed_over.add((partition, middle(k)))
    world.expect("mirror_differs", "missing", partition, *value)
    world.expect("unreplicated", partition, middle(k), *value, False)
    world.expect("unexplained", partition, middle(k), *value)


def copied_twice(world: MirroredWorld, partition: int, k: int) -> None:
    world.copied_twice.add((partition, middle(k)))
    world.expect("mirror_differs", "extra", partition, partition, middle(k))


def changed_by_the_mirror(world: MirroredWorld, partition: int, k: int) -> None:
    world.changed.add((partition, middle(k)))
    world.expect("mirror_differs", "changed", partition, partition, middle(k))


def swapped_by_the_mirror(world: MirroredWorld, partition: int, k: int) -> None:
    world.swapped.add((partition, middle(k)))
    world.expect("mirror_differs", "out of order", partition, partition, middle(k))


def unreplicated(world: MirroredWorld, partition: int, _: int) -> None:
    world.behind[partition] += 1


def translated_too_far(world: MirroredWorld, partition: int, k: int) -> None:
    """After one that would only make the group read something again."""
    for when, there in ((k, middle(k) - 1), (k + 20, middle(k) + 1)):
        world.history.stands(there, middle(k), when=when, partition=partition)
    world.expect("offset_translation", partition, middle(k), middle(k) + 1, 1)


ANOMALIES: tuple[Plant, ...] = (
    idle_member,
    held_twice,
    log_dir_placement,
    seek_mismatch,
    membership_gap,
    unpublished,
    one_life_more,
    key_moved,
    key_reordered,
    refused_unclearly,
    claimed_wrongly,
    taken_twice,
    wrongly_dropped,
    passed_over,
    copied_twice,
    changed_by_the_mirror,
    swapped_by_the_mirror,
    unreplicated,
    translated_too_far,
)
IN: dict[Plant, Callable[..., World]] = {
    taken_twice: ReceivedWorld,
    wrongly_dropped: ReceivedWorld,
    passed_over: MirroredWorld,
    copied_twice: MirroredWorld,
    changed_by_the_mirror: MirroredWorld,
    swapped_by_the_mirror: MirroredWorld,
    unreplicated: MirroredWorld,
    translated_too_far: MirroredWorld,
}
BETWEEN_PARTITIONS = (planting.duplicated_elsewhere, key_moved, key_reordered)  # for which one is not enough


# -- what looks like one, and is legal -------------------------------------------------------------------------------


def promised_and_unknown(world: World, partition: int, k: int) -> None:
    """It was in an outbox, its outcome is unknown, and it was written."""
    world.sends[partition, middle(k)].outcome = "info"


def key_that_stays(world: World, partition: int, _: int) -> None:
    """In its partition; another producer has the same key in another."""
    for where in (partition, (partition + 1) % world.partitions):
        world.strangers += 1
        for seq in range(2):
            offset = world.append(where, (world.strangers, seq))
            world.sends[world.strangers, seq] = Sent(where, offset, world.over + seq, world.over + seq + 1, key=7)


def claim_that_holds(world: World, partition: int, k: int) -> None:
    world.history.marks = Marks(load_begun_ns=at(0), drained_ns=at(world.over + 100))
    world.history.state(world.over + k, 1, leader=1, epoch=0, partition=partition)
    world.history.claim("end", f"orders/{partition}", leader=["kafka1"])


def seeks_that_land(world: World, partition: int, k: int) -> None:
    """Where they were sent; past the log's end, where the policy sends them."""
    log = {"log_start": 0, "log_start_after": 0, "log_end": world.messages, "log_end_after": world.messages}
    seeks = ((middle(k), middle(k), "error"), (world.messages + 5, 0, "earliest"), (world.messages + 5, None, "latest"))
    for when, (asked, landed, policy) in enumerate(seeks):
        place = {"fault": 1, "topic": 0, "partition": partition, "by": "offset", "policy": policy}
        world.history.rows["seeks"].append({**log, **place, "at_ns": at(when), "asked": asked, "landed": landed})


def logs_spread_evenly(world: World, partition: int, k: int) -> None:
    for step, counts in enumerate(([k, k + 1], [k + 2, k + 2])):
        for directory, count in enumerate(counts, start=1):
            names = [f"t{directory}-{number}" for number in range(count)]
            row = {"step": step, "at_ns": at(step), "broker": partition, "directory": directory, "partitions": names}
            world.history.rows["places"].append(row)


def member_that_comes_later(world: World, partition: int, _: int) -> None:
    source = f"zk{partition}"
    for when, brokers in ((0, BROKERS[:2]), (10, BROKERS), (20, BROKERS)):
        world.history.rows["members"].append({"at_ns": at(when), "source": source, "brokers": list(brokers)})


def copy_that_is_dropped(world: ReceivedWorld, partition: int, k: int) -> None:
    world.came_again.add((partition, middle(k)))


def translated_too_low(world: MirroredWorld, partition: int, k: int) -> None:
    """Which makes the group read something again."""
    world.history.stands(middle(k) - 1, middle(k), when=k, partition=partition)


LOOK_ALIKES: tuple[tuple[Callable[..., World], tuple[Plant, ...]], ...] = (
    (
        AskedWorld,
        (
            promised_and_unknown,
            key_that_stays,
            claim_that_holds,
            seeks_that_land,
            logs_spread_evenly,
            member_that_comes_later,
        ),
    ),
    (ReceivedWorld, (copy_that_is_dropped, planting.expired)),
    (
        MirroredWorld,
        (translated_too_low, planting.expired, planting.copy_by_a_retry, planting.unknown_that_appears),
    ),
)
