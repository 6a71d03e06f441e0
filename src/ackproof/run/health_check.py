"""A health check as whoever started it sees it: how it is told where to look, and what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ackproof.core.sites import placed
from ackproof.health.alert_sinks import Outlets, Tell
from ackproof.host.java import find_java
from ackproof.kafka.distribution.jars import ensure_connector
from ackproof.lab.directory import LabDirectory
from ackproof.model.health_config import HealthConfig
from ackproof.model.scenario import HealthPlan


def health_config(
    plan: HealthPlan, lab: str, nodes: Sequence[Mapping[str, Any]], bootstrap: str, min_isr: Mapping[str, int]
) -> HealthConfig:
    """`nodes` and topics as the lab names them; of these, only what is at the site of the topic is watched."""
    java = find_java()
    site, topic = placed(plan.topic)

    def of(role: str, key: str) -> dict[Any, tuple[str, int]]:
        those = [node for node in nodes if (node["role"], node["site"]) == (role, site)]
        return {node[key]: (node["address"], node["port"]) for node in those}

    return HealthConfig(
        topic=topic,
        line=plan.line,
        bootstrap=bootstrap,
        brokers=of("broker", "kafka_id"),
        zookeeper=of("zookeeper", "name"),
        controllers=of("controller", "name"),
        min_isr={own: least for name, least in min_isr.items() for where, own in [placed(name)] if where == site},
        jars=[str(jar) for jar in ensure_connector(java)],
        java_home=str(java.home),
        folder=str(LabDirectory.of(lab).data),
    )


class HealthFeed:
    """What a run's health check says, line by line as it says it; nothing where the scenario has none."""

    def __init__(self, plan: HealthPlan | None, directory: Path, tell: Tell) -> None:
        self._outlets = None if plan is None else Outlets(plan.webhook, plan.prometheus, tell)
        self._log = directory / "logs" / "health.log"
        self._read = 0

    def follow(self) -> None:
        if self._outlets is None or not self._log.exists():
            return
        with self._log.open("rb") as log:
            log.seek(self._read)
            *whole, _ = log.read().split(b"\n")
        self._read += sum(len(line) + 1 for line in whole)
        for line in whole:
            self._outlets.put(line.decode(errors="replace"))

    def close(self) -> None:
        if self._outlets is not None:
            self._outlets.close()
