"""What a lab answers about its cluster. It needs the Kafka protocol, which is slow to import for a command."""

from __future__ import annotations

import msgspec

from ackproof.kafka.protocol.responses import Group
from ackproof.lab.answers import StandingFault
from ackproof.lab.cluster_state import PartitionState


class NodeState(msgspec.Struct, frozen=True):
    name: str
    role: str
    state: str
    address: str
    rack: str | None
    pid_inside: int | None  # as the lab counts
    uptime_s: float | None
    memory_mb: float | None
    last_exit: str | None


class Status(msgspec.Struct, frozen=True):
    name: str
    mode: str
    kafka: str
    supervisor_pid: int
    bootstrap: str
    exposed: str | None
    controller: str | None
    zookeeper_leader: str | None
    nodes: list[NodeState]
    network_groups: list[list[str]]
    faults: list[StandingFault]
    topic_partitions: list[PartitionState]
    reachable: dict[str, dict[str, bool]]


class Partitions(msgspec.Struct, frozen=True):
    topic_partitions: list[PartitionState]


class Groups(msgspec.Struct, frozen=True):
    groups: list[Group]
