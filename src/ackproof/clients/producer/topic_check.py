"""Validates or creates a producer's topic before its first message, or assumes that it exists."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as KafkaProducer

from ackproof.clients.producer.config import ProducerConfig
from ackproof.core.errors import Problem
from ackproof.kafka import admin as topics

# These errors pass: a new topic has no leader yet, and some brokers do not know it yet.
TEMPORARY = {
    "validate": (KafkaError.LEADER_NOT_AVAILABLE,),
    "create": (KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART),
}


class TopicProblem(Exception):
    """Says in one sentence that the topic could not be validated or created in time."""

    exit_code = 69  # "unavailable"


def check_topic(client: KafkaProducer, config: ProducerConfig) -> int:
    """How many partitions the topic has; 0 if the producer only assumes that it exists."""
    if config.topic_check == "assume":
        return 0
    deadline = time.monotonic() + config.topic_timeout_s
    if config.topic_check == "create":
        _create(config)
    while True:
        known = _metadata(client, config, max(0.1, deadline - time.monotonic()))
        if known.error is None:
            return len(known.partitions)
        if known.error.code() not in TEMPORARY[config.topic_check] or time.monotonic() > deadline:
            raise TopicProblem(f"topic {config.topic}: {known.error.str().rstrip('.')}")
        time.sleep(0.1)


def _metadata(client: KafkaProducer, config: ProducerConfig, within_s: float) -> Any:
    try:
        return client.list_topics(config.topic, timeout=within_s).topics[config.topic]
    except KafkaException as problem:
        raise TopicProblem(
            f"topic {config.topic} could not be validated within {config.topic_timeout_s:g} s: "
            f"{problem.args[0].str().rstrip('.')}"
        ) from None


def _create(config: ProducerConfig) -> None:
    try:
        topics.create(
            config.bootstrap, [config.topic], config.partitions, config.replication, {}, config.topic_timeout_s
        )
    except topics.Exists:
        return
    except Problem as problem:
        raise TopicProblem(f"{problem.message} (tried for {config.topic_timeout_s:g} s)") from None
