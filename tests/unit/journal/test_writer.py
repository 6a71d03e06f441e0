"""The writer: rows reach the file when they are flushed, and long streams are sealed while it continues."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ackproof.journal import compaction
from ackproof.journal.compaction import merge_small_files
from ackproof.journal.files import sealed_files
from ackproof.journal.seal import seal_all
from ackproof.journal.stream import read_stream
from ackproof.journal.writer import STREAM_BYTES, Writer
from tests.support.journal_rows import write_probes


def test_a_stream_is_readable_while_it_grows(tmp_path: Path) -> None:
    writer = write_probes(tmp_path, 3)
    table, damage = read_stream(writer.path)
    assert (table.num_rows, damage) == (3, None)
    assert set(table.column("run").to_pylist()) == {7}
    writer.close()


def test_only_flushed_rows_are_in_the_file(tmp_path: Path) -> None:
    writer = write_probes(tmp_path, 2)
    writer._flushed = float("inf")  # no flush becomes due
    writer.add(fault=1, at_ns=1, held=True, text="late")
    assert read_stream(writer.path)[0].num_rows == 2
    writer.flush()
    assert read_stream(writer.path)[0].num_rows == 3
    writer.close()


@pytest.mark.proves("B1")
def test_a_killed_writer_leaves_its_flushed_rows(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from ackproof.journal.writer import Writer\n"
        "w = Writer(Path(sys.argv[1]), 'probes', 1, 'w')\n"
        "for n in range(100): w.add(fault=1, at_ns=n, held=True, text='x'); w.flush()\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert seal_all(tmp_path) == []
    assert pq.read_table(sealed_files(tmp_path, "probes")[0]).num_rows == 100


def test_a_column_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    writer = write_probes(tmp_path, 0)
    with pytest.raises(ValueError, match="no column colour"):
        writer.add(fault=1, at_ns=1, held=True, text="x", colour="red")
    writer.close()


def test_two_writers_of_one_name_do_not_share_a_file(tmp_path: Path) -> None:
    writer = write_probes(tmp_path, 1)
    with pytest.raises(FileExistsError):
        Writer(tmp_path, "probes", 7, "w")
    writer.close()


def test_a_long_stream_is_ended_and_sealed_while_its_writer_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ackproof.journal.writer.STREAM_BYTES", 4_000)
    writer = Writer(tmp_path, "probes", 7, "observer")
    for first in range(0, 170, 10):
        numbers = list(range(first, first + 10))
        row: dict[str, list[Any]] = {"fault": [1] * 10, "at_ns": numbers, "held": [True] * 10, "text": ["held"] * 10}
        writer.add_columns(row)
    writer.close()
    files = sealed_files(tmp_path, "probes")
    assert [path.name for path in files] == [f"observer{number}.parquet" for number in ("", ".2", ".3", ".4")]
    assert [pq.read_metadata(path).num_rows for path in files] == [50, 50, 50, 20]
    assert sorted(at for path in files for at in pq.read_table(path)["at_ns"].to_pylist()) == list(range(170))
    assert not list(tmp_path.rglob("*.arrows"))


WEEK = 7 * 24 * 3600
SMALLER = 1_024  # the test takes a thousandth of a week, in streams of a thousandth of the size


def test_a_week_of_a_slow_consumer_makes_a_few_dozen_files_that_are_sealed_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """The consumer polls ten times a second. Each poll returns one message and makes one batch."""
    limit = STREAM_BYTES // SMALLER
    monkeypatch.setattr("ackproof.journal.writer.STREAM_BYTES", limit)
    started: list[subprocess.Popen[bytes]] = []
    at_once: list[int] = []
    sizes: list[int] = []

    def start(command: list[str]) -> subprocess.Popen[bytes]:
        at_once.append(1 + sum(child.poll() is None for child in started))
        sizes.extend(Path(path).stat().st_size for path in command[4:])
        started.append(popen(command))
        return started[-1]

    popen = subprocess.Popen
    monkeypatch.setattr("subprocess.Popen", start)
    polls = WEEK * 10 // SMALLER
    writer = Writer(tmp_path, "reads", 7, "consumer1")
    one = {"consumer": [0], "group": [0], "topic": [0], "partition": [0], "producer": [0], "assignment": [1]}
    for poll in range(polls):
        writer.add_columns({**one, "offset": [poll], "seq": [poll], "read_ns": [poll * 10**8], "poll": [poll]})
    writer.close()
    files = sealed_files(tmp_path, "reads")
    assert sum(pq.read_metadata(path).num_rows for path in files) == polls
    assert set(at_once) == {1}, "two sealers of one writer ran at once"
    assert max(sizes) < limit + 2_000, "a stream exceeded its limit"
    assert 20 < len(files) < 60
    for limit_of in ("FEW_ROWS", "MERGED_ROWS_MOST"):
        monkeypatch.setattr(compaction, limit_of, getattr(compaction, limit_of) // SMALLER)
    merge_small_files(tmp_path)
    fewer = sealed_files(tmp_path, "reads")
    assert len(fewer) < 10
    assert [poll for path in fewer for poll in pq.read_table(path)["poll"].to_pylist()] == list(range(polls))
    record_property(
        "figure",
        f"a week of a consumer with ten polls a second leaves {len(files)} files of reads, from streams of at most "
        f"{STREAM_BYTES >> 20} MiB, and {len(fewer)} in the end",
    )
