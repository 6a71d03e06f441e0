"""What a run hears of its health check: whole lines, each once; and how the check is told where to look."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ackproof.clients import health_check as clients_health
from ackproof.clients.health_check import HealthCheck
from ackproof.health.alert_sinks import in_words
from ackproof.health.alerting import Alert
from ackproof.host.java import Java
from ackproof.lab.directory import LabDirectory
from ackproof.model.health_config import HealthConfig
from ackproof.model.scenario import HealthPlan
from ackproof.run import health_check as run_health
from ackproof.run.health_check import HealthFeed, health_config

RAISED = Alert("rate", "raised", 0.0, "silence", True)
CLEARED = Alert("rate", "cleared", None, "all is well again", True)


def test_each_line_is_told_once_and_only_when_it_is_whole(tmp_path: Path) -> None:
    told: list[str] = []
    feed = HealthFeed(HealthPlan("orders"), tmp_path, told.append)
    feed.follow()  # there is no log yet
    (tmp_path / "logs").mkdir()
    first, second = (msgspec.json.encode(alert) + b"\n" for alert in (RAISED, CLEARED))
    with (tmp_path / "logs" / "health.log").open("wb", buffering=0) as log:
        log.write(b"some warning\n" + first + second[:9])
        feed.follow()
        feed.follow()
        assert told == [in_words(RAISED)]
        log.write(second[9:])
        feed.follow()
    assert told == [in_words(RAISED), in_words(CLEARED)]
    feed.close()


def test_without_a_health_check_nothing_is_followed(tmp_path: Path) -> None:
    feed = HealthFeed(None, tmp_path, lambda said: pytest.fail(said))
    feed.follow()
    feed.close()


def test_every_node_is_asked_for_what_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_health, "find_java", lambda: Java(Path("/java"), Path("/java/bin/java"), 17, "17"))
    monkeypatch.setattr(run_health, "ensure_connector", lambda _: [Path("/jars/connector.jar")])
    nodes: list[dict[str, Any]] = [
        {"name": "kafka1", "role": "broker", "kafka_id": 1, "address": "198.18.1.1", "port": 9092, "site": "dc1"},
        {"name": "zk1", "role": "zookeeper", "kafka_id": None, "address": "198.18.2.1", "port": 2181, "site": "dc1"},
        {"name": "client", "role": "client", "kafka_id": None, "address": "198.18.3.1", "port": None, "site": "dc1"},
        {"name": "dc2.kafka1", "role": "broker", "kafka_id": 11, "address": "198.18.4.1", "port": 9092, "site": "dc2"},
        {"name": "dc2.zk1", "role": "zookeeper", "kafka_id": None, "address": "198.18.5.1", "port": 1, "site": "dc2"},
    ]
    least = {"orders": 2, "dc2:events": 1}
    config = health_config(HealthPlan("orders", 50), "mine", nodes, "kafka1:9092", least)
    assert config.brokers == {1: ("198.18.1.1", 9092)}
    assert config.zookeeper == {"zk1": ("198.18.2.1", 2181)}
    assert config.controllers == {}
    assert (config.line, config.jars, config.min_isr) == (50, ["/jars/connector.jar"], {"orders": 2})
    elsewhere = health_config(HealthPlan("dc2:events"), "mine", nodes, "dc2.kafka1:9092", least)
    assert (elsewhere.topic, elsewhere.min_isr) == ("events", {"events": 1})
    assert elsewhere.brokers == {11: ("198.18.4.1", 9092)}
    assert elsewhere.zookeeper == {"dc2.zk1": ("198.18.5.1", 1)}
    assert Path(config.folder) == LabDirectory.of("mine").data


def test_what_it_needs_while_it_lives_lies_in_the_labs_own_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoint, and Spark's folder: nobody is left to take them away where the lab is killed."""
    config = HealthConfig(
        topic="orders", line=1, bootstrap="", brokers={}, zookeeper={}, controllers={}, min_isr={}, jars=[],
        java_home="/java", folder=str(tmp_path),
    )  # fmt: skip
    places: list[str] = []

    def ran(health: HealthCheck) -> int:
        places.extend([health._checkpoint.name, tempfile.mkdtemp(), os.environ["TMPDIR"]])
        health._checkpoint.cleanup()
        return 0

    monkeypatch.setattr(clients_health, "read_config", lambda _: config)
    monkeypatch.setattr(HealthCheck, "run", ran)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(tempfile, "tempdir", None)
    for name in ("TMPDIR", "JAVA_HOME"):
        monkeypatch.setenv(name, "")
    assert clients_health.main() == 0
    assert [Path(place).parent for place in places] == [tmp_path, tmp_path, tmp_path.parent]
