"""The status of a lab as typed data, decoded from the lab's JSON answer: for `status`, `watch` and `topic describe`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec


class NodeStatus(msgspec.Struct, frozen=True):
    name: str
    role: str
    state: str
    address: str
    rack: str | None
    pid: int | None
    uptime_s: float | None
    memory_mb: float | None
    last_exit: str | None


class FaultStatus(msgspec.Struct, frozen=True):
    """A fault that holds now, or that no longer holds and is not healed: then `broken` says why."""

    fault: str
    kind: str
    targets: list[str]
    for_s: float
    left_s: float | None
    proved: str
    broken: str | None
    only: dict[str, Any] = {}  # which packets it stops, where it does not stop all of them


class PartitionStatus(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    leader: str | None
    leader_epoch: int | None
    replicas: list[str]
    isr: list[str]
    high_watermark: int | None = None
    log_end: dict[str, int] = {}

    @property
    def internal(self) -> bool:
        """Whether it belongs to a topic of Kafka's own."""
        return self.topic.startswith("__")

    @property
    def degraded(self) -> bool:
        return self.leader is None or len(self.isr) < len(self.replicas)


class LabStatus(msgspec.Struct, frozen=True):
    name: str
    mode: str
    kafka: str
    bootstrap: str
    exposed: str | None
    controller: str | None
    zookeeper_leader: str | None
    nodes: list[NodeStatus]
    network_groups: list[list[str]]
    faults: list[FaultStatus]
    topic_partitions: list[PartitionStatus]
    reachable: dict[str, dict[str, bool]]


class MemberStatus(msgspec.Struct, frozen=True):
    id: str
    client_id: str
    host: str
    assigned: list[tuple[str, int]] | None  # None: in a format that Kafka's own clients do not read


class GroupStatus(msgspec.Struct, frozen=True):
    id: str
    state: str
    members: list[MemberStatus]


def read_status(answer: Any) -> LabStatus:
    return msgspec.convert(answer, LabStatus)


def read_partitions(answer: Any) -> list[PartitionStatus]:
    return msgspec.convert(answer, list[PartitionStatus])


def read_groups(answer: Any) -> tuple[GroupStatus, ...]:
    return msgspec.convert(answer, tuple[GroupStatus, ...])


def broker_ids(names: Sequence[str]) -> str:
    """Return brokers by their numbers, as Kafka's own tools show them: kafka2 is 2."""
    return " ".join(name.removeprefix("kafka") for name in names)


def time_span(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
