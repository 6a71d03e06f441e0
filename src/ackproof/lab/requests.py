"""What is asked of a lab, and what it answers to a run. JSON stays at the socket."""

from __future__ import annotations

import msgspec

from ackproof.lab import client
from ackproof.lab.answers import Exits, NodePlaces, Where
from ackproof.model.faults import Fault, Kill, Pause, Stop
from ackproof.model.nodes import NodePlace


class Inject(msgspec.Struct, frozen=True):
    fault: Fault
    for_s: float | None = None  # how long a fault that lasts stands if nobody heals it


class InjectAtClients(msgspec.Struct, frozen=True):
    """A fault at programs of a run."""

    fault: Kill | Stop | Pause
    processes: list[str]
    heard: list[str] = []  # those of them that listen to an external client, which is what the fault hits
    for_s: float | None = None


class Injected(msgspec.Struct, frozen=True):
    """A fault that was proved."""

    nodes: list[str]  # what it hit
    said: list[str]  # what was proved, in words
    faults: list[str] = []  # the lab's names of what stands now, such as f3


class OfFaults(msgspec.Struct, frozen=True):
    faults: list[str] = []  # none: all that stand


class AtNodes(msgspec.Struct, frozen=True):
    nodes: list[str] = []
    timeout_s: float | None = None
    wait: bool = True  # until a node that is started serves


class RestartNodes(msgspec.Struct, frozen=True):
    nodes: list[str]
    kill: bool = False
    wipe: bool = False
    add_log_dir: bool = False


class OneNode(msgspec.Struct, frozen=True):
    node: str


class Target(msgspec.Struct, frozen=True):
    target: str


class OfStatus(msgspec.Struct, frozen=True):
    offsets: bool = False


class OfPartitions(msgspec.Struct, frozen=True):
    topics: list[str] = []  # none: all


class Spawn(msgspec.Struct, frozen=True):
    """A program of a run, in the network of a node."""

    process: str
    node: str
    argv: list[str]
    output: str  # the file


class OfProcesses(msgspec.Struct, frozen=True):
    names: list[str]


class SignalProcess(msgspec.Struct, frozen=True):
    process: str
    signal: str


class Led(msgspec.Struct, frozen=True):
    """A partition and its leader."""

    topic: str
    partition: int
    leader: str | None
    leader_epoch: int | None


class _Leaders(msgspec.Struct, frozen=True):
    topic_partitions: list[Led]


def inject(lab: str, fault: Fault, for_s: float | None = None) -> Injected:
    return msgspec.convert(client.call(lab, "inject", fault=fault, for_s=for_s), Injected)


def inject_at_clients(lab: str, request: InjectAtClients) -> Injected:
    return msgspec.convert(client.call(lab, "disturb", **msgspec.structs.asdict(request)), Injected)


def heal(lab: str, faults: list[str]) -> None:
    client.call(lab, "heal", faults=faults)


def where(lab: str) -> Where:
    return msgspec.convert(client.call(lab, "bootstrap"), Where)


def nodes(lab: str) -> list[NodePlace]:
    return msgspec.convert(client.call(lab, "nodes"), NodePlaces).nodes


def leaders(lab: str) -> list[Led]:
    return msgspec.convert(client.call(lab, "leaders"), _Leaders).topic_partitions


def exits(lab: str, names: list[str]) -> dict[str, tuple[int | None, int | None] | None]:
    """Return how each of these programs ended, by exit code and signal. Programs that still run are left out."""
    return msgspec.convert(client.call(lab, "processes", names=names), Exits).exits


def spawn(lab: str, request: Spawn) -> None:
    client.call(lab, "spawn", **msgspec.structs.asdict(request))
