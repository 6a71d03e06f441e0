"""The configuration of a health check: its topic and line, and the addresses of the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ackproof.core.sites import placed
from ackproof.host.java import find_java
from ackproof.kafka.distribution.jars import ensure_connector
from ackproof.model.nodes import NodePlace
from ackproof.model.scenario import HealthPlan


class HealthConfig(msgspec.Struct, frozen=True):
    topic: str
    line: float
    bootstrap: str
    brokers: dict[int, tuple[str, int]]  # by Kafka's id: address, port
    zookeeper: dict[str, tuple[str, int]]  # by node's name: address, port; empty with KRaft
    controllers: dict[str, tuple[str, int]]  # empty with ZooKeeper
    min_isr: dict[str, int]  # of every watched topic
    jars: list[str]
    java_home: str
    folder: str  # for temporary files: in memory, because each batch waits for two files; it ends with the lab
    run: int = 0
    directory: str | None = None  # of the run; None outside of a run, where there is no journal
    progress: str | None = None
    tethered: bool = False  # whether it ends when its standard input does


def health_config(
    plan: HealthPlan, nodes: Sequence[NodePlace], bootstrap: str, min_isr: Mapping[str, int], folder: Path
) -> HealthConfig:
    """`nodes` and topics have the lab's names. Only those at the site of the plan's topic are watched."""
    java = find_java()
    site, topic = placed(plan.topic)

    def addresses(role: str, key: str) -> dict[Any, tuple[str, int]]:
        of_role = [node for node in nodes if (node.role, node.site) == (role, site)]
        return {getattr(node, key): node.endpoint for node in of_role}

    return HealthConfig(
        topic=topic,
        line=plan.line,
        bootstrap=bootstrap,
        brokers=addresses("broker", "kafka_id"),
        zookeeper=addresses("zookeeper", "name"),
        controllers=addresses("controller", "name"),
        min_isr={own: least for name, least in min_isr.items() for where, own in [placed(name)] if where == site},
        jars=[str(jar) for jar in ensure_connector(java)],
        java_home=str(java.home),
        folder=str(folder),
    )
