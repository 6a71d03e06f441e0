"""Targets of commands and faults: names, globs, lists of them, or roles that are resolved at this moment.

kafka2   kafka*   kafka1,kafka3   all-brokers   quorum (the ZooKeeper nodes or the controllers)   quorum:1
leader:orders/0   follower:orders/0   followers:orders/0   controller   coordinator:group   zookeeper-leader
coordinator:transaction:producer2 (the coordinator of a producer's transactions, by its transactional.id)
dc1   dc2 (all nodes of a site, in a lab with two sites; the mirror is at the second)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from ackproof.core.errors import UsageProblem, did_you_mean

ROLES = (
    "all-brokers",
    "quorum",
    "quorum:NUMBER",
    "controller",
    "zookeeper-leader",
    "leader:TOPIC/PARTITION",
    "follower:TOPIC/PARTITION",
    "followers:TOPIC/PARTITION",
    "coordinator:GROUP",
    "coordinator:transaction:ID",
    "dc1",
    "dc2",
)

TRANSACTION = "transaction:"  # prefix of a transactional.id in `coordinator:`
Resolver = Callable[[str], list[str]]


def resolve(text: str, names: Sequence[str], roles: Mapping[str, Resolver]) -> list[str]:
    """The nodes that a target names, each once, in the given order. `roles` resolves `ROLE` and `ROLE:WHAT`."""
    found: list[str] = []
    for item in text.split(","):
        found += [name for name in _resolve_one(item.strip(), names, roles) if name not in found]
    return found


def _resolve_one(item: str, names: Sequence[str], roles: Mapping[str, Resolver]) -> list[str]:
    if item in names:
        return [item]
    role, _, what = item.partition(":")
    if role in roles:
        takes_more = any(known.startswith(f"{role}:") for known in ROLES)
        if what and not takes_more:
            raise UsageProblem(f"{item}: write only {role}, without a colon")
        return roles[role](what)
    if any(sign in item for sign in "*?["):
        matches = [name for name in names if fnmatchcase(name, item)]
        if matches:
            return matches
        raise UsageProblem(f"{item} matches no node of this lab, which has {', '.join(names)}")
    hint = did_you_mean(item, [*names, *roles])
    raise UsageProblem(f"no node or role {item!r}{hint}: nodes are {', '.join(names)}; roles are {', '.join(ROLES)}")


def topic_partition(what: str, role: str) -> tuple[str, int]:
    match = re.fullmatch(r"(.+)/(\d+)", what)
    if match is None:
        raise UsageProblem(f"{role}: write it as {role}:TOPIC/PARTITION, for example {role}:orders/0")
    return match[1], int(match[2])
