"""A receiver: it takes each message once, however often it comes, by one of a few strategies.

A strategy is one table and one statement. The statement notes a message, and changes a row only where the message is
new: so its count of changed rows is the answer. What was noted, the effect of the message and the offset from which to
read on are written in one transaction (SQLite, WAL, synchronous=FULL). A receiver that is killed has done all three or
none of them: it begins again at the offset in its database, and what it had not finished is as if it had never come.

The effect stands for whatever an application does with a message: here it is a row of `received`, the same for every
strategy, so that their databases differ only by what they note. The run makes the journal's rows of it in the end.
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


class Given(NamedTuple):
    """A message as it came."""

    partition: int
    offset: int
    producer: int
    seq: int


class Noted(NamedTuple):
    """A strategy: its table, and the statement that notes (producer, topic, partition, seq)."""

    table: str
    statement: str


def _mark(*scope: str) -> Noted:
    """The highest number that a producer was seen with, within a scope. Right only where numbers come in order."""
    places = {"producer": 1, "topic": 2, "partition": 3}
    key = ", ".join(scope)
    values = ", ".join(f"?{places[name]}" for name in scope)
    return Noted(
        f"CREATE TABLE IF NOT EXISTS marks ({key}, seq INTEGER NOT NULL, PRIMARY KEY ({key})) WITHOUT ROWID",
        f"INSERT INTO marks VALUES ({values}, ?4) "  # noqa: S608  # names of ours
        f"ON CONFLICT ({key}) DO UPDATE SET seq = excluded.seq WHERE excluded.seq > seq",
    )


STRATEGIES: dict[str, Noted | None] = {
    "nothing": None,
    "ids": Noted(
        "CREATE TABLE IF NOT EXISTS ids (producer, seq, PRIMARY KEY (producer, seq)) WITHOUT ROWID",
        "INSERT OR IGNORE INTO ids VALUES (?1, ?4)",
    ),
    "mark-per-partition": _mark("producer", "topic", "partition"),
    "mark-per-topic": _mark("producer", "topic"),
    "mark-per-producer": _mark("producer"),
}


class Receiver:
    """The database of one receiver: what it noted, what it did, and how far it came."""

    def __init__(self, path: Path, strategy: str, topic: int) -> None:
        self._noted = STRATEGIES[strategy]
        self._topic = topic
        self._database = open_database(path, _SCHEMA)
        if self._noted is not None:
            self._database.execute(self._noted.table)
        self.messages = self.deciding_ns = self.handling_ns = 0  # since somebody set them back

    def positions(self) -> dict[int, int]:
        """Of each partition that it has read from, the offset from which to read on."""
        return dict(self._database.execute("SELECT partition, offset FROM positions"))

    def handle(self, messages: Sequence[Given]) -> None:
        """Decide, do, and remember how far: in one transaction."""
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

    def _is_new(self, message: Given) -> bool:
        if self._noted is None:
            return True
        noted = (message.producer, self._topic, message.partition, message.seq)
        return self._database.execute(self._noted.statement, noted).rowcount == 1

    def size_bytes(self) -> int:
        (pages,) = self._database.execute("PRAGMA page_count").fetchone()
        (size,) = self._database.execute("PRAGMA page_size").fetchone()
        return int(pages * size)

    def received(self) -> Iterator[list[tuple[int, ...]]]:
        """Every row of `received`, a few thousand at a time."""
        rows = self._database.execute("SELECT at_ns, partition, offset, producer, seq, accepted FROM received")
        while some := rows.fetchmany(EXPORT_ROWS):
            yield some

    def close(self) -> None:
        self._database.close()


class Costs:
    """What a receiver spends, told about once a second."""

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
    """The journal's rows of a receiver that has ended, from its database."""
    receiver = Receiver(path, "nothing", topic)  # whatever it noted is its own affair
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
