"""The audit log of a lab."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ackproof.lab.audit_log import Events


def test_events_are_read_back_in_order_without_empty_facts(tmp_path: Path) -> None:
    events = Events(tmp_path / "events.jsonl")
    events.add("asked", verb="cut", by_pid=None)
    events.add("proved", targets=["kafka1", "kafka2"])
    first, second = events.read()
    assert (first["event"], first["verb"], "by_pid" in first) == ("asked", "cut", False)
    assert second["targets"] == ["kafka1", "kafka2"]
    assert first["at_ns"] <= second["at_ns"]


def test_an_audit_log_without_a_file_is_empty(tmp_path: Path) -> None:
    assert Events(tmp_path / "none").read() == []


def test_an_unfinished_line_is_left_for_the_next_read(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    Events(path).add("ready")
    with path.open("ab") as trail:
        trail.write(b'{"event": "hal')
    assert [event["event"] for event in Events(path).read()] == ["ready"]


def test_hostile_text_stays_one_line(tmp_path: Path) -> None:
    events = Events(tmp_path / "events.jsonl")
    events.add("asked", asked='cut "\n{"event": "forged"}\n\x1b[2J \u2028')
    assert [event["event"] for event in events.read()] == ["asked"]


def test_many_writers_at_once_lose_no_event(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: Events(path).add("asked", number=number, padding="x" * 500), range(200)))
    assert sorted(event["number"] for event in Events(path).read()) == list(range(200))


@pytest.mark.proves("F4")
def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    before = os.umask(0)
    try:
        Events(path).add("ready")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
