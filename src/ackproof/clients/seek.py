"""A consumer that seeks to one place of one partition, and reports where it landed.

It seeks by offset or by time. By time, it lands at the first record that is not older; if all are older, it waits at
the log's end. If an offset does not exist, because retention deleted it or because it is not written yet, the
consumer's policy (`auto.offset.reset`) decides, and the report says so.
"""

from __future__ import annotations

import time
from typing import Any, Literal

import msgspec
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

ANSWER_S = 10.0
POLL_S = 0.1


class SeekRequest(msgspec.Struct, frozen=True):
    bootstrap: str
    topic: str
    partition: int
    by: Literal["offset", "time"]
    to: int  # the offset, or milliseconds since 1970
    policy: Literal["earliest", "latest", "error"]


class SeekResult(msgspec.Struct, frozen=True):
    """`offset` is None if no record came: the consumer waits at the end, or got an error."""

    answer: int | None  # by time: the offset that the broker gave; None if every record is older
    offset: int | None
    at_ms: int | None  # the record's timestamp
    before_ms: int | None  # the timestamp of the record before it; None if there is none
    log_start: int
    log_end: int
    log_start_after: int
    log_end_after: int
    error: str | None = None

    def describe(self, request: SeekRequest) -> str:
        what = f"offset {request.to:,}" if request.by == "offset" else f"the time {_clock(request.to)}"
        place = f"{request.topic}/{request.partition}"
        if self.error is not None:
            return f"{place}: seek to {what}: {self.error}"
        if self.offset is None:
            return f"{place}: seek to {what}: waits at the end, {self.log_end_after:,}"
        gone = request.by == "offset" and self.offset != request.to
        why = f", because {request.to:,} does not exist ({request.policy})" if gone else ""
        time_of = f", written {_clock(self.at_ms)}" if request.by == "time" and self.at_ms is not None else ""
        return f"{place}: seek to {what}: landed at {self.offset:,}{time_of}{why}"


def _clock(ms: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(ms / 1000)) + f".{ms % 1000:03d}"


def seek(request: SeekRequest) -> SeekResult:
    client = Consumer(
        {
            "bootstrap.servers": request.bootstrap,
            "group.id": "ackproof-seek",
            "enable.auto.commit": False,
            "auto.offset.reset": request.policy,
            "broker.address.family": "v4",
            "fetch.wait.max.ms": 50,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    try:
        place = TopicPartition(request.topic, request.partition)
        start, end = client.get_watermark_offsets(place, timeout=ANSWER_S)
        answer = _offset_at(client, request) if request.by == "time" else None
        offset = request.to if request.by == "offset" else OFFSET_END if answer is None else answer
        first, error = _first_from(client, request, offset)
        before = None
        if request.by == "time" and first is not None and first.offset() > start:
            before, _ = _first_from(client, request, first.offset() - 1)
            if before is not None and before.offset() >= first.offset():
                before = None  # retention has deleted it since
        start_after, end_after = client.get_watermark_offsets(place, timeout=ANSWER_S)
    finally:
        client.close()
    return SeekResult(
        answer=answer,
        offset=None if first is None else first.offset(),
        at_ms=None if first is None else first.timestamp()[1],
        before_ms=None if before is None else before.timestamp()[1],
        log_start=start,
        log_end=end,
        log_start_after=start_after,
        log_end_after=end_after,
        error=error,
    )


def _offset_at(client: Consumer, request: SeekRequest) -> int | None:
    (found,) = client.offsets_for_times(
        [TopicPartition(request.topic, request.partition, request.to)], timeout=ANSWER_S
    )
    return None if found.offset == OFFSET_END else int(found.offset)


def _first_from(client: Consumer, request: SeekRequest, offset: int) -> tuple[Any, str | None]:
    """The first record at or after an offset, or the error that came instead; neither at the log's end.

    The wait ends only after a minimum number of polls: while this process is stopped, time passes, but the process
    does not wait for Kafka.
    """
    client.assign([TopicPartition(request.topic, request.partition, offset)])
    deadline, polls = time.monotonic() + ANSWER_S, 0
    while time.monotonic() < deadline or polls < ANSWER_S / POLL_S:
        polls += 1
        try:
            message = client.poll(POLL_S)
        except KafkaException as problem:
            return None, problem.args[0].name()
        if message is None:
            continue
        error = message.error()
        if error is None:
            return message, None
        if error.code() == KafkaError._PARTITION_EOF:
            return None, None
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            return None, error.name()
    return None, "_TIMED_OUT"
