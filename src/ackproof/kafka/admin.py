"""Create and grow topics with librdkafka's administration client. It runs where the observer does."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from socket import gethostbyname
from typing import Any

from ackproof.core.errors import CannotHere, Problem, UsageProblem
from ackproof.kafka.protocol.broker import ELECTION_S, Broker, NoAnswer

TIMEOUT_S = 20.0
ASK_S = 3.0
KNOWN_S = 5.0  # by then a broker knows a new topic


def _admin(bootstrap: str) -> Any:
    from confluent_kafka.admin import AdminClient

    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "broker.address.family": "v4",
    }
    return AdminClient(settings, logger=None)


class Exists(UsageProblem):
    """The topic exists already."""


def create(
    bootstrap: str,
    names: Sequence[str],
    partitions: int,
    replication: int | None,
    config: Mapping[str, str],
    timeout_s: float = TIMEOUT_S,
) -> list[str]:
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    wanted = [
        NewTopic(name, num_partitions=partitions, replication_factor=replication or -1, config=dict(config))
        for name in names
    ]
    admin = _admin(bootstrap)  # its requests end with it, so it must live until they are answered
    futures = admin.create_topics(wanted, operation_timeout=timeout_s, request_timeout=timeout_s)
    shape = f"{partitions} partition{'s' if partitions > 1 else ''}"
    made, problems = [], []
    for name, future in futures.items():
        try:
            _settle(future, f"topic {name} was not created", timeout_s)
            made.append(f"topic {name}: created with {shape}")
        except Problem as problem:
            problems.append(problem)
    if problems:
        first, *others = problems
        raise type(first)(first.message, [*(other.message for other in others), *made])
    return made


def ids(bootstrap: str, names: Sequence[str], within_s: float = KNOWN_S) -> dict[str, str]:
    """Kafka's ids of these topics, from the first broker that knows all of them, else those that are known."""
    deadline = time.monotonic() + within_s
    found: dict[str, str] = {}
    while len(found) < len(names) and time.monotonic() < deadline:
        for address in bootstrap.split(","):
            host, _, port = address.rpartition(":")
            with suppress(NoAnswer), Broker(gethostbyname(host), int(port), ASK_S) as broker:
                found |= broker.metadata(names).topic_ids
        time.sleep(0.02)
    return found


def resize(bootstrap: str, name: str, partitions: int) -> list[str]:
    from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

    admin = _admin(bootstrap)
    futures = admin.create_partitions([NewPartitions(name, partitions)], request_timeout=TIMEOUT_S)
    _settle(futures[name], f"topic {name} was not resized")
    return [f"topic {name}: {partitions} partitions; keys may map to other partitions from now on"]


def minimums(bootstrap: str, names: Sequence[str]) -> dict[str, int]:
    """min.insync.replicas of each topic."""
    from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

    admin = _admin(bootstrap)
    asked = {name: ConfigResource(ResourceType.TOPIC, name) for name in names}
    futures = admin.describe_configs(list(asked.values()), request_timeout=TIMEOUT_S)
    return {
        name: int(_settle(futures[asked[name]], f"topic {name} was not described")["min.insync.replicas"].value)
        for name in names
    }


def elect(bootstrap: str, partitions: Sequence[tuple[str, int]], unclean: bool) -> list[str]:
    """Ask the controller for an election. That the leader leads already is an answer, not an error.

    It uses our own protocol client, because `elect_leaders` of confluent-kafka 2.16 cannot be called.
    """
    try:
        with _controller(bootstrap) as controller:
            answers = controller.elect(partitions, unclean)
    except NoAnswer as silence:
        raise CannotHere(f"the election request got no answer: {silence}") from None
    said, refused = [], []
    for (topic, partition), error in answers.items():
        name = f"{topic}/{partition}"
        if error is None:
            said.append(f"{name}: elected")
        elif error == "ELECTION_NOT_NEEDED":
            said.append(f"{name}: no election was needed")
        else:
            refused.append(f"{name}: {error}")
    if refused:
        raise CannotHere(f"the election was refused for {refused[0]}", [*refused[1:], *said])
    return said


def _controller(bootstrap: str) -> Broker:
    """The broker to ask: with ZooKeeper the controller; with KRaft any broker, which forwards the request."""
    silences = []
    for address in bootstrap.split(","):
        host, _, port = address.rpartition(":")
        try:
            with Broker(gethostbyname(host), int(port), ASK_S) as broker:
                known = broker.metadata([])
        except NoAnswer as silence:
            silences.append(silence)
            continue
        for node in known.brokers:
            if node.id == known.controller_id:
                return Broker(gethostbyname(node.host), node.port, ELECTION_S + ASK_S)
    raise silences[0] if silences else NoAnswer(bootstrap, "error", "no broker names a controller")


def _settle(future: Any, subject: str, timeout_s: float = TIMEOUT_S) -> Any:
    from confluent_kafka import KafkaError, KafkaException

    try:
        return future.result(timeout=timeout_s + 5)
    except KafkaException as problem:
        error = problem.args[0]
        if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            raise Exists(f"{subject}: {error.str().rstrip('.')}") from None
        kind = CannotHere if error.retriable() or error.code() < 0 else UsageProblem
        raise kind(f"{subject}: {error.str().rstrip('.')}") from None
