"""What the final read makes of a record, beside where it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TopicPartition
from msgspec.structs import replace
from pyarrow.parquet import read_table

from ackproof.clients import final_read as drain
from ackproof.clients.final_read import Drain, DrainConfig, End, digest, missing, settle
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


SAID = Partition("orders", 0, None, 1, 3, (1, 2, 3), (1, 2, 3), ())


class Log:
    """A partition that has grown by the time it is asked again, and a consumer of it."""

    def __init__(self, *ends: int) -> None:
        self._ends = list(ends)
        self._at = 0

    def ends(self, _: DrainConfig) -> list[End]:
        end = self._ends.pop(0) if len(self._ends) > 1 else self._ends[0]
        return [End(SAID, 0, end, end)]

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


def config(tmp_path: Path, settle_s: float = 5, full_isr_s: float = 5) -> DrainConfig:
    given, least = {"orders": 1}, {"orders": 2}
    page = str(tmp_path / "page")
    return DrainConfig(
        7, str(tmp_path), "final-read", "", {}, {"orders": 0}, given, least, [], [], page, settle_s, full_isr_s
    )


def said(high_watermark: int, log_end: int | None = None, in_sync: int = 3) -> list[End]:
    isr = tuple(range(1, in_sync + 1))
    end = high_watermark if log_end is None else log_end
    return [End(replace(SAID, isr=isr), 0, high_watermark, end)]


@pytest.mark.parametrize(
    ("end", "full", "lack"),
    [
        (said(5), True, None),
        (said(5, 6), True, "orders/0: the high watermark is 5, the log's end 6"),
        (said(5, in_sync=2), True, "orders/0: 2 in sync, 3 wanted"),
        (said(5, in_sync=2), False, None),
        (said(5, in_sync=1), False, "orders/0: 1 in sync, 2 wanted"),
    ],
)
def test_what_is_missing_for_the_final_read_is_named(
    tmp_path: Path, end: list[End], full: bool, lack: str | None
) -> None:
    assert missing(config(tmp_path), end, full) == lack


def test_the_final_read_waits_until_logs_stand_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ["no broker leads orders/0", said(5, 6), said(6, in_sync=2), said(7), said(7)]
    monkeypatch.setattr(drain, "ends", lambda _: answers.pop(0))
    found, lack = settle(config(tmp_path))
    assert ([end.high_watermark for end in found], lack, answers) == ([7], None, [])


def test_what_is_still_missing_when_time_is_up_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "ends", lambda _: said(5, in_sync=1))
    assert settle(config(tmp_path, settle_s=0.2)) == (said(5, in_sync=1), "orders/0: 1 in sync, 3 wanted")
    monkeypatch.setattr(drain, "ends", lambda _: "no broker leads orders/0")
    assert settle(config(tmp_path, settle_s=0.2)) == ([], "no broker leads orders/0")


def drained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: Log) -> dict[str, list[dict[str, Any]]]:
    monkeypatch.setattr(drain, "ends", log.ends)
    monkeypatch.setattr(drain, "Consumer", lambda _: log)
    assert Drain(config(tmp_path)).run() == 0
    seal_all(tmp_path)
    return {name: read_table(sealed_files(tmp_path, name)[0]).to_pylist() for name in ("log", "ends")}


def test_what_is_written_while_the_log_is_read_is_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = drained(tmp_path, monkeypatch, Log(5, 5, 8, 9, 9))
    assert [row["offset"] for row in found["log"]] == list(range(9))
    assert [(row["high_watermark"], row["read_to"]) for row in found["ends"]] == [(9, 9)]


def test_a_log_that_stands_still_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = drained(tmp_path, monkeypatch, Log(5))
    assert [row["offset"] for row in found["log"]] == list(range(5))
    assert [(row["high_watermark"], row["read_to"]) for row in found["ends"]] == [(5, 5)]
