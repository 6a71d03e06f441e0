"""Collects a producer's delivery reports, and turns thousands of them at a time into columns of the table `sends`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, Message

from ackproof.clients.producer.error_outcomes import outcome_of
from ackproof.journal.writer import repeated
from ackproof.model.message import MESSAGE

NO_OFFSET, NO_PARTITION = -1001, -1

Numbers = npt.NDArray[np.int64]
Show = Callable[[int, int | None, int | None, str | None], None]  # number, partition, offset, error


class ReportedSends(NamedTuple):
    """Columns of `sends`."""

    seq: Numbers
    done_ns: pa.Array
    partition: pa.Array
    offset: pa.Array
    outcome: pa.Array
    error: pa.Array


class DeliveryReports:
    """The delivery reports in the order in which they came. `take` removes them, for the journal.

    A producer at full speed spends most of its time in the callback, which runs once for every message. So the callback
    only keeps the message. The thread that polls the client calls `stamp` after each poll. All reports of one poll get
    one time, and their numbers and offsets are read while the messages are still in the processor's cache. `take` does
    the rest, for thousands of messages at a time.
    """

    def __init__(self, retries: bool, has_offsets: bool = True, show: Show | None = None) -> None:
        """`has_offsets` is False with acks=0: there the client's offset is only a place in its own batch."""
        self._retries = retries
        self._has_offsets = has_offsets
        self._partitions = 0  # not known
        self.acked = self.failed = self.unknown = 0
        self._messages: list[Any] = []  # since the last stamp
        self._values: list[bytes] = []  # this list and the next two have one entry for each stamp
        self._offsets: list[Numbers] = []
        self._partition: list[Numbers] = []
        self._stamped = 0
        self._errors: dict[int, str] = {}  # by place among all reports; errors are few, so a dict costs nothing
        self._refused: list[tuple[int, str, int]] = []
        self._stamps: list[tuple[int, int]] = []  # how many reports came, and when
        self.delivered = self._keeping() if show is None else self._showing(show)

    def _keeping(self) -> Callable[[KafkaError | None, Any], None]:
        keep, messages, errors = self._messages.append, self._messages, self._errors

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                errors[self._stamped + len(messages)] = error.name()
            keep(message)

        return delivered

    def _showing(self, show: Show) -> Callable[[KafkaError | None, Any], None]:
        keep = self._keeping()

        def delivered(error: KafkaError | None, message: Any) -> None:
            keep(error, message)
            seq = MESSAGE.unpack_from(message.value())[2]
            offset = message.offset() if error is None and self._has_offsets else None
            show(seq, message.partition(), offset, error.name() if error else None)

        return delivered

    def refused(self, seq: int, name: str) -> None:
        """Note a message that the client did not accept."""
        self._refused.append((seq, name, time.monotonic_ns()))

    def know_partitions(self, count: int) -> None:
        """Tell how many partitions the topic has. With one, no message is asked for its partition."""
        self._partitions = count

    def stamp(self) -> None:
        messages = self._messages
        if not messages:
            return
        now, count = time.monotonic_ns(), len(messages)
        self._values.append(b"".join(map(_VALUE, messages)))
        self._offsets.append(_from_each(_OFFSET, messages, NO_OFFSET))
        if self._partitions != 1:
            self._partition.append(_from_each(_PARTITION, messages, NO_PARTITION))
        self._stamps.append((count, now))
        self._stamped += count
        messages.clear()

    def __len__(self) -> int:
        return self._stamped + len(self._refused)

    def take(self) -> ReportedSends:
        """Remove all reports since the last call, and return them."""
        self.stamp()
        errors, refused, stamps = dict(self._errors), self._refused, self._stamps
        count, total = self._stamped, len(self)
        seq = np.empty(total, dtype=np.int64)
        seq[:count] = _numbers(b"".join(self._values), count)
        seq[count:] = [number for number, _, _ in refused]
        done_ns = np.empty(total, dtype=np.int64)
        done_ns[:count] = np.repeat([at for _, at in stamps], [came for came, _ in stamps])
        done_ns[count:] = [at for _, _, at in refused]
        partition = np.full(total, NO_PARTITION, dtype=np.int32)
        offset = np.full(total, NO_OFFSET, dtype=np.int64)
        partition[:count] = np.concatenate(self._partition) if self._partition else 0
        offset[:count] = np.concatenate(self._offsets) if self._offsets else ()
        self._errors.clear()  # the callback holds a reference to this dict
        self._stamped = 0
        self._values, self._offsets, self._partition, self._refused, self._stamps = [], [], [], [], []
        wrong = {**errors, **{count + place: name for place, (_, name, _) in enumerate(refused)}}
        offset[list(wrong) if self._has_offsets else slice(None)] = NO_OFFSET
        unknown = offset < 0
        offsets = pa.array(offset, mask=unknown) if unknown.any() else pa.array(offset)
        outcome, error = self._outcomes(total, wrong)
        return ReportedSends(seq, pa.array(done_ns), pa.array(partition), offsets, outcome, error)

    def _outcomes(self, total: int, wrong: dict[int, str]) -> tuple[pa.Array, pa.Array]:
        """The columns `outcome` and `error`. `wrong` holds the errors, by place."""
        self.acked += total - len(wrong)
        if not wrong:
            return repeated("ok", pa.string(), total), repeated(None, pa.string(), total)
        outcome = np.full(total, "ok", dtype=object)
        error = np.full(total, None, dtype=object)
        for place, name in wrong.items():
            outcome[place], error[place] = outcome_of(name, self._retries), name
        failed = int((outcome == "fail").sum())
        self.failed += failed
        self.unknown += len(wrong) - failed
        return pa.array(outcome, pa.string()), pa.array(error, pa.string())


_VALUE = cast(Callable[[Any], bytes], Message.value)
_OFFSET, _PARTITION = (cast(Callable[[Any], int | None], method) for method in (Message.offset, Message.partition))


def _from_each(method: Callable[[Any], int | None], messages: list[Any], unknown: int) -> Numbers:
    """The number that a method returns for each message, and `unknown` for None, which acks=0 always gives."""
    try:
        return np.fromiter(cast(Iterator[int], map(method, messages)), np.int64, len(messages))
    except TypeError:
        found = map(method, messages)
        return np.fromiter((unknown if number is None else number for number in found), np.int64, len(messages))


def _numbers(joined: bytes, count: int) -> Numbers:
    """The numbers of `count` messages, read from their joined values."""
    step = len(joined) // count if count else MESSAGE.size
    if step != MESSAGE.size:  # all messages are padded to one size
        joined = b"".join(joined[place : place + MESSAGE.size] for place in range(0, len(joined), step))
    return np.frombuffer(joined, dtype=_MESSAGE_DTYPE)["seq"].astype(np.int64)


_MESSAGE_DTYPE = np.dtype([("magic", "S4"), ("producer", ">i4"), ("seq", ">i8")])


class DeliveryPrinter:
    """Prints each message with its offset, in slow shapes; if the offset falls, a failover and how many were lost."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last: dict[int | None, int] = {}  # by partition

    def show(self, seq: int, partition: int | None, offset: int | None, error: str | None) -> None:
        if offset is None or offset < 0:
            print(f"{self._name}: {seq} {'not acknowledged: ' + error if error else 'acknowledged without offset'}")
        else:
            last = self._last.get(partition, -1)
            if offset <= last:
                print(f"{self._name}: failed over, {last + 1 - offset} lost")
            self._last[partition] = offset
            print(f"{self._name}: {seq} at offset {offset}")
        sys.stdout.flush()
