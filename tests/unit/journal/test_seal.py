"""Sealing: sorted, whole or not at all, and once."""

from __future__ import annotations

import mmap
import os
import random
import shutil
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

from ackproof.journal import seal
from ackproof.journal.files import sealed_files
from ackproof.journal.seal import TORN_BYTES, seal_all, seal_stream
from ackproof.journal.stream import Damage, read_stream
from ackproof.journal.writer import Writer
from ackproof.model.journal_tables import TABLES
from tests.support.journal_rows import write_probes
from tests.support.lab_network import in_a_child
from tests.support.small_disk import mount_small_disk


def test_sealing_sorts_the_rows_and_deletes_the_stream(tmp_path: Path) -> None:
    write_probes(tmp_path, 5).close()
    (path,) = sealed_files(tmp_path, "probes")
    assert pq.read_table(path).column("at_ns").to_pylist() == [1, 2, 3, 4, 5]
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.proves("B3")
@pytest.mark.parametrize("step", ["pyarrow.parquet.ParquetWriter.write_table", "os.fsync", "pathlib.Path.rename"])
def test_a_failed_seal_leaves_the_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    writer = write_probes(tmp_path, 2)
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
def test_every_flushed_row_is_readable_after_the_disk_fills_up(
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
        f"disk full at {ends['writing']} places while writing and {ends['sealing']} while sealing: "
        "every flushed row read",
    )


def _until_full(disk: Path, pages: int, length: int) -> str:
    """Write rows with texts of this length, then seal, on a disk with this many free pages. Return where that ended."""
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
    assert not list(directory.glob("journal/*/.*")), "an unfinished file is left"
    filler.unlink()
    if flushed:
        seal_all(directory)
        (path,) = sealed_files(directory, "probes")
        numbers = pq.read_table(path).column("at_ns").to_pylist()
        assert numbers[:flushed] == list(range(flushed)), f"{flushed} rows were flushed with {pages} free pages"
    shutil.rmtree(directory)
    return ended


def test_the_sealed_file_records_the_torn_bytes_of_its_stream(tmp_path: Path) -> None:
    writer = write_probes(tmp_path, 3)
    writer.close(seal=False)
    os.truncate(writer.path, writer.path.stat().st_size - 20)
    (damage,) = seal_all(tmp_path)
    assert damage.bytes_torn > 0
    metadata = pq.read_schema(sealed_files(tmp_path, "probes")[0]).metadata
    assert int(metadata[TORN_BYTES]) == damage.bytes_torn


def test_a_stream_with_an_unknown_schema_is_reported_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "journal" / "probes"
    folder.mkdir(parents=True)
    path = folder / "w.arrows"
    schema = pa.schema([("other", pa.int32())])
    with path.open("wb") as out, pa.ipc.new_stream(out, schema) as stream:
        stream.write_batch(pa.record_batch([pa.array([1], pa.int32())], schema=schema))
    (damage,) = seal_all(tmp_path)
    assert "does not know its schema" in damage.what
    assert path.exists()


@pytest.mark.proves("B6")
def test_a_stream_from_before_a_column_was_added_is_sealed_without_that_column(tmp_path: Path) -> None:
    path = tmp_path / "journal" / "log" / "w.arrows"
    path.parent.mkdir(parents=True)
    schema = TABLES["log"].older
    assert schema.names == TABLES["log"].schema.names[:-1]
    with path.open("wb") as out, pa.ipc.new_stream(out, schema) as stream:
        stream.write_batch(pa.record_batch([pa.array([1], field.type) for field in schema], schema=schema))
    assert seal_all(tmp_path) == []
    assert pq.read_schema(sealed_files(tmp_path, "log")[0]).names == schema.names


def test_two_sealers_of_one_stream_seal_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = write_probes(tmp_path, 3)
    writer.close(seal=False)
    begun, written = threading.Barrier(2), []

    def slowly(table: pa.Table, path: Path, order: tuple[str, ...]) -> None:
        written.append(path.name)
        time.sleep(0.2)
        write_sealed(table, path, order)

    def seal_together(_: int) -> Damage | None:
        begun.wait()
        return seal_stream(writer.path)

    write_sealed = seal.write_sealed
    monkeypatch.setattr(seal, "write_sealed", slowly)
    with ThreadPoolExecutor(2) as sealers:
        assert list(sealers.map(seal_together, range(2))) == [None, None]
    assert written == ["w.parquet"]
    assert [path.name for path in writer.path.parent.iterdir()] == ["w.parquet"]
    assert pq.read_metadata(sealed_files(tmp_path, "probes")[0]).num_rows == 3


def test_a_stream_that_another_process_sealed_counts_as_sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        write_probes(tmp_path, 3, name).close(seal=False)
    seal_inside = seal._seal_inside

    def after_another(path: Path, run: Path) -> Damage | None:
        if path.stem == "one":
            seal_stream(path)
        return seal_inside(path, run)

    monkeypatch.setattr(seal, "_seal_inside", after_another)
    assert seal_all(tmp_path) == []
    assert [path.name for path in sealed_files(tmp_path, "probes")] == ["one.parquet", "two.parquet"]


def test_a_missing_stream_without_a_sealed_file_is_an_error(tmp_path: Path) -> None:
    writer = write_probes(tmp_path, 3)
    writer.close(seal=False)
    writer.path.unlink()
    with pytest.raises(FileNotFoundError):
        seal_stream(writer.path)


def test_an_event_of_a_base_scenario_takes_at_most_twelve_bytes(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """With a hundredth of a base scenario's messages. No two times are equal, so that compression saves little."""
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
    record_property("figure", f"{each:.1f} bytes for each of {2 * count:,} events, no two times equal")


def test_a_sealed_file_holds_its_schema_once(tmp_path: Path) -> None:
    """Arrow's own copy of the schema was a third of the file."""
    write_probes(tmp_path, 1).close()
    (path,) = sealed_files(tmp_path, "probes")
    found = pq.read_schema(path)
    assert found.equals(TABLES["probes"].schema)
    assert found.metadata == {b"ackproof.schema": b"1", b"ackproof.table": b"probes"}
    assert b"ARROW:schema" not in pq.read_metadata(path).metadata


def test_rising_numbers_are_stored_as_differences(tmp_path: Path) -> None:
    writer = Writer(tmp_path, "probes", 7, "observer")
    writer.add(fault=1, at_ns=1_000, held=True, text="held")
    writer.close()
    group = pq.read_metadata(sealed_files(tmp_path, "probes")[0]).row_group(0)
    found = {group.column(place).path_in_schema: group.column(place).encodings for place in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in found["at_ns"]
    assert "DELTA_BINARY_PACKED" not in found["run"]
