"""The configuration of a health check: the topic, the rate that it must not fall below, and the nodes' addresses."""

from __future__ import annotations

import msgspec


class HealthConfig(msgspec.Struct, frozen=True):
    topic: str
    line: float
    bootstrap: str
    brokers: dict[int, tuple[str, int]]  # Kafka's id: address, port
    zookeeper: dict[str, tuple[str, int]]  # the node's name: address, port; empty under KRaft
    controllers: dict[str, tuple[str, int]]  # empty under ZooKeeper
    min_isr: dict[str, int]  # of every watched topic
    jars: list[str]
    java_home: str
    folder: str  # for its temporary files: in memory, because each batch waits for two files; it ends with the lab
    run: int = 0
    directory: str | None = None  # of the run; None outside of a run, where there is no journal
    progress: str | None = None
    tethered: bool = False  # whether it ends when its standard input ends
