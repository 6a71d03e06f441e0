"""What a lab answers to its commands. These structs go over the control socket as JSON, and `--json` prints them."""

from __future__ import annotations

import msgspec

from ackproof.lab.topology import Link
from ackproof.model.nodes import NodePlace


class Done(msgspec.Struct, frozen=True):
    nodes: list[str]
    said: list[str]  # what was proved, in words


class Healed(msgspec.Struct, frozen=True):
    healed: list[str]  # the lab's names of the faults
    said: list[str]


class FaultsProved(msgspec.Struct, frozen=True):
    """A fault was injected and proved: the nodes that it hit, and the lab's names of what stands now."""

    nodes: list[str]
    faults: list[str]
    said: list[str]


class StandingFault(msgspec.Struct, frozen=True):
    fault: str
    kind: str
    targets: list[str]
    links: list[Link]
    only: dict[str, bool | int | float]  # which packets it stops, where it does not stop all of them
    proved: str
    for_s: float
    left_s: float | None
    broken: str | None  # why it no longer holds


class FaultProved(StandingFault, frozen=True):
    """One fault was injected and stands now."""

    hit: list[str]
    nodes: list[str]
    faults: list[str]
    said: list[str]


class Where(msgspec.Struct, frozen=True):
    """Where the cluster is reached, as lists of host and port."""

    bootstrap: str
    sites: dict[str, str]  # the bootstrap servers of each site
    users: str | None  # the listener for users
    zookeeper: str | None
    controllers: str | None


class NodePlaces(msgspec.Struct, frozen=True):
    nodes: list[NodePlace]


class Resolved(msgspec.Struct, frozen=True):
    nodes: list[str]


class Entered(msgspec.Struct, frozen=True):
    node: str


class Spawned(msgspec.Struct, frozen=True):
    process: str


class Exits(msgspec.Struct, frozen=True):
    """The exit code and the signal of each program that ended; None if the lab lost track of it."""

    exits: dict[str, tuple[int | None, int | None] | None]


class Sent(msgspec.Struct, frozen=True):
    sent: bool


class Down(msgspec.Struct, frozen=True):
    said: list[str]
