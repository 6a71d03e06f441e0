"""The settings of a cluster that is not ours are read as Kafka reads them, and never shown."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from io import BytesIO
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.cli.runs import _settings
from ackproof.core.errors import UsageProblem
from ackproof.judge.live_log import APART_MS, Ends, Kafka, is_about_the_copy, looked_at_again, of_another_time, settled
from ackproof.judge.worker import Judging
from ackproof.model.run_record import Clock
from ackproof.model.verdict import Fitness


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


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("log/drain.parquet cannot be read and was left out: it is cut short.", True),
        ("ends/drain.parquet was torn: its last 12 bytes cannot be read (cut short).", True),
        ("The journal has no table `ends`.", True),
        ("sends/producer1.parquet cannot be read and was left out: it is cut short.", False),
        ("mirror_ends/drain.parquet cannot be read and was left out: it is cut short.", False),
        ("The journal has no table `sends`.", False),
    ],
)
def test_only_what_is_said_of_the_copy_goes_with_it(text: str, about: bool) -> None:
    assert is_about_the_copy(Fitness("journal", False, text)) is about


def end(mark: int, isr: tuple[int, ...] = (1, 2, 3), partition: int = 0) -> dict[str, Any]:
    place = {"topic": 0, "partition": partition, "leader": 1, "replicas": [1, 2, 3], "isr": [*isr]}
    return {**place, "high_watermark": mark, "read_to": mark, "log_end": None}


def settled_of(*looks: Ends, patience_s: float = 60.0) -> Ends:
    """The last of these looks goes on."""
    left = [*looks]
    return settled(lambda: deepcopy(left.pop(0) if len(left) > 1 else left[0]), 0.04, patience_s)


def test_a_log_ends_where_it_stands_still_with_every_replica_in_sync() -> None:
    (found,) = settled_of([end(5)], [end(6, isr=(1, 2))], [end(7)], [end(7)])
    assert (found["log_end"], found["high_watermark"]) == (7, 7)


def test_where_a_log_ends_is_not_known_while_a_replica_is_not_in_sync() -> None:
    found = settled_of([end(7, isr=(1, 2)), end(3, partition=1)], patience_s=1.0)
    assert [each["log_end"] for each in found] == [None, 3]


def test_where_a_log_ends_is_not_known_while_it_grows() -> None:
    marks = count()
    (found,) = settled(lambda: [end(next(marks))], still_s=0.04, patience_s=1.0)
    assert found["log_end"] is None


@pytest.mark.parametrize(("mark", "log_end"), [(7, 7), (8, None), (6, None)])
def test_a_log_that_moved_while_it_was_read_does_not_end_where_it_did(mark: int, log_end: int | None) -> None:
    (found,) = looked_at_again([{**end(7), "log_end": 7}], [end(mark)])
    assert (found["read_to"], found["high_watermark"], found["log_end"]) == (7, mark, log_end)


BEGAN_MS, ENDED_MS = 1_700_000_000_000, 1_700_000_030_000
HOUR_MS = 3_600_000


def a_run(set_ms: int = 0) -> Any:
    """By its wall clock, which is set by so much in the middle, before anything is sent."""
    ended_at = Clock((ENDED_MS + set_ms) * 10**6, (ENDED_MS - BEGAN_MS) * 10**6)
    return SimpleNamespace(began=Clock(BEGAN_MS * 10**6, 0), ended_at=ended_at)


NOT_ITS_LOG, NOT_ALL = "it is not its log", "not all of them are its own"


@pytest.mark.proves("C7")
@pytest.mark.parametrize(
    ("times", "says"),
    [
        ((BEGAN_MS, ENDED_MS), None),
        ((BEGAN_MS - APART_MS, ENDED_MS + APART_MS), None),
        ((BEGAN_MS - APART_MS - 1, ENDED_MS), NOT_ALL),
        ((BEGAN_MS, ENDED_MS + APART_MS + 1), NOT_ALL),
        ((BEGAN_MS - 9 * APART_MS, BEGAN_MS - APART_MS), NOT_ALL),
        ((BEGAN_MS - 9 * APART_MS, BEGAN_MS - APART_MS - 1), NOT_ITS_LOG),
        ((ENDED_MS + APART_MS, ENDED_MS + 9 * APART_MS), NOT_ALL),
        ((ENDED_MS + APART_MS + 1, ENDED_MS + 9 * APART_MS), NOT_ITS_LOG),
        ((BEGAN_MS - 9 * APART_MS, ENDED_MS + 9 * APART_MS), NOT_ALL),
        (None, None),
    ],
)
def test_records_of_another_time_are_of_another_run(times: tuple[int, int] | None, says: str | None) -> None:
    told = [(line.fit, line.text.partition(", and ")[2]) for line in of_another_time(a_run(), times)]
    went = "the run went from 2023-11-14 22:13:20 to 2023-11-14 22:13:50 UTC"
    assert told == ([(False, f"{went}: {says}.")] if says else [])


@pytest.mark.proves("B5")
@pytest.mark.parametrize("set_ms", [HOUR_MS, -HOUR_MS])
def test_records_of_a_run_whose_wall_clock_was_set_are_its_own(
    set_ms: int, record_property: Callable[[str, object], None]
) -> None:
    sent = (BEGAN_MS + 10_000 + set_ms, ENDED_MS + set_ms)
    assert of_another_time(a_run(set_ms), sent) == []
    assert [line.fit for line in of_another_time(a_run(), sent)] == [False], "of a run without, they are another's"
    for beyond in (BEGAN_MS - HOUR_MS - APART_MS - 1, ENDED_MS + set_ms + HOUR_MS + APART_MS + 1):
        assert [line.fit for line in of_another_time(a_run(set_ms), (beyond, beyond))] == [False]
    hours = set_ms // HOUR_MS
    record_property("figure", f"a log read from Kafka, the wall clock set by {hours:+} h before the load: its own")


@pytest.mark.proves("B5")
@pytest.mark.parametrize("sent", [BEGAN_MS - HOUR_MS, BEGAN_MS, ENDED_MS + HOUR_MS])
def test_records_are_not_told_by_their_time_where_nobody_knows_whether_the_clock_was_set(sent: int) -> None:
    record: Any = SimpleNamespace(began=Clock(BEGAN_MS * 10**6, 0), ended_at=None)
    (told,) = of_another_time(record, (sent, sent))
    assert told.fit
    assert "whether the wall clock was set is not known" in told.text
