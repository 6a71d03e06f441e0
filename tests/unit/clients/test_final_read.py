"""The final read: when it begins, how far it reads, and the digests of records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TopicPartition
from msgspec.structs import replace
from pyarrow.parquet import read_table

from ackproof.clients import final_read
from ackproof.clients.final_read import FinalRead, FinalReadConfig, PartitionEnd, digest, settle, why_not_settled
from ackproof.journal.files import sealed_files
from ackproof.journal.seal import seal_all
from ackproof.kafka.protocol.responses import Partition
from ackproof.model.message import MAGIC, MESSAGE


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


def test_the_digest_does_not_depend_on_the_offset() -> None:
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
def test_every_change_of_a_record_changes_its_digest(parts: dict[str, Any]) -> None:
    assert digest(Message(**parts)) != digest(Message())
    assert -(2**63) <= digest(Message(**parts)) < 2**63


def test_a_missing_key_and_an_empty_key_have_different_digests() -> None:
    assert digest(Message(key=None)) != digest(Message(key=b""))


STATE = Partition("orders", 0, None, 1, 3, (1, 2, 3), (1, 2, 3), ())


class Log:
    """A partition that grows between two questions, and a consumer of it."""

    def __init__(self, *ends: int) -> None:
        self._ends = list(ends)
        self._at = 0

    def ends(self, _: FinalReadConfig) -> list[PartitionEnd]:
        end = self._ends.pop(0) if len(self._ends) > 1 else self._ends[0]
        return [PartitionEnd(STATE, 0, end, end)]

    def assign(self, places: list[TopicPartition]) -> None:
        self._at = places[0].offset

    def consume(self, count: int, timeout: float) -> list[Message]:
        del count, timeout
        self._at += 1
        record = {"offset": self._at - 1, "leader_epoch": 3, "error": None, "value": MESSAGE.pack(MAGIC, 0, self._at)}
        return [Message(**record)]

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(places[0].topic, places[0].partition, self._at)]

    def close(self) -> None:
        pass


def config(tmp_path: Path, settle_s: float = 5, full_isr_s: float = 5) -> FinalReadConfig:
    given, least = {"orders": 1}, {"orders": 2}
    page = str(tmp_path / "page")
    return FinalReadConfig(
        7, str(tmp_path), "final-read", "", {}, {"orders": 0}, given, least, [], [], page, settle_s, full_isr_s
    )


def ends(high_watermark: int, log_end: int | None = None, in_sync: int = 3) -> list[PartitionEnd]:
    isr = tuple(range(1, in_sync + 1))
    end = high_watermark if log_end is None else log_end
    return [PartitionEnd(replace(STATE, isr=isr), 0, high_watermark, end)]


@pytest.mark.parametrize(
    ("end", "full", "why"),
    [
        (ends(5), True, None),
        (ends(5, 6), True, "orders/0: the high watermark is 5, the log's end 6"),
        (ends(5, in_sync=2), True, "orders/0: 2 in sync, 3 wanted"),
        (ends(5, in_sync=2), False, None),
        (ends(5, in_sync=1), False, "orders/0: 1 in sync, 2 wanted"),
    ],
)
def test_a_cluster_that_has_not_settled_is_reported_with_the_reason(
    tmp_path: Path, end: list[PartitionEnd], full: bool, why: str | None
) -> None:
    assert why_not_settled(config(tmp_path), end, full) == why


def test_the_final_read_waits_until_the_logs_no_longer_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ["no broker leads orders/0", ends(5, 6), ends(6, in_sync=2), ends(7), ends(7)]
    monkeypatch.setattr(final_read, "partition_ends", lambda _: answers.pop(0))
    found, why = settle(config(tmp_path))
    assert ([end.high_watermark for end in found], why, answers) == ([7], None, [])


def test_after_the_deadline_the_reason_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(final_read, "partition_ends", lambda _: ends(5, in_sync=1))
    assert settle(config(tmp_path, settle_s=0.2)) == (ends(5, in_sync=1), "orders/0: 1 in sync, 3 wanted")
    monkeypatch.setattr(final_read, "partition_ends", lambda _: "no broker leads orders/0")
    assert settle(config(tmp_path, settle_s=0.2)) == ([], "no broker leads orders/0")


def final_read_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: Log) -> dict[str, list[dict[str, Any]]]:
    monkeypatch.setattr(final_read, "partition_ends", log.ends)
    monkeypatch.setattr(final_read, "Consumer", lambda _: log)
    assert FinalRead(config(tmp_path)).run() == 0
    seal_all(tmp_path)
    return {name: read_table(sealed_files(tmp_path, name)[0]).to_pylist() for name in ("log", "ends")}


def test_records_that_are_written_during_the_read_are_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = final_read_of(tmp_path, monkeypatch, Log(5, 5, 8, 9, 9))
    assert [row["offset"] for row in found["log"]] == list(range(9))
    assert [(row["high_watermark"], row["read_to"]) for row in found["ends"]] == [(9, 9)]


def test_a_log_that_does_not_grow_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = final_read_of(tmp_path, monkeypatch, Log(5))
    assert [row["offset"] for row in found["log"]] == list(range(5))
    assert [(row["high_watermark"], row["read_to"]) for row in found["ends"]] == [(5, 5)]
