"""What a foreign client prints, event by event, as rows of the journal.

The events are those of Kafka's own verifiable producer and consumer. Their times are the lab's, when the line arrived;
the client's own clock is not looked at. What cannot be taken for what it should be goes to `oddities`, as it came: a
line that is no event, a value that was never asked for, the same acknowledgement twice. Nothing is guessed from it.
"""

from __future__ import annotations

from array import array
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from ackproof.clients.runtime import GROUP_WORDS, LIFE, LogEnd
from ackproof.journal.writer import Writer
from ackproof.model.message import unpack_text, value_of

ODDITIES_MOST = 1_000  # of each kind
SHOWN_MOST = 120  # characters of anything that a client tells
LINE_MOST = 1 << 20  # bytes of an event
NO_OFFSET, UNTOLD = -1, -2
SILENT_EVENTS = frozenset({"startup_complete", "shutdown_requested", "shutdown_complete"})


class ForeignConfig(msgspec.Struct, frozen=True):
    run: int
    directory: str
    kind: Literal["producer", "consumer"]
    id: int
    name: str
    journal: str  # the name of its files: a consumer that is started again has new ones
    topic: str
    topic_id: int
    command: list[str]
    folder: str  # where it is started
    progress: str
    foreign: list[int]  # all producers of the run that are foreign
    parent: int | None = None  # of one on the host, with which it ends; inside, the lab takes everything with it
    go: str | None = None  # of a producer: it starts when this is there
    count: int = 0  # of a producer
    group_id: int = 0  # of a consumer
    life: int = 1
    over: str | None = None  # of a consumer: this file is there once the logs grow no more, and says where each ends


Partition = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Offset = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Place(msgspec.Struct, frozen=True):
    topic: str
    partition: Partition
    offset: Offset | None = None


class Event(msgspec.Struct, frozen=True):
    """A line: its name, and whatever of these it has. Other fields are not looked at."""

    name: str
    topic: str | None = None
    partition: Partition | None = None
    offset: Offset | None = None
    value: str | None = None
    message: str | None = None  # of an error, and the next
    exception: str | None = None
    partitions: list[Place] = []
    offsets: list[Place] = []
    success: bool = True
    error: str | None = None
    count: int | None = None
    acked: int | None = None


_DECODER = msgspec.json.Decoder(Event)


class Account:
    """What a client told so far: what both kinds share."""

    def __init__(self, config: ForeignConfig, *tables: str) -> None:
        self._config = config
        directory = Path(config.directory)
        self._writers = {table: Writer(directory, table, config.run, config.journal) for table in (*tables, "oddities")}
        self._odd: Counter[str] = Counter()
        self._lines = 0
        self.ready = False

    def hear(self, line: bytes, at_ns: int, whole: bool = True) -> None:
        """One line; `whole` unless the client ended in the middle of it."""
        self._lines += 1
        if len(line) > LINE_MOST:
            self._note_line(line, at_ns, "no event", f"longer than {LINE_MOST:,} bytes")
            return
        try:
            event = _DECODER.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
            self._note_line(line, at_ns, "no event" if whole else "torn line", str(problem))
            return
        self.ready |= self._take(event, at_ns)

    def _take(self, event: Event, at_ns: int) -> bool:
        """Write it down; whether the client is at work, by that."""
        raise NotImplementedError

    def counts(self) -> tuple[int, int, int]:
        """Told of, acknowledged, of unknown outcome: for the page of progress."""
        raise NotImplementedError

    def read_whole(self) -> int:
        """In how many partitions a consumer has printed the last message. 0 until the load is over."""
        return 0

    def _note_line(self, line: bytes, at_ns: int, event: str, why: str) -> None:
        shown = line[:SHOWN_MOST].decode(errors="replace")
        self._note(at_ns, event, f"line {self._lines:,}, {shown!r}: {why}")

    def _note(self, at_ns: int, event: str, text: str) -> None:
        self._odd[event] += 1
        if self._odd[event] <= ODDITIES_MOST:
            self._writers["oddities"].add(at_ns=at_ns, client=self._config.name, event=event, text=text)

    def _is_ours(self, topic: str | None, at_ns: int) -> bool:
        if topic in (None, self._config.topic):
            return True
        self._note(
            at_ns, "not ours", f"line {self._lines:,}: topic {_shown(topic or '')!r}, and not {self._config.topic!r}"
        )
        return False

    def _lacks(self, event: Event, at_ns: int, *fields: str) -> bool:
        lacking = [field for field in fields if getattr(event, field) is None]
        if lacking:
            self._note(at_ns, "no event", f"line {self._lines:,}: {event.name} without {', '.join(lacking)}")
        return bool(lacking)

    def flush_if_due(self) -> None:
        for writer in self._writers.values():
            writer.flush_if_due()

    def close(self, at_ns: int) -> None:
        for writer in self._writers.values():
            writer.close(seal=False)


class Produced(Account):
    """A producer's account. Every number that it may use is reserved before it starts, and stays open: what it does
    not tell of may have been sent or not, and nobody can know.

    An error is of unknown outcome, whatever it says, and the client may still try again: so it is only written down at
    the end, unless the value was acknowledged after all.
    """

    def __init__(self, config: ForeignConfig, at_ns: int) -> None:
        super().__init__(config, "blocks", "sends")
        self._writers["blocks"].add(producer=config.id, first_seq=0, count=config.count, at_ns=at_ns)
        self._writers["blocks"].flush()
        self._offsets = array("q", [UNTOLD]) * config.count  # of what was acknowledged
        self._partitions = array("i", [-1]) * config.count
        self._errors: dict[int, tuple[int, str, int]] = {}  # by number: when, which, partition
        self._acked = 0
        self._said_acked: int | None = None

    def counts(self) -> tuple[int, int, int]:
        return self._acked + len(self._errors), self._acked, len(self._errors)

    def _take(self, event: Event, at_ns: int) -> bool:
        if event.name == "producer_send_success":
            self._acknowledged(event, at_ns)
        elif event.name == "producer_send_error":
            self._failed(event, at_ns)
        elif event.name == "tool_data":
            self._said_acked = event.acked
        elif event.name not in SILENT_EVENTS:
            self._note(at_ns, "unknown event", f"line {self._lines:,}: {_shown(event.name)!r}")
        return True

    def _number(self, event: Event, at_ns: int) -> int | None:
        if self._lacks(event, at_ns, "value") or not self._is_ours(event.topic, at_ns):
            return None
        producer, seq = unpack_text((event.value or "").encode(), [self._config.id])
        if producer < 0 or seq >= self._config.count:
            last = value_of(self._config.id, self._config.count - 1)
            wanted = f"{value_of(self._config.id, 0)} to {last} were asked for"
            self._note(
                at_ns, "not ours", f"line {self._lines:,}: the value {_shown(event.value or '')!r}, and {wanted}"
            )
            return None
        return seq

    def _acknowledged(self, event: Event, at_ns: int) -> None:
        if (seq := self._number(event, at_ns)) is None:
            return
        offset = NO_OFFSET if event.offset is None or event.offset < 0 else event.offset
        partition = -1 if event.partition is None else event.partition
        if self._offsets[seq] != UNTOLD:
            before = (self._partitions[seq], self._offsets[seq])
            kind = "twice" if before == (partition, offset) else "contradiction"
            told = f"{event.value} acknowledged at {partition}/{offset}, and before at {before[0]}/{before[1]}"
            self._note(at_ns, kind, f"line {self._lines:,}: {told}")
            return
        self._offsets[seq], self._partitions[seq] = offset, partition
        self._errors.pop(seq, None)
        self._acked += 1
        self._send(seq, at_ns, partition, outcome="ok", offset=None if offset == NO_OFFSET else offset)

    def _failed(self, event: Event, at_ns: int) -> None:
        if (seq := self._number(event, at_ns)) is None:
            return
        if self._offsets[seq] != UNTOLD:
            told = f"{event.value} failed, and before it was acknowledged"
            self._note(at_ns, "contradiction", f"line {self._lines:,}: {told}")
            return
        if seq in self._errors:
            self._note(at_ns, "twice", f"line {self._lines:,}: {event.value} failed, as told before")
        error = _shown((event.exception or event.message or "not said").removeprefix("class "))
        self._errors[seq] = (at_ns, error, -1 if event.partition is None else event.partition)

    def _send(self, seq: int, at_ns: int, partition: int, **how: Any) -> None:
        times = {"due_ns": at_ns, "sent_ns": at_ns, "done_ns": at_ns}
        self._writers["sends"].add(
            producer=self._config.id, seq=seq, topic=self._config.topic_id, partition=partition, **times, **how
        )

    def close(self, at_ns: int) -> None:
        for seq, (told_ns, error, partition) in sorted(self._errors.items()):
            self._send(seq, told_ns, partition, outcome="info", error=error)
        if self._said_acked is not None and self._said_acked != self._acked:
            told = f"{self._said_acked:,} acknowledged by its own count, {self._acked:,} by its events"
            self._note(at_ns, "miscount", told)
        super().close(at_ns)


class Consumed(Account):
    """A consumer's account: each record it shows, what it was given and gave back, what it committed."""

    def __init__(self, config: ForeignConfig) -> None:
        super().__init__(config, "reads", "groups", "commits", "positions")
        self._positions: dict[int, int] = {}  # of each partition that it told of, one past the last offset
        self._ends: list[LogEnd] | None = None
        self._before = self._assignment = (config.life - 1) * LIFE
        self._read = 0
        self._said_read = 0

    def counts(self) -> tuple[int, int, int]:
        return self._read, 0, 0

    def _take(self, event: Event, at_ns: int) -> bool:
        if event.name == "record_data":
            self._record(event, at_ns)
        elif event.name == "records_consumed":
            self._said_read += event.count or 0
        elif event.name in ("partitions_assigned", "partitions_revoked", "partitions_lost"):
            self._group(event.name.removeprefix("partitions_"), event.partitions, at_ns)
        elif event.name == "offsets_committed":
            self._committed(event, at_ns)
        elif event.name not in SILENT_EVENTS:
            self._note(at_ns, "unknown event", f"line {self._lines:,}: {_shown(event.name)!r}")
        return event.name in ("record_data", "records_consumed", "partitions_assigned")

    def _record(self, event: Event, at_ns: int) -> None:
        if self._lacks(event, at_ns, "partition", "offset") or not self._is_ours(event.topic, at_ns):
            return
        self._read += 1
        if event.partition is not None and event.offset is not None:
            self._positions[event.partition] = max(event.offset + 1, self._positions.get(event.partition, 0))
        producer, seq = unpack_text(None if event.value is None else event.value.encode(), self._config.foreign)
        self._writers["reads"].add(
            **self._row(event.partition),
            offset=event.offset,
            producer=producer,
            seq=seq,
            read_ns=at_ns,
            poll=self._before + self._read,  # by line, which keeps their order
            assignment=self._assignment,
        )

    def _row(self, partition: int | None) -> dict[str, Any]:
        config = self._config
        return {"consumer": config.id, "group": config.group_id, "topic": config.topic_id, "partition": partition}

    def _group(self, event: str, places: list[Place], at_ns: int) -> None:
        self._assignment += event == "assigned"
        shown = ", ".join(f"{_shown(place.topic)}/{place.partition}" for place in places) or "nothing"
        print(f"{self._config.name} {GROUP_WORDS[event]} {shown}", flush=True)
        for place in places:
            if self._is_ours(place.topic, at_ns):
                row = self._row(place.partition)
                self._writers["groups"].add(**row, at_ns=at_ns, event=event, assignment=self._assignment)

    def _committed(self, event: Event, at_ns: int) -> None:
        outcome = "ok" if event.success else "info"
        for place in event.offsets:
            if place.offset is not None and self._is_ours(place.topic, at_ns):
                row = {**self._row(place.partition), "offset": place.offset}
                self._writers["commits"].add(
                    **row, at_ns=at_ns, outcome=outcome, error=event.error and _shown(event.error)
                )

    def close(self, at_ns: int) -> None:
        if self._said_read > self._read:
            told = f"{self._said_read:,} read by its own count, {self._read:,} shown; it needs --verbose, or its like"
            self._note(at_ns, "miscount", told)
        for partition, position in sorted(self._positions.items()):
            self._writers["positions"].add(**self._row(partition), at_ns=at_ns, position=position)
        super().close(at_ns)

    def read_whole(self) -> int:
        if self._ends is None and self._config.over is not None and (over := Path(self._config.over)).exists():
            ends = msgspec.json.decode(over.read_bytes(), type=list[LogEnd])
            self._ends = [end for end in ends if end.topic == self._config.topic_id]
        return sum(self._positions.get(end.partition, end.log_start) >= end.high_watermark for end in self._ends or [])


def _shown(text: str) -> str:
    return text[:SHOWN_MOST]
