"""The journal: readable at any moment, torn tails in bytes, sealed whole or not at all."""

from __future__ import annotations

import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.journal import writer as journal
from ackproof.journal.writer import Writer, put_together, read_stream, seal_all, seal_stream, sealed_files
from ackproof.model.journal_tables import TABLES
from tests.support.lab_network import in_a_child
from tests.support.small_disk import mount_small_disk


def probes(directory: Path, count: int, name: str = "w") -> Writer:
    writer = Writer(directory, "probes", 7, name)
    for number in range(count):
        writer.add(fault=1, at_ns=count - number, held=True, text=f"row {number}")
        writer.flush()
    return writer


def test_a_stream_is_readable_while_it_grows(tmp_path: Path) -> None:
    writer = probes(tmp_path, 3)
    table, damage = read_stream(writer.path)
    assert (table.num_rows, damage) == (3, None)
    assert set(table.column("run").to_pylist()) == {7}
    writer.close()


def test_rows_that_were_not_flushed_are_not_there_and_flushed_ones_are(tmp_path: Path) -> None:
    writer = probes(tmp_path, 2)
    writer._flushed = float("inf")  # nothing falls due by itself
    writer.add(fault=1, at_ns=1, held=True, text="late")
    assert read_stream(writer.path)[0].num_rows == 2
    writer.flush()
    assert read_stream(writer.path)[0].num_rows == 3
    writer.close()


@pytest.mark.proves("B1", "B2")
def test_every_truncation_gives_whole_rows_and_counts_the_torn_bytes(tmp_path: Path) -> None:
    writer = Writer(tmp_path, "probes", 7, "w")
    ends = []
    for number in range(3):
        writer._flushed = float("inf")  # nothing falls due by itself
        writer.add(fault=1, at_ns=number, held=True, text=f"row {number}")
        writer.flush()
        ends.append(writer.path.stat().st_size)
    writer.close(seal=False)
    whole = writer.path.read_bytes()
    # Nothing is torn where the schema, a batch or the end mark ends, nor of an empty file.
    untorn = [0, TABLES["probes"].schema.serialize().size, *ends, len(whole)]
    assert untorn == sorted(set(untorn))
    for length in range(len(whole) + 1):
        writer.path.write_bytes(whole[:length])
        table, damage = read_stream(writer.path)
        rows = sum(end <= length for end in ends)
        assert table.column("text").to_pylist() == [f"row {number}" for number in range(rows)], length
        torn = length - max(place for place in untorn if place <= length)
        assert (damage and damage.bytes_torn) == (torn or None), length


@pytest.mark.proves("B1")
def test_a_writer_killed_outright_leaves_what_it_flushed(tmp_path: Path) -> None:
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


def test_sealing_sorts_and_takes_the_stream_away(tmp_path: Path) -> None:
    probes(tmp_path, 5).close()
    (path,) = sealed_files(tmp_path, "probes")
    assert pq.read_table(path).column("at_ns").to_pylist() == [1, 2, 3, 4, 5]
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.proves("B3")
@pytest.mark.parametrize("step", ["pyarrow.parquet.ParquetWriter.write_table", "os.fsync", "pathlib.Path.rename"])
def test_a_seal_that_fails_leaves_the_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    writer = probes(tmp_path, 2)
    writer.close(seal=False)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(step, full)
    with pytest.raises(OSError, match="No space"):
        seal_stream(writer.path)
    assert [path.name for path in writer.path.parent.iterdir()] == [writer.path.name]
    assert read_stream(writer.path)[0].num_rows == 2


ROWS = 40


@pytest.mark.proves("B3")
def test_on_a_disk_that_fills_up_every_flushed_row_is_readable(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    def work() -> dict[str, int]:
        mount_small_disk(tmp_path, 512)
        return Counter(_until_full(tmp_path, pages, length) for pages in range(16) for length in range(100, 108))

    ends = in_a_child(work)
    if isinstance(ends, BaseException):
        raise ends
    assert set(ends) == {"writing", "sealing", "sealed"}
    record_property(
        "figure",
        f"disk full at {ends['writing']} places of writing and {ends['sealing']} of sealing: every flushed row read",
    )


def _until_full(disk: Path, pages: int, length: int) -> str:
    """Write rows with text of this length, then seal, with so much room; where that ended."""
    filler, directory, flushed, ended = disk / "filler", disk / "run", 0, "writing"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(disk).free - pages * mmap.PAGESIZE or 1)
    with suppress(OSError):
        writer = Writer(directory, "probes", 1, "w")
        for number in range(ROWS):
            writer.add(fault=1, at_ns=number, held=True, text="x" * length)
            writer.flush()
            flushed += 1
        ended = "sealing"
        writer.close()
        ended = "sealed"
    assert not list(directory.glob("journal/*/.*")), "a file that was not finished stays"
    filler.unlink()
    if flushed:
        seal_all(directory)
        (path,) = sealed_files(directory, "probes")
        numbers = pq.read_table(path).column("at_ns").to_pylist()
        assert numbers[:flushed] == list(range(flushed)), f"{flushed} rows were flushed with {pages} pages of room"
    shutil.rmtree(directory)
    return ended


def test_what_was_torn_is_still_told_after_sealing(tmp_path: Path) -> None:
    writer = probes(tmp_path, 3)
    writer.close(seal=False)
    os.truncate(writer.path, writer.path.stat().st_size - 20)
    (damage,) = seal_all(tmp_path)
    assert damage.bytes_torn > 0
    metadata = pq.read_schema(sealed_files(tmp_path, "probes")[0]).metadata
    assert int(metadata[journal.TORN_BYTES]) == damage.bytes_torn


def test_a_stream_of_another_schema_is_named_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "journal" / "probes"
    folder.mkdir(parents=True)
    path = folder / "w.arrows"
    schema = pa.schema([("other", pa.int32())])
    with path.open("wb") as out, pa.ipc.new_stream(out, schema) as stream:
        stream.write_batch(pa.record_batch([pa.array([1], pa.int32())], schema=schema))
    (damage,) = seal_all(tmp_path)
    assert "another schema" in damage.what
    assert path.exists()


@pytest.mark.proves("B6")
def test_a_stream_of_before_a_column_was_added_is_sealed_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal" / "log" / "w.arrows"
    path.parent.mkdir(parents=True)
    schema = TABLES["log"].older
    assert schema.names == TABLES["log"].schema.names[:-1]
    with path.open("wb") as out, pa.ipc.new_stream(out, schema) as stream:
        stream.write_batch(pa.record_batch([pa.array([1], field.type) for field in schema], schema=schema))
    assert seal_all(tmp_path) == []
    assert pq.read_schema(sealed_files(tmp_path, "log")[0]).names == schema.names


def test_a_column_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    writer = probes(tmp_path, 0)
    with pytest.raises(ValueError, match="no column colour"):
        writer.add(fault=1, at_ns=1, held=True, text="x", colour="red")
    writer.close()


def test_two_writers_of_one_name_do_not_share_a_file(tmp_path: Path) -> None:
    writer = probes(tmp_path, 1)
    with pytest.raises(FileExistsError):
        Writer(tmp_path, "probes", 7, "w")
    writer.close()


@pytest.mark.parametrize("name", TABLES)
def test_every_table_carries_its_run_and_is_sorted_by_columns_it_has(name: str) -> None:
    table = TABLES[name]
    names = [column.name for column in table.columns]
    assert names[0] == "run"
    assert set(table.order) <= set(names)
    assert len(names) == len(set(names))


def test_a_long_stream_is_ended_and_sealed_while_its_writer_goes_on(
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
SMALLER = 1_024  # a thousandth of a week, in streams a thousandth as large


def test_a_week_of_a_quiet_consumer_is_a_few_dozen_files_sealed_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """Ten polls a second with one message each, every one of them a batch."""
    limit = journal.STREAM_BYTES // SMALLER
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
    assert set(at_once) == {1}, "two sealed at once for one writer"
    assert max(sizes) < limit + 2_000, "a stream went on past its limit"
    assert 20 < len(files) < 60
    for limit_of in ("FEW_ROWS", "TOGETHER_ROWS"):
        monkeypatch.setattr(journal, limit_of, getattr(journal, limit_of) // SMALLER)
    put_together(tmp_path)
    fewer = sealed_files(tmp_path, "reads")
    assert len(fewer) < 10
    assert [poll for path in fewer for poll in pq.read_table(path)["poll"].to_pylist()] == list(range(polls))
    record_property(
        "figure",
        f"a week of a consumer with ten polls a second leaves {len(files)} files of reads, from streams of at most "
        f"{journal.STREAM_BYTES * SMALLER >> 20} MiB, and {len(fewer)} in the end",
    )


def test_many_tiny_batches_are_read_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackproof.journal.writer.TOGETHER", 4)
    writer = probes(tmp_path, 11)
    table, damage = read_stream(writer.path)
    assert (table["at_ns"].to_pylist(), damage) == (list(range(11, 0, -1)), None)
    assert table["at_ns"].num_chunks == 2 + 3
    writer.close()


def test_two_who_seal_one_stream_do_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = probes(tmp_path, 3)
    writer.close(seal=False)
    begun, written = threading.Barrier(2), []

    def slowly(table: pa.Table, path: Path, order: tuple[str, ...]) -> None:
        written.append(path.name)
        time.sleep(0.2)
        write_sealed(table, path, order)

    def seal(_: int) -> journal.Damage | None:
        begun.wait()
        return seal_stream(writer.path)

    write_sealed = journal.write_sealed
    monkeypatch.setattr("ackproof.journal.writer.write_sealed", slowly)
    with ThreadPoolExecutor(2) as sealers:
        assert list(sealers.map(seal, range(2))) == [None, None]
    assert written == ["w.parquet"]
    assert [path.name for path in writer.path.parent.iterdir()] == ["w.parquet"]
    assert pq.read_metadata(sealed_files(tmp_path, "probes")[0]).num_rows == 3


def test_a_stream_that_another_sealed_meanwhile_is_sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        probes(tmp_path, 3, name).close(seal=False)
    sealed_here = journal._sealed_here

    def after_another(path: Path, run: Path) -> journal.Damage | None:
        if path.stem == "one":
            seal_stream(path)
        return sealed_here(path, run)

    monkeypatch.setattr("ackproof.journal.writer._sealed_here", after_another)
    assert seal_all(tmp_path) == []
    assert [path.name for path in sealed_files(tmp_path, "probes")] == ["one.parquet", "two.parquet"]


def test_a_stream_that_is_gone_without_its_sealed_file_is_not_taken_for_sealed(tmp_path: Path) -> None:
    writer = probes(tmp_path, 3)
    writer.close(seal=False)
    writer.path.unlink()
    with pytest.raises(FileNotFoundError):
        seal_stream(writer.path)


def rows_of(directory: Path) -> list[tuple[str, int]]:
    tables = [pq.read_table(path).to_pylist() for path in sealed_files(directory, "probes")]
    return sorted((row["text"], row["at_ns"]) for table in tables for row in table)


def sealed_names(directory: Path) -> list[str]:
    return [path.name.removesuffix(".parquet") for path in sealed_files(directory, "probes")]


def test_neighbours_of_few_rows_become_one_sorted_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbours by the numbers in their names, and never past a large one: a consumer's reads stay in their order."""
    monkeypatch.setattr("ackproof.journal.writer.FEW_ROWS", 5)
    monkeypatch.setattr("ackproof.journal.writer.TOGETHER_ROWS", 10)
    for name, rows in {"w1": 4, "w1.2": 3, "w1.3": 5, "w1.10": 4, "w2": 4, "w10": 3, "w11": 2}.items():
        probes(tmp_path, rows, name).close()
    before = rows_of(tmp_path)
    put_together(tmp_path)
    assert sealed_names(tmp_path) == ["w1+w1.2", "w1.3", "w1.10+w2", "w10+w11"]
    assert len(list(tmp_path.rglob("*.parquet"))) == 4, "the others are gone"
    assert rows_of(tmp_path) == before
    times = pq.read_table(sealed_files(tmp_path, "probes")[0])["at_ns"].to_pylist()
    assert times == sorted(times)
    assert not any(map(journal.differs_from_checksum, sealed_files(tmp_path, "probes")))


@pytest.mark.proves("B1")
@pytest.mark.parametrize("at", ["rename", "unlink"])
def test_no_row_is_there_twice_when_putting_together_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    for name in ("one", "three", "two"):
        probes(tmp_path, 3, name).close()
    before = rows_of(tmp_path)

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, at, killed)
        with pytest.raises(KeyboardInterrupt):
            put_together(tmp_path)
    assert rows_of(tmp_path) == before
    assert sealed_names(tmp_path) == (["one", "three", "two"] if at == "rename" else ["one+two"])
    assert seal_all(tmp_path) == []  # as whoever judges it does
    assert rows_of(tmp_path) == before
    assert len(list(tmp_path.rglob("*.parquet"))) == (3 if at == "rename" else 1)
    probes(tmp_path, 2, "zero").close()
    put_together(tmp_path)
    assert sealed_names(tmp_path) == ["one+zero"]
    assert len(rows_of(tmp_path)) == 3 * 3 + 2


def test_what_is_torn_or_damaged_stays_by_itself(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "e", "f"):
        probes(tmp_path, 3, name).close()
    torn = probes(tmp_path, 3, "d")
    torn.close(seal=False)
    os.truncate(torn.path, torn.path.stat().st_size - 20)
    assert [damage.path.stem for damage in seal_all(tmp_path)] == ["d"]
    b = tmp_path / "journal" / "probes" / "b.parquet"
    b.write_bytes(b.read_bytes()[:-30])
    put_together(tmp_path)
    assert sealed_names(tmp_path) == ["a", "b", "c", "d", "e+f"]


def test_nothing_is_put_together_while_a_stream_may_yet_come_between(tmp_path: Path) -> None:
    """It would be taken for one that was put together with the others, and be taken away."""
    for name in ("a", "b", "c"):
        writer = Writer(tmp_path, "probes", 7, name)
        writer.add(fault=1, at_ns=2, held=True, text=name)
        writer.close(seal=name != "b")
    put_together(tmp_path)
    seal_all(tmp_path)
    assert [path.stem for path in sealed_files(tmp_path, "probes")] == ["a", "b", "c"]
    put_together(tmp_path)
    assert [path.stem for path in sealed_files(tmp_path, "probes")] == ["a+c"]


def test_without_room_for_it_nothing_is_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        probes(tmp_path, 3, name).close()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    put_together(tmp_path)
    assert sealed_names(tmp_path) == ["one", "two"]
    assert len(list((tmp_path / "journal" / "probes").iterdir())) == 2


def test_an_event_of_a_base_scenario_costs_at_most_twelve_bytes(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """At a hundredth of a base scenario's messages, and with no two times alike, so that little can be left out."""
    lots, count = random.Random(1), 1_000  # noqa: S311 - the same times every time
    numbers = list(range(count))
    due = [10**12 + number * 20_000 for number in numbers]
    sent = [at + lots.randrange(1_000_000) for at in due]
    done = [at + lots.randrange(20_000_000) for at in sent]
    fixed: dict[str, list[Any]] = {"producer": [0] * count, "topic": [0] * count, "partition": [0] * count}
    rows: dict[str, dict[str, list[Any]]] = {
        "sends": {"due_ns": due, "sent_ns": sent, "done_ns": done, "outcome": ["ok"] * count},
        "log": {"leader_epoch": [0] * count},
    }
    for name, own in rows.items():
        writer = Writer(tmp_path, name, 1_700_000_000_000_000, name)
        writer.add_columns({**fixed, **own, "seq": numbers, "offset": numbers})
        writer.close()
    each = sum(sealed_files(tmp_path, name)[0].stat().st_size for name in rows) / (2 * count)
    assert each <= 12
    record_property("figure", f"{each:.1f} bytes for each of {2 * count:,} events, no two times alike")


def test_a_sealed_file_tells_its_schema_once(tmp_path: Path) -> None:
    """Arrow's own words for the schema were a third of it."""
    probes(tmp_path, 1).close()
    (path,) = sealed_files(tmp_path, "probes")
    found = pq.read_schema(path)
    assert found.equals(TABLES["probes"].schema)
    assert found.metadata == {b"ackproof.schema": b"1", b"ackproof.table": b"probes"}
    assert b"ARROW:schema" not in pq.read_metadata(path).metadata


def test_what_rises_is_kept_as_differences(tmp_path: Path) -> None:
    writer = Writer(tmp_path, "probes", 7, "observer")
    writer.add(fault=1, at_ns=1_000, held=True, text="held")
    writer.close()
    group = pq.read_metadata(sealed_files(tmp_path, "probes")[0]).row_group(0)
    found = {group.column(place).path_in_schema: group.column(place).encodings for place in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in found["at_ns"]
    assert "DELTA_BINARY_PACKED" not in found["run"]
