"""Whether a producer's topic is there before its first message: validated, created, or only assumed."""

from __future__ import annotations

import time
from typing import Any, Literal, Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as KafkaProducer

from ackproof.core.errors import Problem
from ackproof.kafka import admin as topics


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


# A topic that was just made has no leader yet, and not every broker knows of it.
PASSING = {
    "validate": (KafkaError.LEADER_NOT_AVAILABLE,),
    "create": (KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART),
}


class TopicProblem(Exception):
    """The topic could not be validated or created in time, in one sentence."""

    exit_code = 69  # "unavailable"


def check_topic(client: KafkaProducer, config: Asked) -> int:
    """How many partitions the topic has, as its check found; 0 where it is only assumed to be there."""
    if config.topic_check == "assume":
        return 0
    deadline = time.monotonic() + config.topic_timeout_s
    if config.topic_check == "create":
        _create(config)
    while True:
        known = _asked(client, config, max(0.1, deadline - time.monotonic()))
        if known.error is None:
            return len(known.partitions)
        if known.error.code() not in PASSING[config.topic_check] or time.monotonic() > deadline:
            raise TopicProblem(f"topic {config.topic}: {known.error.str().rstrip('.')}")
        time.sleep(0.1)


def _asked(client: KafkaProducer, config: Asked, within_s: float) -> Any:
    try:
        return client.list_topics(config.topic, timeout=within_s).topics[config.topic]
    except KafkaException as problem:
        raise TopicProblem(
            f"topic {config.topic} could not be validated within {config.topic_timeout_s:g} s: "
            f"{problem.args[0].str().rstrip('.')}"
        ) from None


def _create(config: Asked) -> None:
    try:
        topics.create(
            config.bootstrap, [config.topic], config.partitions, config.replication, {}, config.topic_timeout_s
        )
    except topics.Exists:
        return
    except Problem as problem:
        raise TopicProblem(f"{problem.message} (tried for {config.topic_timeout_s:g} s)") from None
