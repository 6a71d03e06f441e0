"""Asks librdkafka whether it accepts a scenario's settings: a client is made, and never connects.

A client loads the libraries and reads the files that its settings name as soon as it is made. A check of a scenario
must not do that. So for such a setting only the name is tried, and then the others are not tried together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

from ackproof.kafka.client_settings import Value, kafka_settings
from ackproof.model.scenario import Scenario
from ackproof.scenario.executes import may_load


def refused(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield the place of each setting that librdkafka refuses, and its own words."""
    for number, producer in enumerate(scenario.producers):
        where = f"producers.{number}.settings"
        yield from _asked(where, kafka_settings(producer.settings), lambda given: Producer({"log_level": 0, **given}))
    for number, consumer in enumerate(scenario.consumers):
        where = f"consumers.{number}.settings"
        yield from _asked(where, kafka_settings(consumer.settings), _make_consumer)


def _make_consumer(given: Mapping[str, Value]) -> None:
    Consumer({"log_level": 0, "group.id": "check", **given}).close()


def _asked(where: str, settings: Mapping[str, Value], make: Any) -> Iterator[tuple[str, str]]:
    """Try each setting alone, then all together: some are refused only in combination."""
    loading = {key for key in settings if may_load(key)}
    tried = {key: "" if key in loading else value for key, value in settings.items()}
    wrong = [(key, words) for key, value in tried.items() if (words := _words(make, {key: value}))]
    for key, words in wrong:
        yield f"{where}.{key}", f"{key}: {words}"
    if not wrong and not loading and (words := _words(make, settings)):
        yield where, words


def _words(make: Any, settings: Mapping[str, Value]) -> str | None:
    try:
        make(dict(settings))
    except (KafkaException, TypeError, ValueError) as problem:
        error = problem.args[0]
        return str(error.str() if hasattr(error, "str") else error).rstrip(".")
    return None
