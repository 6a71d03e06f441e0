"""Spark checks the pages that it reads, because nothing reads a large file through before."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.judge.frames import read_table
from ackproof.model.journal_tables import TABLES
from ackproof.spark.session import collected, first_line
from tests.support.asking import spark


def test_a_page_that_differs_from_its_checksum_is_not_read(tmp_path: Path) -> None:
    path, number = tmp_path / "log.parquet", 0x0123456789ABCDEF
    rows = [{"run": 1, "topic": 0, "partition": 0, "offset": 0, "producer": 0, "seq": number}]
    table = pa.Table.from_pylist(rows, TABLES["log"].schema)
    plain = {
        "compression": "none",
        "use_dictionary": False,
        "write_statistics": False,
    }  # so that the value is in the file once
    pq.write_table(table, path, **plain, write_page_checksum=True)
    assert collected(read_table(spark(), "log", [str(path)]))[0]["seq"] == number
    before, after = (each.to_bytes(8, "little") for each in (number, number ^ 1))
    assert path.read_bytes().count(before) == 1
    path.write_bytes(path.read_bytes().replace(before, after))
    with pytest.raises(Exception) as broken:  # noqa: PT011  its words are asked for below
        collected(read_table(spark(), "log", [str(path)]))
    assert "CRC checksum verification failed" in first_line(broken.value)
