"""Two topics side by side, one of them a mirror's: whether all is copied, and where a group goes on in each.

Asked where the observer stands, so that a cut between the sites does not hide the answer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition

ANSWER_S = 10.0
EVERY_S = 0.1
STILL_S = 3.0  # three times the interval at which the mirror writes a group's offsets
TAIL = 10  # where the last record is first looked for: markers of transactions, which are no messages, may follow it


class Pair(msgspec.Struct, frozen=True):
    """A partition and its mirror: where each is asked for, and what it is called there."""

    bootstrap: str
    topic: str
    mirror_bootstrap: str
    mirror: str
    partition: int


def behind(pairs: Sequence[Pair], timeout_s: float) -> list[Pair]:
    """Those whose mirror still lacks the last record when the time is up; none, as soon as none does.

    Whoever asks has seen to it that nobody writes meanwhile.
    """
    deadline = time.monotonic() + timeout_s
    left = list(pairs)
    while True:
        left = [pair for pair in left if not _alike(pair)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(EVERY_S)


def _alike(pair: Pair) -> bool:
    """Whether both end with the same record; not where one of them cannot be asked, or does not answer in time."""
    try:
        own = _last(pair.bootstrap, pair.topic, pair.partition)
        return own == _last(pair.mirror_bootstrap, pair.mirror, pair.partition)
    except (KafkaException, TimeoutError):
        return False


Record = tuple[bytes | None, bytes | None]  # key and value


def _last(bootstrap: str, topic: str, partition: int) -> Record | None:
    """A partition's last record; null where it holds none."""
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
    """The last record from this place on to the end; null where there are only markers."""
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


class Stands(msgspec.Struct, frozen=True):
    """Where a group goes on in each of a pair; null where its cluster has nothing written down."""

    mirror_offset: int | None
    offset: int | None


def stands(group: str, pairs: Sequence[Pair]) -> list[Stands]:
    """The mirror is asked first: what is written there was translated from what the group had committed by then."""
    mirrors = [_committed(group, pair.mirror_bootstrap, pair.mirror, pair.partition) for pair in pairs]
    own = [_committed(group, pair.bootstrap, pair.topic, pair.partition) for pair in pairs]
    return [Stands(*both) for both in zip(mirrors, own, strict=True)]


def stands_still(group: str, pairs: Sequence[Pair], timeout_s: float) -> list[Stands]:
    """The same, once the mirror writes nothing new any more, or the time is up."""
    deadline = time.monotonic() + timeout_s
    found, since = stands(group, pairs), time.monotonic()
    while time.monotonic() - since < STILL_S and time.monotonic() < deadline:
        time.sleep(EVERY_S)
        now = stands(group, pairs)
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
