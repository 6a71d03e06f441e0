"""Turns the events that an external client prints into rows of the journal.

The events are those of Kafka's own verifiable producer and consumer. An event's time is when its line arrived in the
lab; the client's own clock is ignored. Output that makes no sense goes to `oddities`, as it came: a line that is not an
event, a value that the client was not given, an acknowledgement that comes twice. Nothing is guessed from it.
"""

from __future__ import annotations

from array import array
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ackproof.clients.runtime import GROUP_WORDS, LIFE, LogEnd
from ackproof.journal.writer import Writer
from ackproof.model.message import unpack_text, value_of

ODDITIES_MOST = 1_000  # of each kind
SHOWN_MOST = 120  # characters of a client's own text
LINE_MOST = 1 << 20  # bytes of an event
NO_OFFSET, NOT_ACKNOWLEDGED = -1, -2
IGNORED_EVENTS = frozenset({"startup_complete", "shutdown_requested", "shutdown_complete"})


class ExternalClientConfig(msgspec.Struct, frozen=True):
    run: int
    directory: str
    kind: Literal["producer", "consumer"]
    id: int
    name: str
    journal: str  # the name of its journal files; a consumer that is started again gets another name
    topic: str
    topic_id: int
    command: list[str]
    folder: str  # its working directory
    progress: str
    external: list[int]  # all external producers of the run
    parent: int | None = None  # a client on the host ends with this process; the lab itself ends the clients inside it
    go: str | None = None  # a producer starts when this file exists
    count: int = 0  # of a producer
    group_id: int = 0  # of a consumer
    life: int = 1
    over: str | None = None  # of a consumer: this file exists when the logs no longer grow, and says where each ends


Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class EventPartition(msgspec.Struct, frozen=True):
    topic: str
    partition: Int32
    offset: Int64 | None = None


class Event(msgspec.Struct, frozen=True):
    """A line: its name and any of these fields. Other fields are ignored."""

    name: str
    topic: str | None = None
    partition: Int32 | None = None
    offset: Int64 | None = None
    value: str | None = None
    message: str | None = None  # of an error, as is `exception`
    exception: str | None = None
    partitions: list[EventPartition] = []
    offsets: list[EventPartition] = []
    success: bool = True
    error: str | None = None
    count: int | None = None
    acked: int | None = None


_DECODER = msgspec.json.Decoder(Event)


class EventLog:
    """The events of one client: the part that producers and consumers share."""

    def __init__(self, config: ExternalClientConfig, *tables: str) -> None:
        self._config = config
        directory = Path(config.directory)
        self._writers = {table: Writer(directory, table, config.run, config.journal) for table in (*tables, "oddities")}
        self._odd: Counter[str] = Counter()
        self._lines = 0
        self.ready = False

    def hear(self, line: bytes, at_ns: int, whole: bool = True) -> None:
        """Take one line. `whole` is False if the client ended in the middle of it."""
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
        """Write an event down. Return whether it shows that the client is at work."""
        raise NotImplementedError

    def counts(self) -> tuple[int, int, int]:
        """For the progress page: how many messages were reported, acknowledged, and of unknown outcome."""
        raise NotImplementedError

    def read_whole(self) -> int:
        """In how many partitions a consumer has printed the last message; 0 until the load is over."""
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
            at_ns, "not ours", f"line {self._lines:,}: topic {_shown(topic or '')!r} instead of {self._config.topic!r}"
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


class ProducerEventLog(EventLog):
    """The events of a producer.

    All its numbers are reserved before it starts. The outcome of a number that it never reports is unknown: it may have
    sent that message or not. The outcome after an error is unknown as well, and the client may still try again. So an
    error is written down at the end, unless the value was acknowledged after all.
    """

    def __init__(self, config: ExternalClientConfig, at_ns: int) -> None:
        super().__init__(config, "blocks", "sends")
        self._writers["blocks"].add(producer=config.id, first_seq=0, count=config.count, at_ns=at_ns)
        self._writers["blocks"].flush()
        self._offsets = array("q", [NOT_ACKNOWLEDGED]) * config.count
        self._partitions = array("i", [-1]) * config.count
        self._errors: dict[int, tuple[int, str, int]] = {}  # by number: time, error, partition
        self._acked = 0
        self._own_count: int | None = None  # how many were acknowledged, as the client counts

    def counts(self) -> tuple[int, int, int]:
        return self._acked + len(self._errors), self._acked, len(self._errors)

    def _take(self, event: Event, at_ns: int) -> bool:
        if event.name == "producer_send_success":
            self._acknowledged(event, at_ns)
        elif event.name == "producer_send_error":
            self._failed(event, at_ns)
        elif event.name == "tool_data":
            self._own_count = event.acked
        elif event.name not in IGNORED_EVENTS:
            self._note(at_ns, "unknown event", f"line {self._lines:,}: {_shown(event.name)!r}")
        return True

    def _number(self, event: Event, at_ns: int) -> int | None:
        if self._lacks(event, at_ns, "value") or not self._is_ours(event.topic, at_ns):
            return None
        producer, seq = unpack_text((event.value or "").encode(), [self._config.id])
        if producer < 0 or seq >= self._config.count:
            last = value_of(self._config.id, self._config.count - 1)
            given = f"it was given {value_of(self._config.id, 0)} to {last}"
            self._note(at_ns, "not ours", f"line {self._lines:,}: the value {_shown(event.value or '')!r}; {given}")
            return None
        return seq

    def _acknowledged(self, event: Event, at_ns: int) -> None:
        if (seq := self._number(event, at_ns)) is None:
            return
        offset = NO_OFFSET if event.offset is None or event.offset < 0 else event.offset
        partition = -1 if event.partition is None else event.partition
        if self._offsets[seq] != NOT_ACKNOWLEDGED:
            before = (self._partitions[seq], self._offsets[seq])
            kind = "twice" if before == (partition, offset) else "contradiction"
            text = f"{event.value} acknowledged at {partition}/{offset}, and before at {before[0]}/{before[1]}"
            self._note(at_ns, kind, f"line {self._lines:,}: {text}")
            return
        self._offsets[seq], self._partitions[seq] = offset, partition
        self._errors.pop(seq, None)
        self._acked += 1
        self._send(seq, at_ns, partition, outcome="ok", offset=None if offset == NO_OFFSET else offset)

    def _failed(self, event: Event, at_ns: int) -> None:
        if (seq := self._number(event, at_ns)) is None:
            return
        if self._offsets[seq] != NOT_ACKNOWLEDGED:
            text = f"{event.value} failed, and before it was acknowledged"
            self._note(at_ns, "contradiction", f"line {self._lines:,}: {text}")
            return
        if seq in self._errors:
            self._note(at_ns, "twice", f"line {self._lines:,}: {event.value} failed, and it had failed before")
        error = _shown((event.exception or event.message or "no reason given").removeprefix("class "))
        self._errors[seq] = (at_ns, error, -1 if event.partition is None else event.partition)

    def _send(
        self, seq: int, at_ns: int, partition: int, outcome: str, offset: int | None = None, error: str | None = None
    ) -> None:
        times = {"due_ns": at_ns, "sent_ns": at_ns, "done_ns": at_ns}
        where = {"topic": self._config.topic_id, "partition": partition, "offset": offset}
        self._writers["sends"].add(producer=self._config.id, seq=seq, **where, **times, outcome=outcome, error=error)

    def close(self, at_ns: int) -> None:
        for seq, (failed_ns, error, partition) in sorted(self._errors.items()):
            self._send(seq, failed_ns, partition, outcome="info", error=error)
        if self._own_count is not None and self._own_count != self._acked:
            text = f"{self._own_count:,} acknowledged by its own count, {self._acked:,} by its events"
            self._note(at_ns, "miscount", text)
        super().close(at_ns)


class ConsumerEventLog(EventLog):
    """The events of a consumer: the records it shows, the partitions it gets and gives back, the offsets it commits."""

    def __init__(self, config: ExternalClientConfig) -> None:
        super().__init__(config, "reads", "groups", "commits", "positions")
        self._positions: dict[int, int] = {}  # by reported partition: one past the last offset
        self._ends: list[LogEnd] | None = None
        self._before = self._assignment = (config.life - 1) * LIFE
        self._read = 0
        self._own_count = 0  # how many records it read, as the client counts

    def counts(self) -> tuple[int, int, int]:
        return self._read, 0, 0

    def _take(self, event: Event, at_ns: int) -> bool:
        if event.name == "record_data":
            self._record(event, at_ns)
        elif event.name == "records_consumed":
            self._own_count += event.count or 0
        elif event.name in ("partitions_assigned", "partitions_revoked", "partitions_lost"):
            self._group(event.name.removeprefix("partitions_"), event.partitions, at_ns)
        elif event.name == "offsets_committed":
            self._committed(event, at_ns)
        elif event.name not in IGNORED_EVENTS:
            self._note(at_ns, "unknown event", f"line {self._lines:,}: {_shown(event.name)!r}")
        return event.name in ("record_data", "records_consumed", "partitions_assigned")

    def _record(self, event: Event, at_ns: int) -> None:
        if self._lacks(event, at_ns, "partition", "offset") or not self._is_ours(event.topic, at_ns):
            return
        self._read += 1
        if event.partition is not None and event.offset is not None:
            self._positions[event.partition] = max(event.offset + 1, self._positions.get(event.partition, 0))
        producer, seq = unpack_text(None if event.value is None else event.value.encode(), self._config.external)
        self._writers["reads"].add(
            **self._row(event.partition),
            offset=event.offset,
            producer=producer,
            seq=seq,
            read_ns=at_ns,
            poll=self._before + self._read,  # each record counts as a poll, which keeps their order
            assignment=self._assignment,
        )

    def _row(self, partition: int | None) -> dict[str, int | None]:
        config = self._config
        return {"consumer": config.id, "group": config.group_id, "topic": config.topic_id, "partition": partition}

    def _group(self, event: str, places: list[EventPartition], at_ns: int) -> None:
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
        if self._own_count > self._read:
            text = (
                f"{self._own_count:,} read by its own count, {self._read:,} printed; give it an option like --verbose"
            )
            self._note(at_ns, "miscount", text)
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
