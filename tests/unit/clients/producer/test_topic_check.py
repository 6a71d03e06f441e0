"""The check of a producer's topic before its first message: within its timeout, and with one sentence on failure."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from confluent_kafka import KafkaError, Producer

from ackproof.clients.producer.config import ProducerConfig
from ackproof.clients.producer.topic_check import TopicProblem, check_topic
from ackproof.kafka import admin as topics


def config(how: Literal["validate", "create", "assume"], bootstrap: str, timeout_s: float = 1.0) -> ProducerConfig:
    return ProducerConfig(
        run=1, directory="", id=0, name="producer1", topic="orders", topic_id=0, bootstrap=bootstrap, count=1,
        rate=None, acks="all", size=16, keys=None, print=False, go="", progress="", flush_s=1, topic_check=how,
        topic_timeout_s=timeout_s,
    )  # fmt: skip


@pytest.fixture
def silent_address() -> Iterator[str]:
    """An address on which no process listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


@pytest.mark.parametrize(("how", "words"), [("validate", "could not be validated"), ("create", "was not created")])
def test_a_cluster_that_does_not_answer_is_one_sentence(
    how: Literal["validate", "create"], words: str, silent_address: str
) -> None:
    client = Producer({"bootstrap.servers": silent_address, "log_level": 0})
    with pytest.raises(TopicProblem, match=words) as caught:
        check_topic(client, config(how, silent_address))
    assert "topic orders" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_topic_that_is_assumed_is_not_asked_for(silent_address: str) -> None:
    assert (
        check_topic(Producer({"bootstrap.servers": silent_address, "log_level": 0}), config("assume", silent_address))
        == 0
    )


class Answers:
    """A client whose broker gives these answers; the last one is repeated."""

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
def test_the_check_waits_for_a_new_topic(
    how: Literal["validate", "create"], codes: tuple[int | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "create", lambda *_: None)
    assert check_topic(Answers(*codes), config(how, "")) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("codes", "within_s"), [((UNKNOWN, None), 1.0), ((NO_LEADER,), 0.3)], ids=["does not exist", "has no leader"]
)
def test_a_topic_that_does_not_exist_or_has_no_leader_is_a_problem(
    codes: tuple[int | None, ...], within_s: float
) -> None:
    with pytest.raises(TopicProblem, match="topic orders: Broker:"):
        check_topic(Answers(*codes), config("validate", "", within_s))  # type: ignore[arg-type]
