"""A producer with an outbox: it stores a message in one transaction with the business row, and publishes it afterwards.

Each message is a row of `outbox`, written in the same transaction as the business row that it reports (SQLite, WAL,
synchronous=FULL). A publisher gives the rows to Kafka in their order and marks the acknowledged ones. Only the delivery
report decides. Failed rows stay and are tried again. After a number of failures in a row the producer stops with an
error; a restarted producer continues with the same outbox. If the producer is killed between an acknowledgement and its
mark, it publishes that row again: a copy, never a loss.

The database holds the truth. The run makes the journal's rows from it after the producer has ended in any way.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as KafkaProducer

from ackproof.clients.lateness import Lateness
from ackproof.clients.producer.config import GO_S, ProducerConfig, client_settings, retries
from ackproof.clients.producer.delivery_reports import NO_PARTITION
from ackproof.clients.producer.error_outcomes import outcome_of
from ackproof.clients.producer.pacing import Pace
from ackproof.clients.producer.topic_check import TopicProblem, check_topic
from ackproof.clients.runtime import Progress, read_config, wait_for_go
from ackproof.clients.sqlite import database_of, open_database, transaction
from ackproof.journal.writer import Writer
from ackproof.kafka.client_settings import Value
from ackproof.model.message import pack

WINDOW = 500  # messages in flight at once
TELL_EVERY_S = 0.25
LAST_REPORTS_S = 5.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS business (seq INTEGER PRIMARY KEY, made_ns INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (
    seq INTEGER PRIMARY KEY, due_ns INTEGER NOT NULL, put_ns INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, maybe INTEGER NOT NULL DEFAULT 0, -- an earlier attempt may have been written
    sent_ns INTEGER, done_ns INTEGER, outcome TEXT, error TEXT,
    partition INTEGER, offset INTEGER
);
CREATE INDEX IF NOT EXISTS waiting ON outbox (seq) WHERE outcome IS NOT 'ok';
"""


class Attempt(NamedTuple):
    """How one attempt to publish a message ended."""

    seq: int
    done_ns: int
    error: str | None
    partition: int | None
    offset: int | None


class OutboxRow(NamedTuple):
    """A message of the outbox, as the journal's table `sends` wants it."""

    seq: int
    due_ns: int
    sent_ns: int
    done_ns: int | None
    outcome: str
    error: str | None
    partition: int
    offset: int | None


class Store:
    """The database: business rows and outbox."""

    def __init__(self, path: Path) -> None:
        self._database = open_database(path, _SCHEMA)

    def accept(self, messages: Sequence[tuple[int, int]]) -> None:
        """Store business rows and their messages, in one transaction. Each message is (number, when it is due)."""
        now = time.monotonic_ns()
        with transaction(self._database) as database:
            database.executemany("INSERT INTO business VALUES (?, ?)", [(seq, now) for seq, _ in messages])
            database.executemany(
                "INSERT INTO outbox (seq, due_ns, put_ns) VALUES (?, ?, ?)", [(seq, due, now) for seq, due in messages]
            )

    def accepted(self) -> int:
        (count,) = self._database.execute("SELECT coalesce(max(seq) + 1, 0) FROM outbox").fetchone()
        return int(count)

    def depth(self) -> int:
        (count,) = self._database.execute("SELECT count(*) FROM outbox WHERE outcome IS NOT 'ok'").fetchone()
        return int(count)

    def waiting(self, most: int) -> list[int]:
        rows = self._database.execute("SELECT seq FROM outbox WHERE outcome IS NOT 'ok' ORDER BY seq LIMIT ?", (most,))
        return [seq for (seq,) in rows]

    def give(self, numbers: Sequence[int], sent_ns: int) -> None:
        """Note that these messages go to Kafka now. Their outcome is unknown until a report comes."""
        with transaction(self._database) as database:
            database.executemany(
                "UPDATE outbox SET attempts = attempts + 1, maybe = maybe OR coalesce(outcome = 'info', 0), "
                "sent_ns = coalesce(sent_ns, ?), done_ns = NULL, outcome = 'info', error = 'no answer' WHERE seq = ?",
                [(sent_ns, seq) for seq in numbers],
            )

    def mark(self, attempts: Iterable[Attempt], retries: bool) -> None:
        """Store how attempts ended. A message whose attempt failed keeps waiting."""
        rows = []
        for ended in attempts:
            outcome = "ok" if ended.error is None else outcome_of(ended.error, retries)
            rows.append((ended.done_ns, outcome, ended.error, ended.partition, ended.offset, ended.seq))
        with transaction(self._database) as database:
            database.executemany(
                "UPDATE outbox SET done_ns = ?1, "
                # An earlier attempt of unknown outcome may have been written, even if a later one fails.
                "outcome = CASE WHEN ?2 = 'fail' AND maybe THEN 'info' ELSE ?2 END, "
                "error = ?3, partition = ?4, offset = ?5 WHERE seq = ?6",
                rows,
            )

    def rows(self) -> list[OutboxRow]:
        found = self._database.execute(
            "SELECT seq, due_ns, coalesce(sent_ns, put_ns), done_ns, coalesce(outcome, 'fail'), "
            "coalesce(error, CASE WHEN outcome IS NULL THEN 'still in the outbox' END), coalesce(partition, ?), offset "
            "FROM outbox ORDER BY seq",
            (NO_PARTITION,),
        )
        return [OutboxRow(*row) for row in found]

    def close(self) -> None:
        self._database.close()


def export(directory: Path, run: int, producer: int, topic: int, name: str) -> None:
    """Write the journal's rows of a producer that has ended, from its database."""
    store = Store(database_of(directory, name))
    rows = store.rows()
    blocks, sends = Writer(directory, "blocks", run, name), Writer(directory, "sends", run, name)
    if rows:
        block = {"producer": producer, "first_seq": 0, "count": len(rows), "at_ns": rows[0].due_ns}
        blocks.add(**block)
        blocks.add(**block, used=len(rows))
    for row in rows:
        sends.add(producer=producer, topic=topic, **row._asdict())
    for writer in (blocks, sends):
        writer.close(seal=False)
    store.close()


class OutboxPublisher:
    """Stores messages when they are due, and publishes the stored ones."""

    def __init__(self, config: ProducerConfig, store: Store, client: Any) -> None:
        self._config = config
        self._store = store
        self._client = client
        self._retries = retries(client_settings(config))
        self._pace = Pace(config.rate or 1.0, config.pauses)
        self._depths = Writer(Path(config.directory), "outbox", config.run, config.journal or config.name)
        self._progress = Progress(Path(config.progress), create=True)
        self._in_flight: set[int] = set()
        self._ended: list[Attempt] = []
        self._next_try = 0.0
        self._told = 0.0
        self._stopped = False
        self.failures = 0  # in a row
        self._accepted = store.accepted()

    def stop(self, *_: Any) -> None:
        self._stopped = True

    def run(self, begun_ns: int) -> int:
        """Publish everything. Return the exit code: 0, or the one of the scenario if the producer gave up."""
        assert self._config.outbox is not None  # noqa: S101  # the run starts this program only with an outbox
        while not self._stopped:
            self._accept(begun_ns)
            self._publish()
            self._client.poll(0.01)
            self._settle()
            self._tell()
            if self.failures >= self._config.outbox.give_up_after:
                self._finish()
                print(
                    f"{self._config.name}: gave up after {self.failures} failures in a row; "
                    f"{self._store.depth():,} messages wait in the outbox",
                    flush=True,
                )
                return self._config.outbox.exit_code
            if self._accepted >= self._config.count and not self._in_flight and not self._store.waiting(1):
                break
        self._wait_for_last_reports()
        self._finish()
        return self._config.outbox.exit_code if self._store.waiting(1) else 0

    def _wait_for_last_reports(self) -> None:
        """After SIGTERM, wait a little for the messages in flight."""
        deadline = time.monotonic() + LAST_REPORTS_S
        while self._in_flight and time.monotonic() < deadline:
            self._client.poll(0.05)
            self._settle()

    def _accept(self, begun_ns: int) -> None:
        due = self._config.count if self._config.rate is None else self._pace.due(time.monotonic_ns() - begun_ns)
        due = min(due, self._config.count, self._accepted + 1_000)
        if due > self._accepted:
            now, paced = time.monotonic_ns(), self._config.rate is not None
            numbers = range(self._accepted, due)
            self._store.accept([(seq, begun_ns + self._pace.when(seq) if paced else now) for seq in numbers])
            self._accepted = due

    def _publish(self) -> None:
        """Give the next waiting messages to the client, if none is in flight."""
        if self._in_flight or time.monotonic() < self._next_try:
            return
        numbers = self._store.waiting(WINDOW)
        if not numbers:
            return
        self._in_flight, self._ended = set(numbers), []
        self._store.give(numbers, time.monotonic_ns())
        padding = b"." * (self._config.size - len(pack(0, 0)))
        for seq in numbers:
            key = None if self._config.keys is None else str(seq % self._config.keys).encode()
            value = pack(self._config.id, seq, padding)
            try:
                self._client.produce(self._config.topic, value, key, on_delivery=self._reporting(seq))
            except KafkaException as problem:  # the client did not accept it
                self._ended.append(Attempt(seq, time.monotonic_ns(), problem.args[0].name(), None, None))

    def _reporting(self, seq: int) -> Callable[[KafkaError | None, Any], None]:
        def report(error: KafkaError | None, message: Any) -> None:
            offset = None if error is not None else message.offset()
            name = None if error is None else error.name()
            self._ended.append(Attempt(seq, time.monotonic_ns(), name, message.partition(), offset))

        return report

    def _settle(self) -> None:
        """After the last report of the window: store the outcomes, and count a failure if one message failed."""
        if not self._in_flight or len(self._ended) < len(self._in_flight):
            return
        assert self._config.outbox is not None  # noqa: S101
        self._store.mark(self._ended, self._retries)
        failed = [ended for ended in self._ended if ended.error is not None]
        self.failures = self.failures + 1 if failed else 0
        if failed:
            self._next_try = time.monotonic() + self._config.outbox.retry_s
            print(
                f"{self._config.name}: {len(failed):,} of {len(self._ended):,} not published ({failed[0].error}), "
                f"failure {self.failures} in a row",
                flush=True,
            )
        self._in_flight = set()

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._told < TELL_EVERY_S:
            return
        self._told = now
        depth = self._store.depth()
        self._depths.add(producer=self._config.id, at_ns=time.monotonic_ns(), depth=depth, failures=self.failures)
        self._depths.flush()
        self._progress.write(1, self._accepted, self._accepted - depth, 0, depth, 0)

    def _finish(self) -> None:
        self._told = 0.0
        self._tell()
        self._depths.close(seal=False)
        depth = self._store.depth()
        self._progress.write(1, self._accepted, self._accepted - depth, 0, depth, 1)


def _in_order(settings: dict[str, Value]) -> dict[str, Value]:
    """Return settings that keep messages in order: with idempotence if possible, because without it a request may
    fail while the next one succeeds."""
    return {"enable.idempotence": True, **settings} if settings["acks"] == "all" else settings


def main() -> int:
    config = read_config(ProducerConfig)
    client = KafkaProducer(_in_order(client_settings(config)))
    store = Store(database_of(Path(config.directory), config.name))
    publisher = OutboxPublisher(config, store, client)
    signal.signal(signal.SIGTERM, publisher.stop)
    try:
        check_topic(client, config)
    except TopicProblem as problem:
        print(f"{config.name}: {problem}", flush=True)
        return problem.exit_code
    Progress(Path(config.progress)).write(1, 0, 0, 0, 0, 0)
    begun_ns = wait_for_go(Path(config.go), GO_S)
    with Lateness(config.directory, config.run, config.name, config.journal):
        return publisher.run(begun_ns)


if __name__ == "__main__":
    sys.exit(main())
