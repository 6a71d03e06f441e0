"""Whether a mirror has caught up, with fake clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from ackproof.clients import mirror_probe as mirror
from ackproof.clients.mirror_probe import Pair, behind

PAIR = Pair("dc1", "orders", "dc2", "dc1.orders", 0)


class Message:
    def __init__(self, value: bytes | None) -> None:
        self._value = value

    def error(self) -> None:
        return None

    def key(self) -> bytes:
        return b"key"

    def value(self) -> bytes | None:
        return self._value


class Log:
    """A client of one partition that holds these records, by offset, up to `end`. A silent client returns no record."""

    def __init__(self, records: Mapping[int, bytes | None], end: int, start: int = 0, silent: bool = False) -> None:
        self._records, self._end, self._start, self._silent = records, end, start, silent
        self._at = -1

    def get_watermark_offsets(self, _: TopicPartition, timeout: float) -> tuple[int, int]:
        return self._start, self._end

    def assign(self, places: list[TopicPartition]) -> None:
        self._at = places[0].offset

    def poll(self, _: float) -> Message | None:
        if self._silent:
            return None
        while self._at < self._end:
            self._at += 1
            if self._at - 1 in self._records:
                return Message(self._records[self._at - 1])
        return None

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(places[0].topic, places[0].partition, self._at)]

    def close(self) -> None:
        pass


def caught_up(monkeypatch: pytest.MonkeyPatch, own: Log, other: Log) -> bool:
    sites: dict[str, Any] = {"dc1": own, "dc2": other}
    monkeypatch.setattr(mirror, "_client", lambda bootstrap, _: sites[bootstrap])
    monkeypatch.setattr(mirror, "ANSWER_S", 0.02)
    return behind([PAIR], 0.0) == []


def test_the_last_records_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    log = {0: b"a", 1: b"b"}
    assert caught_up(monkeypatch, Log(log, 2), Log({7: b"a", 8: b"b"}, 9))
    assert not caught_up(monkeypatch, Log(log, 2), Log({0: b"a"}, 1))


def test_two_empty_partitions_end_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    assert caught_up(monkeypatch, Log({}, 0), Log({}, 5, start=5))


def test_silence_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    log = {0: b"a"}
    assert not caught_up(monkeypatch, Log(log, 1, silent=True), Log(log, 1, silent=True))
    assert not caught_up(monkeypatch, Log(log, 1, silent=True), Log({}, 0))


def test_the_last_record_is_found_behind_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred markers follow the last record."""
    assert caught_up(monkeypatch, Log({3: b"a"}, 104), Log({0: b"a"}, 1))
    assert not caught_up(monkeypatch, Log({3: b"a"}, 104), Log({}, 0))
    assert caught_up(monkeypatch, Log({}, 104), Log({}, 0))  # every transaction was aborted


def test_a_tombstone_is_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not caught_up(monkeypatch, Log({0: None}, 1), Log({}, 0))
