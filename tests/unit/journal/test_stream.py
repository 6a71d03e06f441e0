"""Reading a stream: whole batches, and torn tails in bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.journal.stream import is_from_crash, read_stream
from ackproof.journal.writer import Writer
from ackproof.model.journal_tables import TABLES
from tests.support.journal_rows import write_probes


@pytest.mark.proves("B1", "B2")
def test_after_any_truncation_the_whole_rows_are_read_and_the_torn_bytes_are_counted(tmp_path: Path) -> None:
    writer = Writer(tmp_path, "probes", 7, "w")
    ends = []
    for number in range(3):
        writer._flushed = float("inf")  # no flush becomes due
        writer.add(fault=1, at_ns=number, held=True, text=f"row {number}")
        writer.flush()
        ends.append(writer.path.stat().st_size)
    writer.close(seal=False)
    whole = writer.path.read_bytes()
    # Nothing is torn if the file ends after the schema, a batch or the end mark, or if it is empty.
    untorn = [0, TABLES["probes"].schema.serialize().size, *ends, len(whole)]
    assert untorn == sorted(set(untorn))
    for length in range(len(whole) + 1):
        writer.path.write_bytes(whole[:length])
        table, damage = read_stream(writer.path)
        rows = sum(end <= length for end in ends)
        assert table.column("text").to_pylist() == [f"row {number}" for number in range(rows)], length
        torn = length - max(place for place in untorn if place <= length)
        assert (damage and damage.bytes_torn) == (torn or None), length


def test_many_tiny_batches_are_read_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackproof.journal.stream.BATCHES_AT_ONCE", 4)
    writer = write_probes(tmp_path, 11)
    table, damage = read_stream(writer.path)
    assert (table["at_ns"].to_pylist(), damage) == (list(range(11, 0, -1)), None)
    assert table["at_ns"].num_chunks == 2 + 3
    writer.close()


@pytest.mark.parametrize(
    ("what", "crash"),
    [
        ("Expected to be able to read 8 bytes", True),
        ("Expected to be able to read 8 bytes; no crash can cause this", False),
        ("Expected to be able to read 8 bytes; no crash leaves that", False),  # sealed by version 0.1
        ("it is of another schema than this version knows", False),  # the same
    ],
)
def test_damage_that_no_crash_can_cause_is_corruption_also_in_the_words_of_an_older_version(
    what: str, crash: bool
) -> None:
    assert is_from_crash(what) == crash
