"""Whether a producer's topic is there before its first message: validated, created, or only assumed."""

from __future__ import annotations

from typing import Literal, Protocol

from confluent_kafka import KafkaException
from confluent_kafka import Producer as KafkaProducer


class Asked(Protocol):
    """What a check needs to know of its producer."""

    @property
    def topic(self) -> str: ...
    @property
    def bootstrap(self) -> str: ...
    @property
    def topic_check(self) -> Literal["validate", "create", "assume"]: ...
    @property
    def topic_timeout_s(self) -> float: ...
    @property
    def partitions(self) -> int: ...
    @property
    def replication(self) -> int: ...


class TopicProblem(Exception):
    """The topic could not be validated or created in time, in one sentence."""

    exit_code = 69  # "unavailable"


def check_topic(client: KafkaProducer, config: Asked) -> int:
    """How many partitions the topic has, as its check found; 0 where it is only assumed to be there."""
    if config.topic_check == "assume":
        return 0
    if config.topic_check == "create":
        _create_topic(config)
    try:
        known = client.list_topics(config.topic, timeout=config.topic_timeout_s).topics[config.topic]
    except KafkaException as problem:
        raise TopicProblem(
            f"topic {config.topic} could not be validated within {config.topic_timeout_s:g} s: "
            f"{problem.args[0].str().rstrip('.')}"
        ) from None
    if known.error is not None:
        raise TopicProblem(f"topic {config.topic}: {known.error.str().rstrip('.')}")
    return len(known.partitions)


def _create_topic(config: Asked) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": config.bootstrap,
        "log_level": 0,
        "broker.address.family": "v4",
    }
    wanted = NewTopic(config.topic, num_partitions=config.partitions, replication_factor=config.replication)
    admin = AdminClient(settings)
    future = admin.create_topics([wanted], request_timeout=config.topic_timeout_s)[config.topic]
    try:
        future.result(timeout=config.topic_timeout_s + 1)
    except (KafkaException, TimeoutError) as problem:
        error = problem.args[0] if problem.args else None
        if error is not None and hasattr(error, "name") and error.name() == "TOPIC_ALREADY_EXISTS":
            return
        why = error.str().rstrip(".") if error is not None and hasattr(error, "str") else "no answer"
        raise TopicProblem(
            f"topic {config.topic} could not be created within {config.topic_timeout_s:g} s: {why}"
        ) from None
