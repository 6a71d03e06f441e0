"""The settings of a foreign cluster appear in no message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.cli.runs import _settings
from ackproof.core.errors import CannotHere, UsageProblem
from ackproof.judge import live_log as from_kafka
from ackproof.judge.live_log import Kafka, with_log_of

Told = Callable[[str, object], None]
SECRET = "hunter2-s3cr3t"  # noqa: S105 - that is the point
SETTINGS = {
    "sasl.jaas.config": f'org.apache.kafka.PlainLoginModule required username="bob" password="{SECRET}";',
    "sasl.password": SECRET,
    "ssl.keystore.password": SECRET,
    "ssl.key.password": f" {SECRET} ",
    "ssl.truststore.password": f"'{SECRET}'",
    "ssl.keystore.key": f"-----BEGIN PRIVATE KEY-----\\n{SECRET}\\n-----END PRIVATE KEY-----",
    "sasl.oauthbearer.token.endpoint.url": f"https://bob:{SECRET}@example.invalid/token",
    "sasl.oauthbearer.jwks.endpoint.url": f"https://example.invalid/keys?token={SECRET}&kind=1",
    "anything": f"a={SECRET},b=2",
}
# The settings as written, and their values as read.
WRITTEN_OTHERWISE = {
    'Module required password="hunter \\"2\\" s3c";': 'hunter "2" s3c',
    r'Module required password="a\\b c;d";': r"a\b c;d",
    "-----BEGIN PRIVATE KEY-----MIIEvQ2/s3c-----END PRIVATE KEY-----": "MIIEvQ2/s3c",
    "https://bob:hu%20nter%402@example.invalid:8443/": "hu nter@2",
    "https://bob:hunter@2@example.invalid/,https://eve:another@example.invalid/": "hunter@2",
}


@pytest.mark.proves("F5")
@pytest.mark.parametrize("name", SETTINGS)
def test_no_message_contains_a_word_of_a_secret_setting(name: str, record_property: Told) -> None:
    kafka = Kafka("kafka.example:9093", {name: SETTINGS[name]})
    for text in (
        f"ConfigException: Invalid value {SETTINGS[name]} for configuration {name}",
        f"{name}: '{SETTINGS[name].strip()}' is refused",
        f"login failed for {SECRET}",
    ):
        assert SECRET not in kafka.hide(text), text
    record_property("figure", f"a secret in {len(SETTINGS)} settings: hidden in what errors quote, whole or in part")


@pytest.mark.proves("F5")
@pytest.mark.parametrize("written", WRITTEN_OTHERWISE)
def test_a_secret_is_recognised_however_it_is_written(written: str) -> None:
    kafka = Kafka("kafka.example:9093", {"anything": written})
    assert kafka.hide(f"login failed for {WRITTEN_OTHERWISE[written]}!") == "login failed for ***!"


def test_addresses_and_paths_are_shown() -> None:
    where = {"an.url": "https://bob:swordfish@localhost:8443/token", "a.path": "/etc/kafka/true/client.jks"}
    text = "org.apache.kafka.KafkaException: true, https does not answer on localhost for client.jks; see /etc"
    assert Kafka("kafka.example:9093", where).hide(text) == text


@pytest.mark.proves("F5")
def test_a_long_error_is_not_cut_in_the_middle_of_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Kafka("kafka.example:9093", {"sasl.jaas.config": SETTINGS["sasl.jaas.config"]})
    session: Any = SimpleNamespace(connected=False)
    source: Any = SimpleNamespace(record=SimpleNamespace(topics=["orders"], mirrors=()))
    for padding in range(320):
        monkeypatch.setattr(from_kafka, "_asking", throwing("." * padding + SETTINGS["sasl.jaas.config"]))
        with pytest.raises(CannotHere) as caught:
            with_log_of(session, source, kafka, tmp_path, lambda _: None, lambda *_: None)
        assert SECRET[:4] not in " ".join(caught.value.details), padding


def throwing(words: str) -> Callable[..., None]:
    def throw(*_: object) -> None:
        raise ValueError(words)

    return throw


@pytest.mark.proves("F5")
@pytest.mark.parametrize("line", [SECRET, f"={SECRET}", f"sasl.password={SECRET}\\u12"])
def test_a_line_of_settings_that_cannot_be_read_is_named_by_its_number(tmp_path: Path, line: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SASL_SSL\n\n{line}\n")
    with pytest.raises(UsageProblem) as caught:
        _settings(file)
    assert "line 3" in caught.value.message
    assert SECRET not in caught.value.message
