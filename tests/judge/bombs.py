"""Run directories of a stranger who wishes us harm: each is small, and says that it holds more than any memory."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ackproof.journal_tables import TABLES
from ackproof.run_files import FILES_MOST

Plant = Callable[[Path], None]


def record(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    told = json.loads((run / "run.json").read_text())
    change(told)
    (run / "run.json").write_text(json.dumps(told))


def rows(table: str, count: int, **given: Any) -> pa.Table:
    """So many rows of a table; what is not given is as good as nothing. A text is in memory once."""
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
    record(run, lambda told: told["plan"].update(producers=[{"topic": "orders", "copies": 2**40}]))


def a_number_without_end(run: Path) -> None:
    record(run, lambda told: told["began"].update(monotonic_ns=10**30))


def nested(run: Path) -> None:
    (run / "run.json").write_text('{"plan": {"a": ' + "[" * 1_000_000)


def spaces(run: Path) -> None:
    with (run / "run.json").open("ab") as file:
        file.truncate(2**30)  # of zeros, which take up no disk; they are no better than spaces


def long_texts(run: Path) -> None:
    """The same text of a megabyte, named two thousand times."""
    sealed(run, "probes", rows("probes", 2_000, text="x" * 2**20), row_group_size=2_000)


def long_texts_without_dictionary(run: Path) -> None:
    sealed(run, "probes", plain(rows("probes", 300, text="x" * 2**20), "probes"), use_dictionary=False)


def texts_by_their_differences(run: Path) -> None:
    how = {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}
    sealed(run, "alerts", plain(rows("alerts", 100, text="x" * 2**20), "alerts"), **how)


def many_small_texts(run: Path) -> None:
    sealed(run, "faults", rows("faults", 190_000, text="x" * 16_000), row_group_size=190_000)


def many_rows(run: Path) -> None:
    """Numbers that rise by one are next to nothing, however many they are."""
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


BOMBS: dict[Plant, str] = {
    many_partitions: "plan.topics.partitions is beyond 200,000",
    many_copies: "plan.producers has more than 10,000 copies",
    a_number_without_end: "run.json cannot be read",
    nested: "nested too deeply",
    spaces: "it has more than 8,388,608 characters",
    long_texts: "probes/bomb.parquet cannot be read and was left out: column text has a text of 1,048,576 bytes",
    long_texts_without_dictionary: "column text unpacks to more than 128 MiB",
    texts_by_their_differences: "column text is written in a way that can repeat text without end",
    many_small_texts: "faults/bomb.parquet cannot be read and was left out: the texts of column text are larger",
    many_rows: "ends/bomb.parquet cannot be read and was left out: with it, tables that are read whole have more",
    groups_without_rows: "it has more than 10,000 groups of rows",
    many_columns: "nodes/bomb.parquet cannot be read and was left out: it",
    a_footer_of_two_gigabytes: "its footer says that it has 2,147,483,632 bytes",
    a_packed_batch: "its batches are packed, and no writer of ours packs them",
    metadata_of_two_gigabytes: "bytes cannot be read",
    a_stream_of_a_terabyte: "no writer of ours goes beyond 268,435,456",
    many_files: "more than 20,000 files in probes",
}
