"""A producer's topic before its first message, where no cluster answers: one sentence, within its time."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pytest
from confluent_kafka import Producer

from ackproof.clients.topic_check import TopicProblem, check_topic


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
