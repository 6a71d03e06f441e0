"""A receiver: it accepts each message once, even if the message comes several times, by one of several strategies.

A strategy is one table and one statement. The statement records a message and changes a row only if the message is new,
so its count of changed rows is the answer. One transaction (SQLite, WAL, synchronous=FULL) writes this record, the
effect of the message and the offset to read next. A killed receiver has done all three or none of them. It starts again
at the offset in its database.

The effect stands for the work of an application. Here it is a row of `received`. It is the same for every strategy, so
that their databases differ only by their records. In the end the run makes the journal's rows from it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ackproof.clients.sqlite import open_database, transaction
from ackproof.journal.writer import Writer

TELL_EVERY_S = 1.0
EXPORT_ROWS = 50_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS received (
    at_ns INTEGER NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
    producer INTEGER NOT NULL, seq INTEGER NOT NULL, accepted INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS positions (partition INTEGER PRIMARY KEY, offset INTEGER NOT NULL);
"""


class ReceivedMessage(NamedTuple):
    partition: int
    offset: int
    producer: int
    seq: int


class Strategy(NamedTuple):
    """Its table, and the statement that records (producer, topic, partition, seq)."""

    table: str
    statement: str


def _highest_number(*scope: str) -> Strategy:
    """Keep each producer's highest number within a scope. This is right only if the numbers come in order."""
    places = {"producer": 1, "topic": 2, "partition": 3}
    key = ", ".join(scope)
    values = ", ".join(f"?{places[name]}" for name in scope)
    return Strategy(
        f"CREATE TABLE IF NOT EXISTS marks ({key}, seq INTEGER NOT NULL, PRIMARY KEY ({key})) WITHOUT ROWID",
        f"INSERT INTO marks VALUES ({values}, ?4) "  # noqa: S608  # the names come from this module
        f"ON CONFLICT ({key}) DO UPDATE SET seq = excluded.seq WHERE excluded.seq > seq",
    )


STRATEGIES: dict[str, Strategy | None] = {
    "nothing": None,
    "ids": Strategy(
        "CREATE TABLE IF NOT EXISTS ids (producer, seq, PRIMARY KEY (producer, seq)) WITHOUT ROWID",
        "INSERT OR IGNORE INTO ids VALUES (?1, ?4)",
    ),
    "mark-per-partition": _highest_number("producer", "topic", "partition"),
    "mark-per-topic": _highest_number("producer", "topic"),
    "mark-per-producer": _highest_number("producer"),
}


class Receiver:
    """A receiver's database: the strategy's records, the effects, and the positions."""

    def __init__(self, path: Path, strategy: str, topic: int) -> None:
        self._strategy = STRATEGIES[strategy]
        self._topic = topic
        self._database = open_database(path, _SCHEMA)
        if self._strategy is not None:
            self._database.execute(self._strategy.table)
        self.messages = self.deciding_ns = self.handling_ns = 0  # `Costs` resets them

    def positions(self) -> dict[int, int]:
        """The offset to read next, for each partition from which it has read."""
        return dict(self._database.execute("SELECT partition, offset FROM positions"))

    def handle(self, messages: Sequence[ReceivedMessage]) -> None:
        """Decide which messages are new, write their effects and the new positions, in one transaction."""
        began, now = time.perf_counter_ns(), time.monotonic_ns()
        with transaction(self._database) as database:
            decided = [self._is_new(message) for message in messages]
            self.deciding_ns += time.perf_counter_ns() - began
            database.executemany(
                "INSERT INTO received VALUES (?, ?, ?, ?, ?, ?)",
                [(now, *message, accepted) for message, accepted in zip(messages, decided, strict=True)],
            )
            database.executemany(
                "INSERT INTO positions VALUES (?1, ?2) ON CONFLICT (partition) DO UPDATE SET offset = ?2",
                {message.partition: message.offset + 1 for message in messages}.items(),
            )
        self.messages += len(messages)
        self.handling_ns += time.perf_counter_ns() - began

    def _is_new(self, message: ReceivedMessage) -> bool:
        if self._strategy is None:
            return True
        values = (message.producer, self._topic, message.partition, message.seq)
        return self._database.execute(self._strategy.statement, values).rowcount == 1

    def size_bytes(self) -> int:
        (pages,) = self._database.execute("PRAGMA page_count").fetchone()
        (size,) = self._database.execute("PRAGMA page_size").fetchone()
        return int(pages * size)

    def received(self) -> Iterator[list[tuple[int, ...]]]:
        """Every row of `received`, in parts of at most EXPORT_ROWS."""
        rows = self._database.execute("SELECT at_ns, partition, offset, producer, seq, accepted FROM received")
        while some := rows.fetchmany(EXPORT_ROWS):
            yield some

    def close(self) -> None:
        self._database.close()


class Costs:
    """Writes down about once a second what a receiver spends."""

    def __init__(self, receiver: Receiver, writer: Writer, consumer: int) -> None:
        self._receiver = receiver
        self._writer = writer
        self._consumer = consumer
        self._told = time.monotonic()

    def tell_if_due(self) -> None:
        if time.monotonic() - self._told >= TELL_EVERY_S:
            self.tell()

    def tell(self) -> None:
        receiver, self._told = self._receiver, time.monotonic()
        self._writer.add(
            consumer=self._consumer,
            at_ns=time.monotonic_ns(),
            messages=receiver.messages,
            deciding_ns=receiver.deciding_ns,
            handling_ns=receiver.handling_ns,
            memory_bytes=_resident_bytes(),
            disk_bytes=receiver.size_bytes(),
        )
        self._writer.flush()
        receiver.messages = receiver.deciding_ns = receiver.handling_ns = 0

    def close(self) -> None:
        self.tell()
        self._writer.close(seal=False)
        self._receiver.close()


def _resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def export(path: Path, directory: Path, run: int, consumer: int, topic: int, name: str) -> None:
    """Write the journal's rows of a receiver that has ended, from its database."""
    receiver = Receiver(path, "nothing", topic)  # the export does not need the strategy's records
    writer = Writer(directory, "received", run, name)
    for rows in receiver.received():
        at_ns, partition, offset, producer, seq, accepted = zip(*rows, strict=True)
        writer.add_columns(
            {
                "consumer": [consumer] * len(rows),
                "at_ns": at_ns,
                "topic": [topic] * len(rows),
                "partition": partition,
                "offset": offset,
                "producer": producer,
                "seq": seq,
                "accepted": [bool(each) for each in accepted],
            }
        )
    writer.close(seal=False)
    receiver.close()
