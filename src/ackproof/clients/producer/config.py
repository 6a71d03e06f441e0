"""What a run tells a producer: its topic, its messages, its settings."""

from __future__ import annotations

from typing import Literal

import msgspec

from ackproof.clients.runtime import Login, login_settings
from ackproof.kafka.client_settings import Value, kafka_settings


class OutboxConfig(msgspec.Struct, frozen=True):
    give_up_after: int  # failures in a row
    retry_s: float
    exit_code: int


class TransactionsConfig(msgspec.Struct, frozen=True):
    input: str
    size: int
    abort_every: int | None
    timeout_s: float


class ProducerConfig(msgspec.Struct, frozen=True):
    run: int
    directory: str
    id: int
    name: str
    topic: str
    topic_id: int
    bootstrap: str
    count: int
    rate: float | None
    acks: str
    size: int
    keys: int | None
    print: bool
    go: str
    progress: str
    flush_s: float
    pauses: list[tuple[int, float]] = []  # (n, s): after n messages, no message is due for s seconds
    topic_check: Literal["validate", "create", "assume"] = "validate"
    topic_timeout_s: float = 30.0
    partitions: int = 1  # of a topic that the producer creates itself
    replication: int = 1
    grows: bool = False  # the topic gets more partitions while the producer sends
    outbox: OutboxConfig | None = None
    transactions: TransactionsConfig | None = None
    login: Login | None = None
    journal: str | None = None  # the name of its journal files, if it differs from `name`
    partition: int | None = None  # of all its messages; None: the client chooses
    threads: int | None = None  # how many threads share the client; None: the thread that polls also sends
    settings: dict[str, Value] = {}


GO_S = 120.0  # how long a producer waits for the load to begin


def client_settings(config: ProducerConfig) -> dict[str, Value]:
    return {
        "bootstrap.servers": config.bootstrap,
        "client.id": config.name,
        "broker.address.family": "v4",
        "acks": config.acks,
        "log_level": 3,
        **login_settings(config.login),
        **kafka_settings(config.settings),
    }


def retries(settings: dict[str, Value]) -> bool:
    """Whether the client may send a message more than once."""
    return str(settings.get("retries", "")) != "0"
