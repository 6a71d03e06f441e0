"""Making and growing topics, with librdkafka's own administration. Runs where the observer stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ackproof.errors import CannotHere, Problem, UsageProblem

TIMEOUT_S = 20.0
ELECTION_S = 10.0


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


def elect(bootstrap: str, partitions: Sequence[tuple[str, int]], unclean: bool) -> list[str]:
    """Ask for an election; a leader that leads already is an answer, not a problem."""
    from confluent_kafka import ElectionType, KafkaException, TopicPartition

    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    admin = _admin(bootstrap)
    wanted = [TopicPartition(topic, partition) for topic, partition in partitions]
    future = admin.elect_leaders(kind, wanted, request_timeout=ELECTION_S)
    try:
        answers = future.result(timeout=ELECTION_S + 5)
    except KafkaException as problem:
        raise CannotHere(f"the election was refused: {problem.args[0].str().rstrip('.')}") from None
    said, refused = [], []
    for place, answer in answers.items():
        error = answer.args[0] if isinstance(answer, KafkaException) else answer
        name = f"{place.topic}/{place.partition}"
        if error is None:
            said.append(f"{name}: elected")
        elif error.name() == "ELECTION_NOT_NEEDED":
            said.append(f"{name}: no election was needed")
        else:
            refused.append(f"{name}: {error.str().rstrip('.')}")
    if refused:
        raise CannotHere(f"the election was refused for {refused[0]}", [*refused[1:], *said])
    return said


def _settle(future: Any, subject: str) -> None:
    from confluent_kafka import KafkaException

    try:
        future.result(timeout=TIMEOUT_S + 5)
    except KafkaException as problem:
        error = problem.args[0]
        kind = CannotHere if error.retriable() or error.code() < 0 else UsageProblem
        raise kind(f"{subject}: {error.str().rstrip('.')}") from None
