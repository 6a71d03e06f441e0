"""A seek waits at the log's end only if the client reports that end, never because this process was stopped."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition

from ackproof.clients import seek as seeking
from ackproof.clients.seek import ANSWER_S, POLL_S, SeekRequest, seek

REQUEST = SeekRequest("nowhere", "orders", 0, "offset", 3, "earliest")


@pytest.mark.parametrize(
    ("stopped_s", "answers_at", "landed"),
    [(0.0, 5, 3), (9 * ANSWER_S, 5, 3), (0.0, None, None), (9 * ANSWER_S, None, None)],
)
def test_a_process_that_was_stopped_has_not_waited_for_kafka(
    monkeypatch: pytest.MonkeyPatch, stopped_s: float, answers_at: int | None, landed: int | None
) -> None:
    now, polls = 0.0, 0

    class Client:
        def __init__(self, _: dict[str, Any]) -> None: ...

        def get_watermark_offsets(self, _: TopicPartition, timeout: float) -> tuple[int, int]:
            return 0, 9

        def assign(self, _: list[TopicPartition]) -> None: ...

        def poll(self, wait_s: float) -> Message | None:
            """The process is stopped during its second poll."""
            nonlocal now, polls
            now += wait_s + (stopped_s if polls == 1 else 0.0)
            polls += 1
            return Message(topic="orders", partition=0, offset=3) if polls == answers_at else None

        def close(self) -> None: ...

    monkeypatch.setattr(seeking, "Consumer", Client)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    found = seek(REQUEST)
    assert (found.offset, found.error) == (landed, None if answers_at else "_TIMED_OUT")
    assert polls == answers_at or polls >= ANSWER_S / POLL_S
