"""One client shared by several threads: every message is sent once, even if the client's queue is often full."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError

from ackproof.clients.producer.shared_client import SharedClient

COUNT, STRETCH = 2_000, 37


class Client:
    """Accepts at most `room` messages of each batch, and refuses the numbers in `bad` for good."""

    def __init__(self, room: int, bad: frozenset[int] = frozenset()) -> None:
        self.taken: list[int] = []
        self._room = room
        self._bad = bad
        self._lock = threading.Lock()

    def send(self, batch: list[dict[str, Any]]) -> int:
        with self._lock:
            taken = 0
            for place, message in enumerate(batch):
                if place >= self._room:
                    message["_error"] = KafkaError(KafkaError._QUEUE_FULL)
                elif message["seq"] in self._bad:
                    message["_error"] = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
                else:
                    self.taken.append(message["seq"])
                    taken += 1
            return taken


def sent_through(client: Client, threads: int) -> SharedClient:
    numbers = iter([range(first, min(first + STRETCH, COUNT)) for first in range(0, COUNT, STRETCH)])
    shared_client = SharedClient(
        take=lambda: next(numbers, range(0)),
        make=lambda first, last: [{"seq": seq} for seq in range(first, last)],
        send=client.send,
    )
    shared_client.start(threads)
    while shared_client.busy():
        threading.Event().wait(0.001)
    return shared_client


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("room", [5, 1_000])
def test_every_number_is_sent_once(threads: int, room: int) -> None:
    client = Client(room)
    assert list(sent_through(client, threads).refused()) == []
    assert sorted(client.taken) == list(range(COUNT))


@pytest.mark.parametrize("room", [5, 1_000])
def test_a_number_that_is_refused_for_good_is_reported_once(room: int) -> None:
    client = Client(room, bad=frozenset({3, 38, 1_999}))
    refused = list(sent_through(client, 4).refused())
    assert sorted(refused) == [(seq, "MSG_SIZE_TOO_LARGE") for seq in (3, 38, 1_999)]
    assert sorted(client.taken) == sorted(set(range(COUNT)) - {3, 38, 1_999})
