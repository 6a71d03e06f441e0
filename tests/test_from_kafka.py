"""The settings of a cluster that is not ours: read as Kafka reads them, and told to nobody."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pytest

from ackproof.cli_run import _settings
from ackproof.errors import UsageProblem
from ackproof.judge.from_kafka import Kafka
from ackproof.judging import Judging


def test_what_the_settings_hold_is_taken_out_of_words() -> None:
    kafka = Kafka("kafka:9093", {"sasl.jaas.config": "user=me password=swordfish;", "ssl.key.password": "swordfish"})
    assert kafka.hide("login of user=me password=swordfish; failed: swordfish") == "login of *** failed: ***"


def test_settings_are_read_as_kafka_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# of ours\n\nsecurity.protocol = SASL_SSL\nsasl.jaas.config=a=b c=d;\n")
    assert _settings(path) == {"security.protocol": "SASL_SSL", "sasl.jaas.config": "a=b c=d;"}


def test_a_login_on_several_lines_is_one_setting(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    login = 'sasl.jaas.config=PlainLoginModule required \\\n    username="bob" \\\n    password="a\\\\b";\n'
    path.write_text(f"{login}sasl.mechanism: PLAIN\n")
    assert _settings(path) == {
        "sasl.jaas.config": 'PlainLoginModule required username="bob" password="a\\b";',
        "sasl.mechanism": "PLAIN",
    }


def test_a_line_that_is_no_setting_is_named_without_its_words(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=PLAINTEXT\nswordfish\n")
    with pytest.raises(UsageProblem, match="line 2: write it as NAME=VALUE") as told:
        _settings(path)
    assert "swordfish" not in str(told.value)


def test_settings_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="cannot be read"):
        _settings(tmp_path / "none")


@pytest.mark.proves("F6")
def test_nothing_is_made_or_reported_there_whatever_the_settings_ask_for() -> None:
    asked = {"allow.auto.create.topics": "true", "enable.metrics.push": "true", "bootstrap.servers": "elsewhere:1"}
    told = Kafka("kafka:9093", asked).all_settings()
    assert (told["allow.auto.create.topics"], told["enable.metrics.push"]) == ("false", "false")
    assert told["bootstrap.servers"] == "kafka:9093"


@pytest.mark.proves("F5")
def test_a_judge_that_dies_tells_no_secret_with_its_last_words() -> None:
    judging = Judging.__new__(Judging)
    judging._kafka = ("kafka:9093", {"ssl.key.password": "swordfish"})
    judging._process = SimpleNamespace(kill=lambda: None, wait=lambda: None)  # type: ignore[assignment]
    judging._errors = BytesIO(b"java.lang.OutOfMemoryError\nssl.key.password = swordfish\n")  # type: ignore[assignment]
    assert judging._last_words() == ["java.lang.OutOfMemoryError", "ssl.key.password = ***"]
