"""The final read: it waits until the healed cluster has settled, then reads every partition from its start to its end.

A cluster has settled when every partition has a leader, the high watermark is at the log's end (since Kafka 3.7 it does
not move while the ISR is too small), and the ISR has at least min.insync.replicas. For a while the final read also
waits until the ISR is full again. An earlier read would miss records that are only not visible yet.
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
ROUNDS_MOST = 10


class FinalReadConfig(msgspec.Struct, frozen=True):
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
    external: list[int] = []  # the external producers of the run
    digests: bool = False  # whether to write digests of the records, to compare them with a mirror's
    mirrors: list[str] = []  # mirrored topics: their records go to a table of their own


class PartitionEnd(msgspec.Struct, frozen=True):
    """A partition as its leader reports it."""

    state: Partition
    log_start: int
    high_watermark: int
    log_end: int
    topic_id: str | None = None

    @property
    def place(self) -> tuple[str, int]:
        return self.state.topic, self.state.partition


def partition_ends(config: FinalReadConfig) -> list[PartitionEnd] | str:
    """Every partition's end as its leader reports it, or a sentence about what is still missing."""
    best: dict[tuple[str, int], Partition] = {}
    ids: dict[tuple[str, int], str | None] = {}
    brokers = {number: Broker(address, port, 2.0) for number, (address, port) in config.brokers.items()}
    try:
        for number, broker in brokers.items():
            try:
                found = broker.metadata(list(config.topics))
                for state in found.partitions:
                    key = (state.topic, state.partition)
                    if state.leader == number and (key not in best or _epoch(state) > _epoch(best[key])):
                        best[key], ids[key] = state, found.topic_ids.get(state.topic)
            except NoAnswer:
                continue  # a broker that is down leads no partition
        result = []
        for topic, count in config.partitions.items():
            for number in range(count):
                if (topic, number) not in best:
                    return f"no broker leads {topic}/{number}"
        for key, state in sorted(best.items()):
            own = brokers[state.leader or 0].offsets([key])[key]
            if own.high_watermark is None or own.log_end is None or own.log_start is None:
                return f"{key[0]}/{key[1]}: its leader does not report its offsets"
            result.append(PartitionEnd(state, own.log_start, own.high_watermark, own.log_end, ids[key]))
        return result
    except NoAnswer as silence:
        return str(silence)
    finally:
        for broker in brokers.values():
            broker.close()


def _epoch(state: Partition) -> int:
    return -1 if state.leader_epoch is None else state.leader_epoch


def why_not_settled(config: FinalReadConfig, found: list[PartitionEnd], full: bool) -> str | None:
    """Why the cluster has not settled; None if it has. With `full`, every replica must be in sync."""
    for end in found:
        name = f"{end.state.topic}/{end.state.partition}"
        if end.high_watermark != end.log_end:
            return f"{name}: the high watermark is {end.high_watermark}, the log's end {end.log_end}"
        wanted = len(end.state.replicas) if full else config.min_isr[end.state.topic]
        if len(end.state.isr) < wanted:
            return f"{name}: {len(end.state.isr)} in sync, {wanted} wanted"
    return None


def settle(config: FinalReadConfig) -> tuple[list[PartitionEnd], str | None]:
    """The ends when they no longer change, and None; or after the deadline, why the cluster has not settled."""
    begun = time.monotonic()
    previous: list[tuple[int, int]] = []
    while True:
        waited_s = time.monotonic() - begun
        found = partition_ends(config)
        why = found if isinstance(found, str) else why_not_settled(config, found, full=waited_s < config.full_isr_s)
        if not isinstance(found, str):
            now = [(end.high_watermark, _epoch(end.state)) for end in found]
            if why is None and now == previous:
                return found, None
            previous = now
        if waited_s > config.settle_s:
            return ([] if isinstance(found, str) else found), why or "the logs still grow"
        time.sleep(0.1)


class FinalRead:
    def __init__(self, config: FinalReadConfig) -> None:
        self._config = config
        directory = Path(config.directory)
        tables = ("log", "ends", *(("mirrored", "mirror_ends") if config.mirrors else ()))
        self._tables = {name: Writer(directory, name, config.run, config.name) for name in tables}
        self._progress = Progress(Path(config.progress), create=True)
        self._read = 0

    def run(self) -> int:
        found, why = settle(self._config)
        if why is not None:
            print(f"not settled: {why}", flush=True)
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
        whole = self._read_all(client, found)
        client.close()
        for table in self._tables.values():
            table.close(seal=False)
        return 0 if whole and found and why is None else 1

    def _read_all(self, client: Consumer, found: list[PartitionEnd]) -> bool:
        """Read every partition until none grows any more. Return whether everything was read.

        A connection may hold a request back, so that it is written after its producer has ended.
        """
        read_to = {end.place: end.log_start for end in found}
        for _ in range(ROUNDS_MOST):
            for end in found:
                read_to[end.place] = self._read_partition(client, end, read_to[end.place])
            grown = partition_ends(self._config)
            if isinstance(grown, str) or all(end.high_watermark <= read_to.get(end.place, 0) for end in grown):
                break
            starts = {end.place: end.log_start for end in found}
            found = [replace(end, log_start=starts[end.place]) for end in grown if end.place in starts]
        for end in found:
            known = max(end.high_watermark, read_to[end.place])  # every message that was read is below it
            self._write_end(replace(end, high_watermark=known, log_end=max(known, end.log_end)), read_to[end.place])
        return all(end.high_watermark <= read_to[end.place] for end in found)

    def _read_partition(self, client: Consumer, end: PartitionEnd, position: int) -> int:
        """Read up to the high watermark. Return the position that was reached."""
        place = TopicPartition(end.state.topic, end.state.partition, position)
        client.assign([place])
        stalled = time.monotonic() + STALL_S
        while position < end.high_watermark and time.monotonic() < stalled:
            try:
                messages = client.consume(BATCH, timeout=0.2)
            except KafkaException as problem:
                print(f"{end.state.topic}/{end.state.partition}: {problem}", flush=True)
                break
            good = [message for message in messages if message.error() is None]
            if good:
                self._journal(end, good)
                stalled = time.monotonic() + STALL_S
            (where,) = client.position([place])
            position = max(position, where.offset)  # it also passes the markers of transactions, which are no messages
        return position

    def _journal(self, end: PartitionEnd, messages: list[Any]) -> None:
        external = self._config.external
        numbers = [unpack(message.value(), external) for message in messages]
        count = len(messages)
        digests = {"digest": [digest(message) for message in messages]} if self._config.digests else {}
        mirrored = end.state.topic in self._config.mirrors
        self._tables["mirrored" if mirrored else "log"].add_columns(
            {
                "topic": [self._config.topics[end.state.topic]] * count,
                "partition": [end.state.partition] * count,
                "offset": [message.offset() for message in messages],
                "leader_epoch": pa.array([message.leader_epoch() for message in messages], pa.int32()),
                "producer": [producer for producer, _ in numbers],
                "seq": [seq for _, seq in numbers],
                **digests,
            }
        )
        self._read += count
        self._progress.write(1, self._read, 0, 0, 0, 0)

    def _write_end(self, end: PartitionEnd, read_to: int) -> None:
        state, config = end.state, self._config
        table = self._tables["mirror_ends" if state.topic in config.mirrors else "ends"]
        table.add(
            topic=config.topics[state.topic],
            partition=state.partition,
            log_start=end.log_start,
            high_watermark=end.high_watermark,
            log_end=end.log_end,
            read_to=read_to,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            replicas=list(state.replicas),
            isr=list(state.isr),
            min_isr=config.min_isr[state.topic],
            compacted=state.topic in config.compacted,
            transactional=state.topic in config.transactional,
            at_ns=time.monotonic_ns(),
            topic_id=end.topic_id,
        )
        table.flush()


def digest(message: Any) -> int:
    """A hash of a record's key, value, headers and timestamp; partition and offset do not count."""
    parts = [message.key(), message.value(), struct.pack(">q", message.timestamp()[1])]
    for name, value in message.headers() or ():
        parts += [name.encode(), value]
    hashed = hashlib.blake2b(digest_size=8)
    for part in parts:
        hashed.update(struct.pack(">q", -1 if part is None else len(part)) + (part or b""))
    return int.from_bytes(hashed.digest(), signed=True)


def main() -> None:
    config = read_config(FinalReadConfig)
    with Lateness(config.directory, config.run, config.name):
        code = FinalRead(config).run()
    sys.exit(code)


if __name__ == "__main__":
    main()
