"""A producer's delivery reports: kept as they come, and turned into the columns of `sends` by the thousand."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, Message

from ackproof.clients.producer.error_outcomes import meaning
from ackproof.journal.writer import repeated
from ackproof.model.message import MESSAGE

NO_OFFSET, NO_PARTITION = -1001, -1

Numbers = npt.NDArray[np.int64]
Say = Callable[[int, int | None, int | None, str | None], None]  # number, partition, offset, error


class Outcomes:
    """What came back, in the order it came; emptied into the journal by `take`.

    The callback runs once for every message and is what a producer at full speed spends its time on. So it only keeps
    what it was given. Whoever polls the client calls `stamp` afterwards: what one poll brought came at one moment, and
    is asked for its number and its offset while it is still in the processor's cache. The rest is worked out by `take`,
    for thousands of messages at a time.
    """

    def __init__(self, retries: bool, answered: bool = True, say: Say | None = None) -> None:
        """`answered`: not with acks=0, where what the client calls an offset is only a place in its own batch."""
        self._retries = retries
        self._answered = answered
        self._partitions = 0  # not known
        self.acked = self.failed = self.unknown = 0
        self._messages: list[Any] = []  # since the last stamp
        self._values: list[bytes] = []  # these and the next two: one entry for each stamp
        self._offsets: list[Numbers] = []
        self._partition: list[Numbers] = []
        self._stamped = 0
        self._errors: dict[int, str] = {}  # by place among all: few, so a dict costs nothing
        self._refused: list[tuple[int, str, int]] = []
        self._stamps: list[tuple[int, int]] = []  # how many came, and when
        self.delivered = self._keeping() if say is None else self._saying(say)

    def _keeping(self) -> Callable[[KafkaError | None, Any], None]:
        keep, messages, errors = self._messages.append, self._messages, self._errors

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                errors[self._stamped + len(messages)] = error.name()
            keep(message)

        return delivered

    def _saying(self, say: Say) -> Callable[[KafkaError | None, Any], None]:
        keep = self._keeping()

        def delivered(error: KafkaError | None, message: Any) -> None:
            keep(error, message)
            seq = MESSAGE.unpack_from(message.value())[2]
            offset = message.offset() if error is None and self._answered else None
            say(seq, message.partition(), offset, error.name() if error else None)

        return delivered

    def refused(self, seq: int, name: str) -> None:
        """The client did not even take it."""
        self._refused.append((seq, name, time.monotonic_ns()))

    def know_partitions(self, count: int) -> None:
        """With one partition there is nothing to ask a message for."""
        self._partitions = count

    def stamp(self) -> None:
        messages = self._messages
        if not messages:
            return
        now, count = time.monotonic_ns(), len(messages)
        self._values.append(b"".join(map(_VALUE, messages)))
        self._offsets.append(_asked(_OFFSET, messages, NO_OFFSET))
        if self._partitions != 1:
            self._partition.append(_asked(_PARTITION, messages, NO_PARTITION))
        self._stamps.append((count, now))
        self._stamped += count
        messages.clear()

    def __len__(self) -> int:
        return self._stamped + len(self._refused)

    def take(self) -> dict[str, Any]:
        """The columns of `sends` for all that came since the last time; `seq` as numpy has it."""
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
        self._errors.clear()  # the callback holds this very dict
        self._stamped = 0
        self._values, self._offsets, self._partition, self._refused, self._stamps = [], [], [], [], []
        wrong = {**errors, **{count + place: name for place, (_, name, _) in enumerate(refused)}}
        offset[list(wrong) if self._answered else slice(None)] = NO_OFFSET
        unknown = offset < 0
        return {
            "seq": seq,
            "done_ns": pa.array(done_ns),
            "partition": pa.array(partition),
            "offset": pa.array(offset, mask=unknown) if unknown.any() else pa.array(offset),
            **self._judged(total, wrong),
        }

    def _judged(self, total: int, wrong: dict[int, str]) -> dict[str, Any]:
        self.acked += total - len(wrong)
        if not wrong:
            return {"outcome": repeated("ok", pa.string(), total), "error": repeated(None, pa.string(), total)}
        outcome = np.full(total, "ok", dtype=object)
        error = np.full(total, None, dtype=object)
        for place, name in wrong.items():
            outcome[place], error[place] = meaning(name, self._retries).outcome, name
        failed = int((outcome == "fail").sum())
        self.failed += failed
        self.unknown += len(wrong) - failed
        return {"outcome": pa.array(outcome, pa.string()), "error": pa.array(error, pa.string())}


_VALUE = cast(Callable[[Any], bytes], Message.value)
_OFFSET, _PARTITION = (cast(Callable[[Any], int | None], method) for method in (Message.offset, Message.partition))


def _asked(method: Callable[[Any], int | None], messages: list[Any], unknown: int) -> Numbers:
    """A number from each message; where one has none, as all have with acks=0, the slow way."""
    try:
        return np.fromiter(cast(Iterator[int], map(method, messages)), np.int64, len(messages))
    except TypeError:
        found = map(method, messages)
        return np.fromiter((unknown if number is None else number for number in found), np.int64, len(messages))


def _numbers(joined: bytes, count: int) -> Numbers:
    """The number of each of so many messages, from their own values."""
    step = len(joined) // count if count else MESSAGE.size
    if step != MESSAGE.size:  # padded, all of them to the same size
        joined = b"".join(joined[place : place + MESSAGE.size] for place in range(0, len(joined), step))
    return np.frombuffer(joined, dtype=_MESSAGE_DTYPE)["seq"].astype(np.int64)


_MESSAGE_DTYPE = np.dtype([("magic", "S4"), ("producer", ">i4"), ("seq", ">i8")])


class Spoken:
    """The slow shape's words: each value with its offset; when the offset falls, a fail-over with the number lost."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last: dict[int | None, int] = {}  # by partition

    def say(self, seq: int, partition: int | None, offset: int | None, error: str | None) -> None:
        if offset is None or offset < 0:
            print(f"{self._name}: {seq} {'not acknowledged: ' + error if error else 'acknowledged without offset'}")
        else:
            last = self._last.get(partition, -1)
            if offset <= last:
                print(f"{self._name}: failed over, {last + 1 - offset} lost")
            self._last[partition] = offset
            print(f"{self._name}: {seq} at offset {offset}")
        sys.stdout.flush()
