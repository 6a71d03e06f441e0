"""What the final read makes of a record, beside where it stands."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME

from ackproof.clients.drain import digest


class Message:
    def __init__(self, **parts: Any) -> None:
        self._parts = {
            "key": b"key",
            "value": b"value",
            "headers": [("name", b"text")],
            "timestamp": (TIMESTAMP_CREATE_TIME, 1_700_000_000_000),
            **parts,
        }

    def __getattr__(self, name: str) -> Any:
        return lambda: self._parts[name]


def test_a_digest_is_the_same_wherever_the_record_stands() -> None:
    assert digest(Message(offset=1)) == digest(Message(offset=2)) == 3424146686295218939
    assert digest(Message()) == digest(Message(timestamp=(TIMESTAMP_LOG_APPEND_TIME, 1_700_000_000_000)))
    assert digest(Message(headers=None)) == digest(Message(headers=[]))


@pytest.mark.parametrize(
    "parts",
    [
        {"key": None},
        {"key": b""},
        {"value": b"valuf"},
        {"value": None},
        {"key": b"keyv", "value": b"alue"},
        {"headers": []},
        {"headers": [("name", None)]},
        {"headers": [("name", b"text"), ("name", b"text")]},
        {"headers": [("nam", b"etext")]},
        {"timestamp": (TIMESTAMP_CREATE_TIME, 1_700_000_000_001)},
    ],
)
def test_whatever_is_changed_changes_it(parts: dict[str, Any]) -> None:
    assert digest(Message(**parts)) != digest(Message())
    assert -(2**63) <= digest(Message(**parts)) < 2**63


def test_nothing_and_empty_are_two_things() -> None:
    assert digest(Message(key=None)) != digest(Message(key=b""))
