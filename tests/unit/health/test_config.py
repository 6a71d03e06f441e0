"""The configuration of a health check names the nodes and topics of one site."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.health import config as health_config_module
from ackproof.health.config import health_config
from ackproof.host.java import Java
from ackproof.model.nodes import NodePlace
from ackproof.model.scenario import HealthPlan


def test_a_health_check_asks_the_nodes_of_its_topics_site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        health_config_module, "find_java", lambda: Java(Path("/java"), Path("/java/bin/java"), 17, "17")
    )
    monkeypatch.setattr(health_config_module, "ensure_connector", lambda _: [Path("/jars/connector.jar")])
    nodes = [
        NodePlace("kafka1", "broker", 1, "198.18.1.1", 9092, "dc1"),
        NodePlace("zk1", "zookeeper", 1, "198.18.2.1", 2181, "dc1"),
        NodePlace("client", "client", 1, "198.18.3.1", None, "dc1"),
        NodePlace("dc2.kafka1", "broker", 11, "198.18.4.1", 9092, "dc2"),
        NodePlace("dc2.zk1", "zookeeper", 1, "198.18.5.1", 1, "dc2"),
    ]
    least = {"orders": 2, "dc2:events": 1}
    config = health_config(HealthPlan("orders", 50), nodes, "kafka1:9092", least, Path("/lab/data"))
    assert config.brokers == {1: ("198.18.1.1", 9092)}
    assert config.zookeeper == {"zk1": ("198.18.2.1", 2181)}
    assert config.controllers == {}
    assert (config.line, config.jars, config.min_isr) == (50, ["/jars/connector.jar"], {"orders": 2})
    elsewhere = health_config(HealthPlan("dc2:events"), nodes, "dc2.kafka1:9092", least, Path("/lab/data"))
    assert (elsewhere.topic, elsewhere.min_isr) == ("events", {"events": 1})
    assert elsewhere.brokers == {11: ("198.18.4.1", 9092)}
    assert elsewhere.zookeeper == {"dc2.zk1": ("198.18.5.1", 1)}
    assert config.folder == "/lab/data"
