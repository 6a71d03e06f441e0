"""Compares a topic with its mirror: whether everything is copied, and where a group continues in each of the two.

It asks from the observer's place in the network, so that a cut between the sites does not hide the answer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition

ANSWER_S = 10.0
EVERY_S = 0.1
STILL_S = 3.0  # three times the interval at which the mirror writes a group's offsets
TAIL = 10  # offsets at the log's end; the last record may be further back, because transaction markers may follow it


class Pair(msgspec.Struct, frozen=True):
    """A partition and its mirror, with the name and the bootstrap address of each."""

    bootstrap: str
    topic: str
    mirror_bootstrap: str
    mirror: str
    partition: int


def behind(pairs: Sequence[Pair], timeout_s: float) -> list[Pair]:
    """Wait until every mirror has the last record. Return the pairs whose mirror still lacks it after the timeout.

    The caller ensures that no producer writes meanwhile.
    """
    deadline = time.monotonic() + timeout_s
    left = list(pairs)
    while True:
        left = [pair for pair in left if not _end_alike(pair)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(EVERY_S)


def _end_alike(pair: Pair) -> bool:
    """Whether both end with the same record; False if one of them does not answer in time."""
    try:
        own = _last(pair.bootstrap, pair.topic, pair.partition)
        return own == _last(pair.mirror_bootstrap, pair.mirror, pair.partition)
    except (KafkaException, TimeoutError):
        return False


Record = tuple[bytes | None, bytes | None]  # key and value


def _last(bootstrap: str, topic: str, partition: int) -> Record | None:
    """A partition's last record; None if it is empty."""
    client = _client(bootstrap, "ackproof-mirror")
    deadline = time.monotonic() + ANSWER_S
    tail = TAIL
    try:
        low, high = client.get_watermark_offsets(TopicPartition(topic, partition), timeout=ANSWER_S)
        while True:
            first = max(low, high - tail)
            last = _last_of(client, TopicPartition(topic, partition, first), high, deadline)
            if last is not None or first == low:
                return last
            tail *= 10
    finally:
        client.close()


def _last_of(client: Consumer, place: TopicPartition, high: int, deadline: float) -> Record | None:
    """The last record from this place to the end; None if there are only markers."""
    client.assign([place])
    last = None
    while place.offset < high:
        if time.monotonic() > deadline:
            raise TimeoutError
        message = client.poll(EVERY_S)
        if message is not None and message.error() is None:
            last = (message.key(), message.value())
        (now,) = client.position([place])
        place.offset = max(place.offset, now.offset)
    return last


class GroupOffsets(msgspec.Struct, frozen=True):
    """Where a group continues in the mirror and in the topic; None if the cluster has no committed offset."""

    mirror_offset: int | None
    offset: int | None


def group_offsets(group: str, pairs: Sequence[Pair]) -> list[GroupOffsets]:
    """Where a group continues in each pair. The mirror is asked first, because its offsets were translated earlier."""
    mirrors = [_committed(group, pair.mirror_bootstrap, pair.mirror, pair.partition) for pair in pairs]
    own = [_committed(group, pair.bootstrap, pair.topic, pair.partition) for pair in pairs]
    return [GroupOffsets(*both) for both in zip(mirrors, own, strict=True)]


def settled_group_offsets(group: str, pairs: Sequence[Pair], timeout_s: float) -> list[GroupOffsets]:
    """The same, after the mirror's offsets no longer change, or after the timeout."""
    deadline = time.monotonic() + timeout_s
    found, since = group_offsets(group, pairs), time.monotonic()
    while time.monotonic() - since < STILL_S and time.monotonic() < deadline:
        time.sleep(EVERY_S)
        now = group_offsets(group, pairs)
        if [each.mirror_offset for each in now] != [each.mirror_offset for each in found]:
            since = time.monotonic()
        found = now
    return found


def _committed(group: str, bootstrap: str, topic: str, partition: int) -> int | None:
    client = _client(bootstrap, group)
    try:
        (found,) = client.committed([TopicPartition(topic, partition)], timeout=ANSWER_S)
    except KafkaException:
        return None
    finally:
        client.close()
    return found.offset if found.offset >= 0 else None


def _client(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "broker.address.family": "v4",
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
    )
