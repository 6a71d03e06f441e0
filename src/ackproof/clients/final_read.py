"""The final read: waits until the healed cluster has settled, then reads every partition from its start to its end.

Settled means: a leader everywhere, the ISR at least min.insync.replicas and, as long as there is hope, full again, and
the high watermark at the log's end (since Kafka 3.7 it stands still while the ISR is too small). Read any earlier, the
log would seem to lack what is only not yet visible.
"""

from __future__ import annotations

import hashlib
import struct
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, TopicPartition
from msgspec.structs import replace

from ackproof.clients.lateness import Lateness
from ackproof.clients.runtime import Progress, read_config
from ackproof.journal.writer import Writer
from ackproof.kafka.protocol.broker import Broker, NoAnswer, Partition
from ackproof.model.message import unpack

BATCH = 10_000
STALL_S = 30.0
LOOKS_MOST = 10


class DrainConfig(msgspec.Struct, frozen=True):
    run: int
    directory: str
    name: str
    bootstrap: str
    brokers: dict[int, tuple[str, int]]
    topics: dict[str, int]
    partitions: dict[str, int]  # how many each topic has
    min_isr: dict[str, int]
    compacted: list[str]
    transactional: list[str]
    progress: str
    settle_s: float
    full_isr_s: float
    foreign: list[int] = []  # producers that we did not write
    digests: bool = False  # of what records hold, to be compared with a mirror's
    mirrors: list[str] = []  # topics that a mirror made: what they hold is no log of its own


class End(msgspec.Struct, frozen=True):
    """A partition as its own leader tells it."""

    said: Partition
    log_start: int
    high_watermark: int
    log_end: int
    topic_id: str | None = None

    @property
    def place(self) -> tuple[str, int]:
        return self.said.topic, self.said.partition


def ends(config: DrainConfig) -> list[End] | str:
    """Every partition's end by its leader's own word, or what is still missing."""
    best: dict[tuple[str, int], Partition] = {}
    ids: dict[tuple[str, int], str | None] = {}
    brokers = {number: Broker(address, port, 2.0) for number, (address, port) in config.brokers.items()}
    try:
        for number, broker in brokers.items():
            try:
                found = broker.metadata(list(config.topics))
                for said in found.partitions:
                    key = (said.topic, said.partition)
                    if said.leader == number and (key not in best or _epoch(said) > _epoch(best[key])):
                        best[key], ids[key] = said, found.topic_ids.get(said.topic)
            except NoAnswer:
                continue  # a broker that is down leads nothing that counts
        result = []
        for topic, count in config.partitions.items():
            for number in range(count):
                if (topic, number) not in best:
                    return f"no broker leads {topic}/{number}"
        for key, said in sorted(best.items()):
            own = brokers[said.leader or 0].offsets([key])[key]
            if own.high_watermark is None or own.log_end is None or own.log_start is None:
                return f"{key[0]}/{key[1]}: its leader does not tell its offsets"
            result.append(End(said, own.log_start, own.high_watermark, own.log_end, ids[key]))
        return result
    except NoAnswer as silence:
        return str(silence)
    finally:
        for broker in brokers.values():
            broker.close()


def _epoch(said: Partition) -> int:
    return -1 if said.leader_epoch is None else said.leader_epoch


def missing(config: DrainConfig, found: list[End], full: bool) -> str | None:
    for end in found:
        name = f"{end.said.topic}/{end.said.partition}"
        if end.high_watermark != end.log_end:
            return f"{name}: the high watermark is {end.high_watermark}, the log's end {end.log_end}"
        wanted = len(end.said.replicas) if full else config.min_isr[end.said.topic]
        if len(end.said.isr) < wanted:
            return f"{name}: {len(end.said.isr)} in sync, {wanted} wanted"
    return None


def settle(config: DrainConfig) -> tuple[list[End], str | None]:
    """The ends once they stand still, and what was still missing when time ran out."""
    begun = time.monotonic()
    previous: list[tuple[int, int]] = []
    while True:
        waited_s = time.monotonic() - begun
        found = ends(config)
        lack = found if isinstance(found, str) else missing(config, found, full=waited_s < config.full_isr_s)
        if not isinstance(found, str):
            now = [(end.high_watermark, _epoch(end.said)) for end in found]
            if lack is None and now == previous:
                return found, None
            previous = now
        if waited_s > config.settle_s:
            return ([] if isinstance(found, str) else found), lack or "the logs do not stand still"
        time.sleep(0.1)


class Drain:
    def __init__(self, config: DrainConfig) -> None:
        self._config = config
        directory = Path(config.directory)
        tables = ("log", "ends", *(("mirrored", "mirror_ends") if config.mirrors else ()))
        self._tables = {name: Writer(directory, name, config.run, config.name) for name in tables}
        self._progress = Progress(Path(config.progress), create=True)
        self._read = 0

    def run(self) -> int:
        found, lack = settle(self._config)
        if lack is not None:
            print(f"not settled: {lack}", flush=True)
        client = Consumer(
            {
                "bootstrap.servers": self._config.bootstrap,
                "group.id": "ackproof-final-read",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": False,
                "check.crcs": True,
                "isolation.level": "read_committed",
                "broker.address.family": "v4",
                "fetch.wait.max.ms": 20,
                "queued.min.messages": 1_000_000,
                "queued.max.messages.kbytes": 262_144,
                "log_level": 3,
            }
        )
        whole = self._drain_all(client, found)
        client.close()
        for table in self._tables.values():
            table.close(seal=False)
        return 0 if whole and found and lack is None else 1

    def _drain_all(self, client: Consumer, found: list[End]) -> bool:
        """Whether all was read. What a connection held back may be written after its producer has ended: read on."""
        read_to = {end.place: end.log_start for end in found}
        for _ in range(LOOKS_MOST):
            for end in found:
                read_to[end.place] = self._drain(client, end, read_to[end.place])
            grown = ends(self._config)
            if isinstance(grown, str) or all(end.high_watermark <= read_to.get(end.place, 0) for end in grown):
                break
            starts = {end.place: end.log_start for end in found}
            found = [replace(end, log_start=starts[end.place]) for end in grown if end.place in starts]
        for end in found:
            known = max(end.high_watermark, read_to[end.place])  # a message that was read was below it
            self._write_end(replace(end, high_watermark=known, log_end=max(known, end.log_end)), read_to[end.place])
        return all(end.high_watermark <= read_to[end.place] for end in found)

    def _drain(self, client: Consumer, end: End, position: int) -> int:
        place = TopicPartition(end.said.topic, end.said.partition, position)
        client.assign([place])
        stalled = time.monotonic() + STALL_S
        while position < end.high_watermark and time.monotonic() < stalled:
            try:
                messages = client.consume(BATCH, timeout=0.2)
            except KafkaException as problem:
                print(f"{end.said.topic}/{end.said.partition}: {problem}", flush=True)
                break
            good = [message for message in messages if message.error() is None]
            if good:
                self._journal(end, good)
                stalled = time.monotonic() + STALL_S
            (where,) = client.position([place])
            position = max(position, where.offset)  # past the markers of transactions too, which are no messages
        return position

    def _journal(self, end: End, messages: list[Any]) -> None:
        foreign = self._config.foreign
        numbers = [unpack(message.value(), foreign) for message in messages]
        count = len(messages)
        digests = {"digest": [digest(message) for message in messages]} if self._config.digests else {}
        mirrored = end.said.topic in self._config.mirrors
        self._tables["mirrored" if mirrored else "log"].add_columns(
            {
                "topic": [self._config.topics[end.said.topic]] * count,
                "partition": [end.said.partition] * count,
                "offset": [message.offset() for message in messages],
                "leader_epoch": pa.array([message.leader_epoch() for message in messages], pa.int32()),
                "producer": [producer for producer, _ in numbers],
                "seq": [seq for _, seq in numbers],
                **digests,
            }
        )
        self._read += count
        self._progress.write(1, self._read, 0, 0, 0, 0)

    def _write_end(self, end: End, read_to: int) -> None:
        ends = self._tables["mirror_ends" if end.said.topic in self._config.mirrors else "ends"]
        ends.add(
            topic=self._config.topics[end.said.topic],
            partition=end.said.partition,
            log_start=end.log_start,
            high_watermark=end.high_watermark,
            log_end=end.log_end,
            read_to=read_to,
            leader=end.said.leader,
            leader_epoch=end.said.leader_epoch,
            replicas=list(end.said.replicas),
            isr=list(end.said.isr),
            min_isr=self._config.min_isr[end.said.topic],
            compacted=end.said.topic in self._config.compacted,
            transactional=end.said.topic in self._config.transactional,
            at_ns=time.monotonic_ns(),
            topic_id=end.topic_id,
        )
        ends.flush()


def digest(message: Any) -> int:
    """The same for records of the same key, value, headers and timestamp, wherever they stand."""
    parts = [message.key(), message.value(), struct.pack(">q", message.timestamp()[1])]
    for name, value in message.headers() or ():
        parts += [name.encode(), value]
    told = hashlib.blake2b(digest_size=8)
    for part in parts:
        told.update(struct.pack(">q", -1 if part is None else len(part)) + (part or b""))
    return int.from_bytes(told.digest(), signed=True)


def main() -> None:
    config = read_config(DrainConfig)
    with Lateness(config.directory, config.run, config.name):
        code = Drain(config).run()
    sys.exit(code)


if __name__ == "__main__":
    main()
