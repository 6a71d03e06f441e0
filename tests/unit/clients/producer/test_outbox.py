"""The outbox: every stored message is published in the end, in spite of failures and kills."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Message

from ackproof.clients.producer import outbox
from ackproof.clients.producer.config import OutboxConfig, ProducerConfig
from ackproof.clients.producer.outbox import Attempt, OutboxPublisher, Store, export
from ackproof.clients.sqlite import database_of
from ackproof.journal.stream import read_stream
from ackproof.model.message import unpack


def config(directory: Path, count: int = 200, rate: float | None = None, give_up_after: int = 3) -> ProducerConfig:
    (directory / "clients").mkdir(exist_ok=True)
    return ProducerConfig(
        run=1, directory=str(directory), id=0, name="producer1", topic="orders", topic_id=0, bootstrap="nowhere",
        count=count, rate=rate, acks="all", size=16, keys=None, print=False, go=str(directory / "go"),
        progress=str(directory / "progress"), flush_s=5, topic_check="assume",
        outbox=OutboxConfig(give_up_after=give_up_after, retry_s=0.01, exit_code=75),
        journal=f"producer1-{os.getpid()}-{time.monotonic_ns()}",
    )  # fmt: skip


class Broker:
    """Takes the place of Kafka: it writes a message to its log and acknowledges it, or reports an error."""

    def __init__(self, log: Path, refuses: Callable[[int], bool] = lambda _: False) -> None:
        self._log = log
        self._refuses = refuses
        self._waiting: list[tuple[int, Callable[[Any, Any], None]]] = []
        self.attempts = 0

    def produce(self, topic: str, value: bytes, key: bytes | None, on_delivery: Callable[[Any, Any], None]) -> None:
        self._waiting.append((unpack(value)[1], on_delivery))

    def poll(self, timeout_s: float) -> int:
        waiting, self._waiting = self._waiting, []
        for seq, report in waiting:
            self.attempts += 1
            if self._refuses(self.attempts):
                report(KafkaError(KafkaError._MSG_TIMED_OUT), Message(topic="orders", partition=-1, offset=-1001))
                continue
            with self._log.open("a") as log:
                log.write(f"{seq}\n")
            report(None, Message(topic="orders", partition=0, offset=seq))
        return len(waiting)


def published(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()]


def sweep(directory: Path, refuses: Callable[[int], bool] = lambda _: False, **options: Any) -> int:
    store = Store(database_of(directory, "producer1"))
    try:
        return OutboxPublisher(config(directory, **options), store, Broker(directory / "log", refuses)).run(
            time.monotonic_ns()
        )
    finally:
        store.close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "clients").mkdir()
    (tmp_path / "log").touch()
    return tmp_path


def test_everything_is_published_in_order_and_once(directory: Path) -> None:
    assert sweep(directory, count=1_200) == 0
    assert published(directory / "log") == list(range(1_200))


def test_failed_messages_are_tried_again(directory: Path) -> None:
    assert sweep(directory, lambda attempt: attempt % 7 == 0, count=300, give_up_after=100) == 0
    assert sorted(published(directory / "log")) == list(range(300))


def test_it_gives_up_with_the_scenarios_exit_code_and_continues_after_a_restart(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(directory, lambda _: True, count=50, give_up_after=3) == 75
    assert "gave up after 3 failures in a row; 50 messages wait in the outbox" in capsys.readouterr().out
    assert published(directory / "log") == []
    assert sweep(directory, count=50) == 0
    assert published(directory / "log") == list(range(50))


def test_a_success_resets_the_count_of_failures(directory: Path) -> None:
    refused = iter([True, True, False] * 100)
    assert sweep(directory, lambda _: next(refused), count=1, give_up_after=3) == 0


def test_business_rows_and_their_messages_are_stored_together(directory: Path) -> None:
    store = Store(database_of(directory, "producer1"))
    store.accept([(0, 1), (1, 2)])
    with pytest.raises(sqlite3.IntegrityError):
        store.accept([(2, 3), (1, 4)])
    assert (store.accepted(), store.depth()) == (2, 2)
    database = sqlite3.connect(database_of(directory, "producer1"))
    assert database.execute("SELECT count(*) FROM business").fetchone() == (2,)
    assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_only_a_delivery_report_marks_a_message_as_published(directory: Path) -> None:
    store = Store(database_of(directory, "producer1"))
    store.accept([(seq, seq) for seq in range(6)])
    store.give([0, 1, 2, 3, 4], 10)
    too_large = "MSG_SIZE_TOO_LARGE"
    store.mark([Attempt(0, 11, None, 0, 7), Attempt(1, 11, "_MSG_TIMED_OUT", None, None)], retries=True)
    store.mark([Attempt(2, 11, too_large, None, None)], retries=True)
    store.give([1, 2, 3], 20)
    store.mark([Attempt(seq, 21, too_large, None, None) for seq in (1, 2, 3)], retries=True)
    assert store.waiting(10) == [1, 2, 3, 4, 5]
    rows = store.rows()
    assert [(row.outcome, row.offset, row.sent_ns) for row in rows[:5]] == [
        ("ok", 7, 10),
        ("info", None, 10),  # its first attempt may have been written
        ("fail", None, 10),  # both attempts were certainly refused
        ("info", None, 10),  # its first attempt has no report, as if the producer was killed
        ("info", None, 10),  # in flight
    ]
    assert (rows[5].outcome, rows[5].error) == ("fail", "still in the outbox")


class Silent(Broker):
    """Takes messages and never answers."""

    def poll(self, timeout_s: float) -> int:
        return 0


def test_after_sigterm_with_messages_in_flight_the_exit_code_says_that_it_is_not_done(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "LAST_REPORTS_S", 0.05)
    store = Store(database_of(directory, "producer1"))
    publisher = OutboxPublisher(config(directory, count=5), store, Silent(directory / "log"))
    monkeypatch.setattr(publisher, "_tell", publisher.stop)
    assert publisher.run(time.monotonic_ns()) == 75
    assert {row.outcome for row in store.rows()} == {"info"}


def test_the_journals_rows_come_from_the_database(directory: Path) -> None:
    sweep(directory, lambda attempt: attempt > 20, count=30, give_up_after=1)
    export(directory, 1, 0, 0, "producer1")
    (sends,) = (directory / "journal" / "sends").iterdir()
    (blocks,) = (directory / "journal" / "blocks").iterdir()
    rows = read_stream(sends)[0].to_pylist()
    assert [row["seq"] for row in rows] == list(range(30))
    assert {row["outcome"] for row in rows[:20]} == {"ok"}
    assert {row["outcome"] for row in rows[20:]} == {"info"}
    assert [row["used"] for row in read_stream(blocks)[0].to_pylist()] == [None, 30]
    depths = [read_stream(path)[0] for path in (directory / "journal" / "outbox").iterdir()]
    assert pa.concat_tables(depths)["depth"].to_pylist()[-1] == 10


LIVES = 12
KILLED = """
import os, random, signal, time
from pathlib import Path
from tests.unit.clients.producer.test_outbox import Broker, config
from ackproof.clients.sqlite import database_of
from ackproof.clients.producer.outbox import Store, OutboxPublisher
directory, chance = Path({directory!r}), random.Random(7)
for _ in range({lives}):
    life = os.fork()
    if life == 0:
        store = Store(database_of(directory, "producer1"))
        publisher = OutboxPublisher(config(directory, count=3_000), store, Broker(directory / "log"))
        os._exit(publisher.run(time.monotonic_ns()))
    time.sleep(chance.uniform(0.0, 0.12))
    os.kill(life, signal.SIGKILL)  # its pid is still its own if it has ended, because it was not waited for
    print(os.waitstatus_to_exitcode(os.waitpid(life, 0)[1]), flush=True)
"""


def test_it_loses_nothing_if_it_is_killed_at_any_point(directory: Path) -> None:
    """A process that has loaded everything forks each life, because loading takes long."""
    program = KILLED.format(directory=str(directory), lives=LIVES)
    lives = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=100,
    )
    ends = [int(line) for line in lives.stdout.split()]
    assert len(ends) == LIVES
    assert set(ends) <= {0, -signal.SIGKILL}
    assert -signal.SIGKILL in ends
    assert sweep(directory, count=3_000) == 0
    assert set(published(directory / "log")) == set(range(3_000))
    store = Store(database_of(directory, "producer1"))
    assert (store.depth(), store.accepted()) == (0, 3_000)


def test_the_config_is_the_same_after_its_file_is_read(directory: Path) -> None:
    made = config(directory)
    assert msgspec.json.decode(msgspec.json.encode(made), type=ProducerConfig) == made
