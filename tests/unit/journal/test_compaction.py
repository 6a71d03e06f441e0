"""Merging small files: no row is lost, and none is there twice."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ackproof.journal import compaction
from ackproof.journal.checksums import differs_from_checksum
from ackproof.journal.compaction import merge_small_files
from ackproof.journal.files import sealed_files
from ackproof.journal.seal import seal_all
from ackproof.journal.writer import Writer
from tests.support.journal_rows import write_probes


def rows_of(directory: Path) -> list[tuple[str, int]]:
    tables = [pq.read_table(path).to_pylist() for path in sealed_files(directory, "probes")]
    return sorted((row["text"], row["at_ns"]) for table in tables for row in table)


def sealed_names(directory: Path) -> list[str]:
    return [path.name.removesuffix(".parquet") for path in sealed_files(directory, "probes")]


def test_neighbours_with_few_rows_become_one_sorted_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers in the names order the files. No merge skips a large file, so a consumer's reads stay in order."""
    monkeypatch.setattr(compaction, "FEW_ROWS", 5)
    monkeypatch.setattr(compaction, "MERGED_ROWS_MOST", 10)
    for name, rows in {"w1": 4, "w1.2": 3, "w1.3": 5, "w1.10": 4, "w2": 4, "w10": 3, "w11": 2}.items():
        write_probes(tmp_path, rows, name).close()
    before = rows_of(tmp_path)
    merge_small_files(tmp_path)
    assert sealed_names(tmp_path) == ["w1+w1.2", "w1.3", "w1.10+w2", "w10+w11"]
    assert len(list(tmp_path.rglob("*.parquet"))) == 4, "merged files replace the others"
    assert rows_of(tmp_path) == before
    times = pq.read_table(sealed_files(tmp_path, "probes")[0])["at_ns"].to_pylist()
    assert times == sorted(times)
    assert not any(map(differs_from_checksum, sealed_files(tmp_path, "probes")))


@pytest.mark.proves("B1")
@pytest.mark.parametrize("at", ["rename", "unlink"])
def test_no_row_is_there_twice_after_an_interrupted_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    for name in ("one", "three", "two"):
        write_probes(tmp_path, 3, name).close()
    before = rows_of(tmp_path)

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, at, killed)
        with pytest.raises(KeyboardInterrupt):
            merge_small_files(tmp_path)
    assert rows_of(tmp_path) == before
    assert sealed_names(tmp_path) == (["one", "three", "two"] if at == "rename" else ["one+two"])
    assert seal_all(tmp_path) == []  # the judge does this first
    assert rows_of(tmp_path) == before
    assert len(list(tmp_path.rglob("*.parquet"))) == (3 if at == "rename" else 1)
    write_probes(tmp_path, 2, "zero").close()
    merge_small_files(tmp_path)
    assert sealed_names(tmp_path) == ["one+zero"]
    assert len(rows_of(tmp_path)) == 3 * 3 + 2


def test_torn_and_damaged_files_are_not_merged(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "e", "f"):
        write_probes(tmp_path, 3, name).close()
    torn = write_probes(tmp_path, 3, "d")
    torn.close(seal=False)
    os.truncate(torn.path, torn.path.stat().st_size - 20)
    assert [damage.path.stem for damage in seal_all(tmp_path)] == ["d"]
    b = tmp_path / "journal" / "probes" / "b.parquet"
    b.write_bytes(b.read_bytes()[:-30])
    merge_small_files(tmp_path)
    assert sealed_names(tmp_path) == ["a", "b", "c", "d", "e+f"]


def test_nothing_is_merged_while_an_unsealed_stream_belongs_in_between(tmp_path: Path) -> None:
    """If the others were merged, the stream's sealed file would look like one of the replaced files, and be deleted."""
    for name in ("a", "b", "c"):
        writer = Writer(tmp_path, "probes", 7, name)
        writer.add(fault=1, at_ns=2, held=True, text=name)
        writer.close(seal=name != "b")
    merge_small_files(tmp_path)
    seal_all(tmp_path)
    assert [path.stem for path in sealed_files(tmp_path, "probes")] == ["a", "b", "c"]
    merge_small_files(tmp_path)
    assert [path.stem for path in sealed_files(tmp_path, "probes")] == ["a+c"]


def test_on_a_full_disk_nothing_is_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        write_probes(tmp_path, 3, name).close()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    merge_small_files(tmp_path)
    assert sealed_names(tmp_path) == ["one", "two"]
    assert len(list((tmp_path / "journal" / "probes").iterdir())) == 2
