"""Where Kafka places the replicas of a new topic: its documented rule as pure functions, to compare with its answers.

With ZooKeeper, the controller orders the brokers by id, or alternating by rack. It starts at a random broker and gives
the first replica of each partition to the next broker. The other replicas go to brokers at a distance that grows by one
each time the first replicas have gone round. The two random numbers can be inferred from the answer.

KRaft places differently, so that only properties can be checked: no broker twice; as many racks as possible; racks that
alternate from replica to replica while other racks have brokers left; and first replicas spread evenly over brokers.
With racks, KRaft goes round the racks, and round the brokers of each rack separately. First replicas are then even over
racks of one size, and need not be even over brokers (with two racks of two brokers, one broker of each leads all).

Within a broker, a new log goes to the directory with the fewest logs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

Assignment = Sequence[Sequence[int]]  # the replicas of each partition, the preferred leader first


def alternated(racks: Mapping[int, str]) -> list[int]:
    """The brokers, one from each rack in turn."""
    by_rack = [sorted(broker for broker in racks if racks[broker] == rack) for rack in sorted(set(racks.values()))]
    return [broker for turn in zip_longest(*by_rack) for broker in turn if broker is not None]


def documented(
    brokers: Sequence[int], partitions: int, replication: int, start: int, shift: int, racks: Mapping[int, str]
) -> list[list[int]]:
    """The assignment that ZooKeeper's controller makes with these two random numbers."""
    order = alternated(racks) if racks else sorted(brokers)
    made = []
    for partition in range(partitions):
        if partition > 0 and partition % len(order) == 0:
            shift += 1
        made.append(_replicas(order, (partition + start) % len(order), shift, replication, racks))
    return made


def _replicas(order: list[int], first: int, shift: int, replication: int, racks: Mapping[int, str]) -> list[int]:
    chosen = [order[first]]
    count = len(set(racks.values())) or 1
    step = 0
    while len(chosen) < replication:
        distance = 1 + (shift * (count if racks else 1) + step) % (len(order) - 1)
        broker = order[(first + distance) % len(order)]
        step += 1
        used = {racks[each] for each in chosen} if racks else set()
        new_rack = not racks or racks[broker] not in used or len(used) == count
        if new_rack and (broker not in chosen or len(chosen) == len(order)):
            chosen.append(broker)
    return chosen


def drawn(assignment: Assignment, brokers: Sequence[int], racks: Mapping[int, str]) -> tuple[int, int] | None:
    """The start and the shift that explain an assignment; None if no pair does."""
    replication = len(assignment[0])
    for start in range(len(brokers)):
        for shift in range(len(brokers)):
            made = documented(brokers, len(assignment), replication, start, shift, racks)
            if made == [list(replicas) for replicas in assignment]:
                return start, shift
    return None


def filled(held: Sequence[int], new: int) -> list[int]:
    """How many logs a broker's directories hold after `new` more, the fullest first. Any of several emptiest may be
    used."""
    counts = list(held)
    for _ in range(new):
        counts[counts.index(min(counts))] += 1
    return sorted(counts, reverse=True)


def violations(
    assignment: Assignment, brokers: Sequence[int], racks: Mapping[int, str], alternating: bool
) -> list[tuple[int, str]]:
    """The properties that any assignment should have and this one breaks: partition (-1: all of them) and problem."""
    found = []
    count = len(set(racks.values()))
    for partition, replicas in enumerate(assignment):
        if len(set(replicas)) < len(replicas):
            found.append((partition, "a broker holds it twice"))
        if racks and len({racks[broker] for broker in replicas}) < min(len(replicas), count):
            found.append((partition, "its replicas are in fewer racks than they could be"))
        if alternating and any(_stays(replicas, place, racks) for place in range(1, len(replicas))):
            found.append((partition, "two neighbours among its replicas are in one rack"))
    uneven = _uneven(assignment, {each: racks[each] if alternating else each for each in brokers})
    if uneven is not None:
        found.append((-1, f"first replicas are not even over the {'racks' if alternating else 'brokers'} ({uneven})"))
    return found


def _uneven(assignment: Assignment, turns: Mapping[int, Any]) -> str | None:
    """How often each turn has a first replica, if the turns have one size and two of them differ by two or more."""
    firsts = Counter(turns.get(replicas[0], replicas[0]) for replicas in assignment)
    counts = {turn: firsts[turn] for turn in (*turns.values(), *firsts)}
    if len(set(Counter(turns.values()).values())) > 1 or max(counts.values()) - min(counts.values()) <= 1:
        return None
    return ", ".join(f"{turn}: {counts[turn]}" for turn in sorted(counts))


def _stays(replicas: Sequence[int], place: int, racks: Mapping[int, str]) -> bool:
    """Whether this replica is in the rack of the one before, though another rack had a broker left."""
    rack = racks[replicas[place - 1]]
    left = set(racks) - set(replicas[:place])
    return racks[replicas[place]] == rack and any(racks[broker] != rack for broker in left)
