"""A producer's topic before its first message, where no cluster answers: one sentence, within its time."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from confluent_kafka import KafkaError, Producer

from ackproof.clients.producer.topic_check import TopicProblem, check_topic
from ackproof.kafka import admin as topics


@dataclass
class Asked:
    topic_check: Literal["validate", "create", "assume"]
    bootstrap: str
    topic: str = "orders"
    topic_timeout_s: float = 1.0
    partitions: int = 1
    replication: int = 1


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address that is ours, and where nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


@pytest.mark.parametrize(("how", "words"), [("validate", "could not be validated"), ("create", "was not created")])
def test_a_dead_cluster_is_one_sentence(how: Literal["validate", "create"], words: str, nobody: str) -> None:
    client = Producer({"bootstrap.servers": nobody, "log_level": 0})
    with pytest.raises(TopicProblem, match=words) as caught:
        check_topic(client, Asked(how, nobody))
    assert "topic orders" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_assumed_is_not_asked_for(nobody: str) -> None:
    assert check_topic(Producer({"bootstrap.servers": nobody, "log_level": 0}), Asked("assume", nobody)) == 0


class Told:
    """A client whose broker gives these answers, the last again and again."""

    def __init__(self, *codes: int | None) -> None:
        self._codes = list(codes)

    def list_topics(self, topic: str, timeout: float) -> Any:
        assert timeout > 0
        code = self._codes.pop(0) if len(self._codes) > 1 else self._codes[0]
        known = SimpleNamespace(error=None if code is None else KafkaError(code), partitions={0: "", 1: ""})
        return SimpleNamespace(topics={topic: known})


NO_LEADER, UNKNOWN = KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("how", "codes"),
    [("validate", (None,)), ("validate", (NO_LEADER, None)), ("create", (UNKNOWN, NO_LEADER, None))],
)
def test_a_topic_that_was_just_made_is_waited_for(
    how: Literal["validate", "create"], codes: tuple[int | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "create", lambda *_: None)
    assert check_topic(Told(*codes), Asked(how, "")) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("codes", "within_s"), [((UNKNOWN, None), 1.0), ((NO_LEADER,), 0.3)], ids=["not there", "never led"]
)
def test_a_topic_that_is_not_there_or_never_led_is_a_problem(codes: tuple[int | None, ...], within_s: float) -> None:
    with pytest.raises(TopicProblem, match="topic orders: Broker:"):
        check_topic(Told(*codes), Asked("validate", "", topic_timeout_s=within_s))  # type: ignore[arg-type]
