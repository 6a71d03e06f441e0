"""Hostile run directories: each is small on disk, and holds more than any memory can."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ackproof.core.run_files import FILES_MOST
from ackproof.judge.engine.kept import kept_folder
from ackproof.judge.run_source import opened
from ackproof.model.journal_tables import TABLES

Plant = Callable[[Path], None]


def record(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    told = json.loads((run / "run.json").read_text())
    change(told)
    (run / "run.json").write_text(json.dumps(told))


def rows(table: str, count: int, **given: Any) -> pa.Table:
    """Return so many rows of a table. Columns that are not given hold little. A text is in memory once."""
    zeros: dict[Any, Any] = {pa.int32(): 0, pa.int64(): 0, pa.bool_(): False, pa.float64(): 0.0}
    columns = []
    for field in TABLES[table].schema:
        if field.type == pa.string():
            texts = pa.array([given.get(field.name, "")])
            columns.append(pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), texts))
        else:
            columns.append(pa.repeat(pa.scalar(given.get(field.name, zeros.get(field.type, [])), field.type), count))
    return pa.table(columns, names=TABLES[table].schema.names)


def plain(contents: pa.Table, table: str) -> pa.Table:
    return contents.cast(TABLES[table].schema)


def sealed(run: Path, table: str, contents: pa.Table, **how: Any) -> None:
    path = run / "journal" / table / "bomb.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(contents, path, compression="zstd", store_schema=False, **how)


def many_partitions(run: Path) -> None:
    record(run, lambda told: told["plan"].update(topics=[{"name": "orders", "partitions": 2**40}]))


def many_copies(run: Path) -> None:
    record(run, lambda told: told["plan"].update(producers=[{"topic": "orders", "count": 1, "copies": 2**40}]))


def a_number_without_end(run: Path) -> None:
    record(run, lambda told: told["began"].update(monotonic_ns=10**30))


def nested(run: Path) -> None:
    (run / "run.json").write_text('{"plan": {"a": ' + "[" * 1_000_000)


def spaces(run: Path) -> None:
    with (run / "run.json").open("ab") as file:
        file.truncate(2**30)  # zeros take up no disk, and are as bad as spaces


def long_texts(run: Path) -> None:
    """Name the same text of a megabyte two thousand times."""
    sealed(run, "probes", rows("probes", 2_000, text="x" * 2**20), row_group_size=2_000)


def long_texts_without_dictionary(run: Path) -> None:
    sealed(run, "probes", plain(rows("probes", 300, text="x" * 2**20), "probes"), use_dictionary=False)


def texts_by_their_differences(run: Path) -> None:
    how = {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}
    sealed(run, "alerts", plain(rows("alerts", 100, text="x" * 2**20), "alerts"), **how)


def many_small_texts(run: Path) -> None:
    sealed(run, "faults", rows("faults", 190_000, text="x" * 16_000), row_group_size=190_000)


def many_rows(run: Path) -> None:
    """Write very many numbers that rise by one, which take up almost nothing on disk."""
    sealed(run, "ends", rows("ends", 300_000))


def groups_without_rows(run: Path) -> None:
    path = run / "journal" / "nodes" / "bomb.parquet"
    path.parent.mkdir(exist_ok=True)
    empty = TABLES["nodes"].schema.empty_table()
    with pq.ParquetWriter(path, empty.schema) as writer:
        for _ in range(10_500):
            writer.write_table(empty)


def many_columns(run: Path) -> None:
    sealed(run, "nodes", pa.table({f"column{number}": pa.array([], pa.int32()) for number in range(100_000)}))


def a_footer_of_two_gigabytes(run: Path) -> None:
    with (run / "journal" / "sends" / "bomb.parquet").open("wb") as file:
        file.write(b"PAR1")
        file.truncate(2**31)
        file.seek(0, os.SEEK_END)
        file.write(struct.pack("<I", 2**31 - 16) + b"PAR1")


def stream(run: Path, table: str) -> Path:
    path = run / "journal" / table / "bomb.arrows"
    path.parent.mkdir(exist_ok=True)
    return path


def a_packed_batch(run: Path) -> None:
    contents = plain(rows("probes", 200, text="x" * 2**20), "probes")
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with (
        pa.OSFile(str(stream(run, "probes")), "wb") as file,
        pa.ipc.new_stream(file, contents.schema, options=options) as writer,
    ):
        writer.write_table(contents)


def metadata_of_two_gigabytes(run: Path) -> None:
    with stream(run, "probes").open("wb") as file, pa.ipc.new_stream(file, TABLES["probes"].schema):
        file.write(struct.pack("<Ii", 0xFFFFFFFF, 2**31 - 8))


def a_stream_of_a_terabyte(run: Path) -> None:
    with stream(run, "probes").open("wb") as file:
        file.truncate(2**40)


def many_files(run: Path) -> None:
    folder = run / "journal" / "probes"
    folder.mkdir(exist_ok=True)
    for number in range(FILES_MOST + 1):
        (folder / f"{number}.parquet").touch()


def of_rows(run: Path, table: str, count: int, rising: str = "") -> None:
    """Return so many rows, all alike, or with one column that rises by one."""
    with pq.ParquetWriter(
        made(run / "journal" / table) / "bomb.parquet",
        TABLES[table].schema,
        compression="zstd",
        use_dictionary=[name for name in TABLES[table].schema.names if name != rising],
        column_encoding={rising: "DELTA_BINARY_PACKED"} if rising else None,
    ) as writer:
        for first in range(0, count, 2**20):
            own = rows(table, min(2**20, count - first), run=number(run))
            if rising:
                place = own.schema.names.index(rising)
                own = own.set_column(place, rising, pa.array(range(first, first + own.num_rows), pa.int64()))
            writer.write_table(plain(own, table))


def made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def many_times_late(run: Path) -> None:
    of_rows(run, "lateness", 4_000_000)


def many_positions(run: Path) -> None:
    of_rows(run, "positions", 4_000_000)


def many_views_of_one_look(run: Path) -> None:
    """Write the views of thousands of partitions at one moment."""
    of_rows(run, "state", 20_000_000)


def many_looks(run: Path) -> None:
    of_rows(run, "state", 20_000_000, rising="at_ns")


def number(run: Path) -> int:
    """Return the run's number: rows with another number would be left out for that reason."""
    return int(json.loads((run / "run.json").read_text())["run"])


def with_count(run: Path, count: int) -> pa.Table:
    contents = rows("blocks", 1, run=number(run), producer=1, used=None)
    place = contents.schema.names.index("count")
    return contents.set_column(place, "count", pa.array([count], pa.int64()))


def a_block_beyond_arithmetic(run: Path) -> None:
    sealed(run, "blocks", with_count(run, 2**60))


def blocks_without_sends(run: Path) -> None:
    sealed(run, "blocks", with_count(run, 10**12))


def a_long_signature(run: Path) -> None:
    with (made(run / ".judging") / "signature").open("wb") as file:
        file.truncate(6 * 2**30)


def planted_folds(run: Path) -> Path:
    """Plant a file where a judge keeps its folds, with a signature that any program can compute."""
    with opened(run) as source, kept_folder(source) as kept:
        assert kept is not None
        return made(kept / "_folds")


def an_array_without_end(run: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (2**40,)})
    with zipfile.ZipFile(planted_folds(run) / "parts-0.npz", "w") as file:
        file.writestr("size.npy", header.getvalue())


def a_packed_array(run: Path) -> None:
    zeros: dict[str, Any] = {"0/count": np.zeros(6 * 2**27, np.int64)}
    np.savez_compressed(planted_folds(run) / "parts-0.npz", size=1, **zeros)


def many_trees(run: Path) -> None:
    np.savez(planted_folds(run) / "parts-0.npz", size=2**40)


NOTHING = ""  # it is read: it takes time, but no memory
BOMBS: dict[Plant, str] = {
    many_partitions: "plan.topics.partitions is larger than 200,000",
    many_copies: "plan.producers has more than 10,000 copies",
    a_number_without_end: "run.json cannot be read",
    nested: "nested too deeply",
    spaces: "it has more than 8,388,608 characters",
    long_texts: "probes/bomb.parquet cannot be read and was left out: column text has a text of 1,048,576 bytes",
    long_texts_without_dictionary: "column text unpacks to more than 128 MiB",
    texts_by_their_differences: "column text has an encoding that can repeat text without limit",
    many_small_texts: "faults/bomb.parquet cannot be read and was left out: the texts of column text are larger",
    many_rows: "ends/bomb.parquet cannot be read and was left out: the tables that the judge reads whole",
    groups_without_rows: "it has more than 10,000 row groups",
    many_columns: "nodes/bomb.parquet cannot be read and was left out: it",
    a_footer_of_two_gigabytes: "its footer claims a size of 2,147,483,632 bytes",
    a_packed_batch: "its batches are compressed, and Ackproof's writer never compresses them",
    metadata_of_two_gigabytes: "bytes cannot be read",
    a_stream_of_a_terabyte: "writer never goes beyond 268,435,456",
    many_files: "more than 20,000 files in probes",
    many_times_late: "lateness/bomb.parquet cannot be read and was left out: the tables that the judge reads whole",
    many_positions: "positions/bomb.parquet cannot be read and was left out: the tables that the judge reads whole",
    many_views_of_one_look: NOTHING,
    many_looks: "the table `state` has more than 6,000,000 answers of brokers",
    a_block_beyond_arithmetic: "column count has a number that is not between 0 and 1,000,000,000,000",
    blocks_without_sends: "the producers reserved 1,000,000,000,005 numbers, and the journal has 5 sends",
    a_long_signature: NOTHING,
    an_array_without_end: NOTHING,
    a_packed_array: NOTHING,
    many_trees: NOTHING,
}
