"""When the consumers of a run have read what there is.

A consumer that says nothing for a while has not read everything by that: it may have been stopped, or wait for its
group. So each of our consumers says itself, by the brokers' word, that it stands at the end of each partition that it
owns; and no partition of a group may be without an owner while the group has members. A foreign consumer does not tell
where the log ends: it has read everything when it has told of the last offset of each partition, and where it never
does it is waited for until it has long been quiet. That proves nothing, and the judge knows it.

Every wait ends. Who was not done then is for the judge to say, from where each consumer stood.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

LOOK_EVERY_S = 0.1
LONGEST_S = 900.0

Lack = Literal["reading", "unowned", "quiet"]
# How long nothing may change before it is given up: a consumer that does not read on, a partition that no member of its
# group is given (longer than the usual time-out of a session, 45 s), a foreign consumer that tells of nothing new.
PATIENCE_S: Mapping[Lack, float] = {"reading": 120.0, "unowned": 60.0, "quiet": 15.0}


@dataclass(frozen=True)
class Member:
    """A consumer that runs, by its own page."""

    name: str
    group: str
    topics: frozenset[str]
    foreign: bool
    ready: bool
    read: int
    owned: int
    read_whole: int  # partitions


def lacking(members: Sequence[Member], partitions: Mapping[str, int]) -> tuple[Lack, str] | None:
    """What is still to be waited for, and in words; `partitions` says how many each topic has."""
    groups: dict[str, list[Member]] = defaultdict(list)
    for member in members:
        groups[member.group].append(member)
        if not member.foreign and (not member.ready or member.read_whole < member.owned):
            return "reading", f"{member.name} does not say that it has read all of its partitions"
    for group, own in groups.items():
        topics = frozenset[str]().union(*(member.topics for member in own))
        total = sum(partitions[topic] for topic in topics)
        if any(member.foreign for member in own):
            if sum(member.read_whole for member in own) < total:
                names = ", ".join(member.name for member in own)
                return "quiet", f"{names} told of nothing new, and not of every partition's last message"
        elif (owned := sum(member.owned for member in own)) < total:
            return "unowned", f"only {owned} of {total} partitions have an owner in group {group}"
    return None


def wait_until_read(members: Callable[[], Sequence[Member]], partitions: Mapping[str, int]) -> str | None:
    """None once everything is read, else what was given up, in words."""
    begun = changed = time.monotonic()
    before: Sequence[Member] = []
    while True:
        now = members()
        lack = lacking(now, partitions)
        if lack is None:
            return None
        kind, words = lack
        if now != before:
            before, changed = now, time.monotonic()
        if time.monotonic() - changed > PATIENCE_S[kind] or time.monotonic() - begun > LONGEST_S:
            return words
        time.sleep(LOOK_EVERY_S)
