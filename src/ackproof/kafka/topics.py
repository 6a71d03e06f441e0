"""Making and growing topics, with librdkafka's own administration. Runs where the observer stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ackproof.errors import CannotHere, Problem, UsageProblem

TIMEOUT_S = 20.0


def _admin(bootstrap: str) -> Any:
    from confluent_kafka.admin import AdminClient

    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "broker.address.family": "v4",
    }
    return AdminClient(settings, logger=None)


def create(
    bootstrap: str, names: Sequence[str], partitions: int, replication: int | None, config: Mapping[str, str]
) -> list[str]:
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    wanted = [
        NewTopic(name, num_partitions=partitions, replication_factor=replication or -1, config=dict(config))
        for name in names
    ]
    admin = _admin(bootstrap)  # its requests end with it: it must outlive their answers
    futures = admin.create_topics(wanted, operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S)
    shape = f"{partitions} partition{'s' if partitions > 1 else ''}"
    made, problems = [], []
    for name, future in futures.items():
        try:
            _settle(future, f"topic {name} was not created")
            made.append(f"topic {name}: created with {shape}")
        except Problem as problem:
            problems.append(problem)
    if problems:
        first, *others = problems
        raise type(first)(first.message, [*(other.message for other in others), *made])
    return made


def resize(bootstrap: str, name: str, partitions: int) -> list[str]:
    from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

    admin = _admin(bootstrap)
    futures = admin.create_partitions([NewPartitions(name, partitions)], request_timeout=TIMEOUT_S)
    _settle(futures[name], f"topic {name} was not resized")
    return [f"topic {name}: {partitions} partitions; keys may map to other partitions from now on"]


def _settle(future: Any, subject: str) -> None:
    from confluent_kafka import KafkaException

    try:
        future.result(timeout=TIMEOUT_S + 5)
    except KafkaException as problem:
        error = problem.args[0]
        kind = CannotHere if error.retriable() or error.code() < 0 else UsageProblem
        raise kind(f"{subject}: {error.str().rstrip('.')}") from None
