"""Records as Spark's connector gives them, as rows of a journal's log; settings of a cluster that nobody may see."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ackproof.cli_run import _settings
from ackproof.clients.common import pack
from ackproof.errors import UsageProblem
from ackproof.judge.from_kafka import Kafka, parse

VALUES = [pack(3, 7), pack(3, 8, b"padding"), b"short", None, b"not ours but long enough"]


def batch(values: list[bytes | None]) -> pa.RecordBatch:
    size = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "topic": ["orders"] * size,
            "partition": pa.array([1] * size, pa.int32()),
            "offset": pa.array(range(10, 10 + size), pa.int64()),
            "value": pa.array(values, pa.binary()),
        }
    )


def test_values_of_ours_are_numbers_and_others_are_nobodys() -> None:
    rows = parse(batch(VALUES), 5, {"orders": 2}, []).to_pylist()
    assert [(row["producer"], row["seq"]) for row in rows] == [(3, 7), (3, 8), (-1, -1), (-1, -1), (-1, -1)]
    assert {(row["run"], row["topic"], row["partition"]) for row in rows} == {(5, 2, 1)}
    assert [row["offset"] for row in rows] == [10, 11, 12, 13, 14]


def test_values_of_foreign_producers_are_text() -> None:
    rows = parse(batch([b"1.12", pack(3, 7)]), 5, {"orders": 0}, [0]).to_pylist()
    assert [(row["producer"], row["seq"]) for row in rows] == [(0, 12), (3, 7)]


def test_no_record_is_no_row() -> None:
    assert parse(batch([]), 5, {"orders": 0}, []).num_rows == 0


def test_what_the_settings_hold_is_taken_out_of_words() -> None:
    kafka = Kafka("kafka:9093", {"sasl.jaas.config": "user=me password=swordfish;", "ssl.key.password": "swordfish"})
    assert kafka.hide("login of user=me password=swordfish; failed: swordfish") == "login of *** failed: ***"


def test_settings_are_read_as_kafka_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# of ours\n\nsecurity.protocol = SASL_SSL\nsasl.jaas.config=a=b c=d;\n")
    assert _settings(path) == {"security.protocol": "SASL_SSL", "sasl.jaas.config": "a=b c=d;"}


def test_a_line_that_is_no_setting_is_named_without_its_words(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=PLAINTEXT\nswordfish\n")
    with pytest.raises(UsageProblem, match="line 2: write it as NAME=VALUE") as told:
        _settings(path)
    assert "swordfish" not in str(told.value)


def test_settings_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="cannot be read"):
        _settings(tmp_path / "none")
