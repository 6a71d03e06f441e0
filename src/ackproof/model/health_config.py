"""What a health check is told when it is started: the topic and its line, and where the nodes are."""

from __future__ import annotations

import msgspec


class HealthConfig(msgspec.Struct, frozen=True):
    topic: str
    line: float
    bootstrap: str
    brokers: dict[int, tuple[str, int]]  # Kafka's id: address, port
    zookeeper: dict[str, tuple[str, int]]  # the node's name: address, port; one of the two is empty
    controllers: dict[str, tuple[str, int]]
    min_isr: dict[str, int]  # of every topic that is watched
    jars: list[str]
    java_home: str
    folder: str  # for what it needs while it lives: memory that goes with the lab, for each batch waits for two files
    run: int = 0
    directory: str | None = None  # of a run, for the journal
    progress: str | None = None
    tethered: bool = False  # it ends when its standard input does
