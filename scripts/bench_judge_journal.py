"""The journal that `scripts/bench judge` judges: a run of as many messages as one likes, with an outage in its middle.

Ten producers, four partitions, a group of four consumers; every message is sent, acknowledged, in the healed log and
read, one after the other. Then the leader of partition 0 is replaced by one that lacks its last messages, so that later
ones stand at their offsets. For two seconds it acknowledges nothing; the first sends of that time are given up by their
clients: of each three one was written, one was not and its outcome is unknown, and one was refused. Partition 1
gets copies, and in partition 2 neighbours change places. How many is known, and so is what the judge has to find.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ackproof import journal
from ackproof.journal.seal import ROW_GROUP, parquet_writer
from ackproof.journal.writer import Writer
from ackproof.model import run_record, tables
from ackproof.model.journal_tables import TABLES
from ackproof.model.run_record import Clock, ConsumerRecord, FaultRecord, Marks, ProducerRecord, RunRecord, write_record
from ackproof.model.scenario import Scenario, TopicPlan

PRODUCERS, PARTITIONS = 10, 4
FEWEST = 50_000  # messages, so that something of each kind is planted
CHUNK = 2_000_000  # messages made at a time
RUN = 1_700_000_000_000_000
START = 10**12
EVERY_NS = 50_000  # 20,000 messages a second
READ_NS = 8_000_000  # after it was taken
GIVEN_UP_NS = 10**9  # after it was due
POLL_NS = 25_000_000
PAUSE_NS = 2 * 10**9
MOST_GIVEN_UP = 1_000  # of each kind: all of them well within the pause
OK, RECOVERED, NOT_WRITTEN, REJECTED = range(4)
OUTCOMES = ("ok", "info", "info", "fail")
ERRORS = (None, "_MSG_TIMED_OUT", "_MSG_TIMED_OUT", "NOT_ENOUGH_REPLICAS")
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Planted:
    lost: int
    copies: int
    swapped: int
    given_up: int  # of each kind


def plan(messages: int) -> Planted:
    return Planted(
        lost=messages // 5_000,
        copies=messages // 20_000,
        swapped=messages // 50_000,
        given_up=min(messages // 20_000, MOST_GIVEN_UP),
    )


def maker() -> str:
    """Which maker this is: a journal that another one made is another journal."""
    packages = (Path(str(package.__file__)).parent for package in (journal, tables))
    files = [
        Path(__file__),
        Path(run_record.__file__),
        *(file for each in packages for file in sorted(each.glob("*.py"))),
    ]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]


def to_find(messages: int, planted: Planted) -> dict[str, int]:
    """What is planted, and all that follows from it: how many witnesses of each check, and sends of each fate."""
    nothing = (
        "survived_moved", "lost_truncated", "lost_hole", "lost_unplaced", "expired", "resurrected", "unstable_read",
        "phantom", "aborted_read", "offset_gap", "poll_skip", "nonmonotonic_poll", "stale_leader_ack", "undelivered",
        "delivered_twice",
    )  # fmt: skip
    return {
        **dict.fromkeys(("lost", "lost_overwritten", "inconsistent_offset"), planted.lost),
        "duplicated": planted.copies,
        "reordered": planted.swapped,
        "realtime_order": _overtaken(messages // 2, planted),
        **dict.fromkeys(("recovered", "not_written", "rejected"), planted.given_up),
        "survived": messages - planted.lost - 3 * planted.given_up,
        "unavailable": 1,
        "ack_latency": 2,  # since they were due, and since they were sent
        **dict.fromkeys(nothing, 0),
    }


def _overtaken(failed_at: int, planted: Planted) -> int:
    """Acknowledged at an offset at or below one that was acknowledged before it was sent: only what stands where
    messages were lost can be, for all else is written in the order in which it is sent."""
    lost = _last_of(0, failed_at, planted.lost)
    taken = _first_of(0, failed_at, planted.lost + 3 * planted.given_up)
    kind = _kinds(taken, _given_up(failed_at, planted))
    taken, kind = taken[kind <= RECOVERED], kind[kind <= RECOVERED]
    taken, kind = taken[: planted.lost], kind[: planted.lost]  # each at the offset of the lost one of its place
    done = _done(lost, _due(lost))
    in_time = np.argsort(done)
    highest = np.maximum.accumulate(np.append(-1, in_time))
    acked_before = highest[np.searchsorted(done[in_time], _sent(taken), side="left")]
    return int(((kind == OK) & (acked_before >= np.arange(len(taken)))).sum())


class Files:
    """Row groups of the right size, each file in its own order as the messages come."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: dict[tuple[str, str], pq.ParquetWriter] = {}

    def add(self, name: str, file: str, **columns: Any) -> None:
        schema = TABLES[name].schema
        size = len(next(iter(columns.values())))
        arrays = [
            pa.array(columns[field.name], field.type)
            if field.name in columns
            else pa.nulls(size, field.type)
            if field.nullable
            else pa.repeat(pa.scalar(RUN if field.name == "run" else 0, field.type), size)
            for field in schema
        ]
        if (name, file) not in self._open:
            (self._directory / "journal" / name).mkdir(parents=True, exist_ok=True)
            path = self._directory / "journal" / name / f"{file}.parquet"
            self._open[name, file] = parquet_writer(path, schema)
        self._open[name, file].write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=ROW_GROUP)

    def close(self) -> None:
        for writer in self._open.values():
            writer.close()


def make(directory: Path, messages: int, planted: Planted) -> None:
    """Message m is number m // 10 of producer m % 10; it is due, sent, acknowledged and read one after the other."""
    directory.mkdir(parents=True)
    files = Files(directory)
    ends = np.zeros(PARTITIONS, np.int64)
    failed_at = messages // 2
    first_lost = _last_of(0, failed_at, planted.lost)[0]
    given_up = _given_up(failed_at, planted)
    swapped = planted.swapped
    for first in range(0, messages, CHUNK):
        number = np.arange(first, min(first + CHUNK, messages))
        for part in np.split(number, np.searchsorted(number, [failed_at])):
            if not len(part):
                continue
            if part[0] == failed_at:
                ends[0] -= planted.lost
                _copy(files, ends, part[0], planted.copies)
            partition = _partition(part)
            kind = _kinds(part, given_up)
            offset = np.zeros(len(part), np.int64)
            for each in range(PARTITIONS):
                mine = (partition == each) & (kind <= RECOVERED)
                offset[mine] = ends[each] + np.arange(mine.sum())
                ends[each] += mine.sum()
            if part[0] >= failed_at and swapped:
                swapped -= _swap(part, partition, offset, swapped)
            lost = (partition == 0) & (part >= first_lost) & (part < failed_at)
            _write(files, part, partition, offset, kind, lost, failed_at)
    files.close()
    _write_rest(directory, messages, ends, failed_at)


def _partition(number: Longs) -> Longs:
    return ((number * 2_654_435_761) >> 16) % PARTITIONS


def _last_of(partition: int, before: int, count: int) -> Longs:
    """So many messages of this partition, the last before that message."""
    number = np.arange(max(before - PARTITIONS * count * 2 - 1_000, 0), before)
    own: Longs = number[_partition(number) == partition]
    return own[-count:]


def _first_of(partition: int, since: int, count: int) -> Longs:
    number = np.arange(since, since + PARTITIONS * count * 2 + 1_000)
    own: Longs = number[_partition(number) == partition]
    return own[:count]


def _given_up(failed_at: int, planted: Planted) -> Longs:
    """In turn: written, not written, refused."""
    return _first_of(0, failed_at, 3 * planted.given_up)


def _kinds(number: Longs, given_up: Longs) -> Longs:
    """What becomes of each send; the numbers rise."""
    kind = np.full(len(number), OK)
    place = np.searchsorted(number, given_up)
    there = (given_up >= number[0]) & (given_up <= number[-1])
    kind[place[there]] = RECOVERED + np.arange(len(given_up))[there] % 3
    return kind


def _due(number: Longs) -> Longs:
    return START + number * EVERY_NS


def _sent(number: Longs) -> Longs:
    return _due(number) + 1_000 + number * 7919 % 20_000


def _done(number: Longs, taken: Longs) -> Longs:
    return taken + 5_000_000 + number * 104_729 % 1_000_000


def _copy(files: Files, ends: Longs, before: int, count: int) -> None:
    """The last messages of partition 1 once more: written twice, and read twice."""
    number = _last_of(1, before, count)
    offset = ends[1] + np.arange(count)
    ends[1] += count
    read_ns = np.full(count, START + before * EVERY_NS + READ_NS - 1)  # after what was read before, before what comes
    _write_records(files, number, np.full(count, 1), offset, read_ns, epoch=0)


def _swap(number: Longs, partition: Longs, offset: Longs, count: int) -> int:
    """Neighbours of producer 3 in partition 2 change places, with two between one pair and the next."""
    mine = np.flatnonzero((partition == 2) & (number % PRODUCERS == 3))
    first = mine[: len(mine) // 4 * 4].reshape(-1, 4)[:count]
    offset[first[:, 0]], offset[first[:, 1]] = offset[first[:, 1]].copy(), offset[first[:, 0]].copy()
    return len(first)


def _write(
    files: Files,
    number: Longs,
    partition: Longs,
    offset: Longs,
    kind: Longs,
    lost: npt.NDArray[np.bool_],
    failed_at: int,
) -> None:
    due = _due(number)
    waits = (partition == 0) & (number >= failed_at)
    taken = np.where(waits, np.maximum(due, START + failed_at * EVERY_NS + PAUSE_NS), due)
    done = np.where(kind == OK, _done(number, taken), due + GIVEN_UP_NS)
    outcome = pa.array(OUTCOMES).take(pa.array(kind))
    error = pa.array(ERRORS).take(pa.array(kind))
    acked = pa.array(offset, mask=kind != OK)
    for producer in range(PRODUCERS):
        mine = np.flatnonzero(number % PRODUCERS == producer)
        files.add(
            "sends", f"producer{producer + 1}",
            producer=np.full(len(mine), producer), seq=number[mine] // PRODUCERS, topic=np.zeros(len(mine), np.int64),
            partition=partition[mine], due_ns=due[mine], sent_ns=_sent(number[mine]), done_ns=done[mine],
            outcome=outcome.take(pa.array(mine)), error=error.take(pa.array(mine)), offset=acked.take(pa.array(mine)),
        )  # fmt: skip
    kept = ~lost & (kind <= RECOVERED)
    epoch = int(number[0] >= failed_at)
    _write_records(files, number[kept], partition[kept], offset[kept], taken[kept] + READ_NS, epoch)


def _write_records(files: Files, number: Longs, partition: Longs, offset: Longs, read_ns: Longs, epoch: int) -> None:
    for each in range(PARTITIONS):
        mine = np.flatnonzero(partition == each)
        mine = mine[np.argsort(offset[mine], kind="stable")]
        if not len(mine):
            continue
        same = np.full(len(mine), each)
        record = {"topic": np.zeros(len(mine), np.int64), "partition": same, "offset": offset[mine]}
        record |= {"producer": number[mine] % PRODUCERS, "seq": number[mine] // PRODUCERS}
        record |= {"leader_epoch": np.full(len(mine), epoch if each == 0 else 0)}
        files.add("log", f"final-read-{each}", **record)
        in_order = np.maximum.accumulate(read_ns[mine])
        files.add(
            "reads", f"consumer{each + 1}", **record,
            consumer=same, group=np.zeros(len(mine), np.int64), read_ns=in_order,
            poll=(in_order - START) // POLL_NS + 1, assignment=np.ones(len(mine), np.int64),
        )  # fmt: skip


def _write_rest(directory: Path, messages: int, ends: Longs, failed_at: int) -> None:
    failed_ns = START + failed_at * EVERY_NS
    ends_ns = max(START + messages * EVERY_NS, failed_ns + PAUSE_NS) + 10**9

    def rows(name: str, *made: dict[str, Any]) -> None:
        writer = Writer(directory, name, RUN, "made")
        for row in made:
            writer.add(**row)
        writer.close()

    counts = [len(range(producer, messages, PRODUCERS)) for producer in range(PRODUCERS)]
    blocks = [{"producer": p, "first_seq": 0, "count": count, "at_ns": START} for p, count in enumerate(counts)]
    rows("blocks", *blocks, *({**block, "used": block["count"], "at_ns": ends_ns} for block in blocks))
    common = {"topic": 0, "replicas": [1, 2, 3], "isr": [1, 2, 3], "leader": 1, "log_start": 0}
    tps = [{**common, "partition": each, "leader_epoch": int(each == 0)} for each in range(PARTITIONS)]
    whole = [{"high_watermark": int(end), "log_end": int(end)} for end in ends]
    kind = {"min_isr": 1, "compacted": False, "transactional": False, "at_ns": ends_ns}
    rows("ends", *({**tp, **end, "read_to": end["log_end"], **kind} for tp, end in zip(tps, whole, strict=True)))
    seen = [(START, 0), (failed_ns + 10**8, 1), (ends_ns, 1)]
    rows("state", *({**tp, "at_ns": at, "took_ns": 0, "broker": 1, "leader_epoch": epoch if tp["partition"] == 0 else 0}
                    for at, epoch in seen for tp in tps))  # fmt: skip
    fault = {"fault": 1, "kind": "isolate", "asked": ["leader:orders/0"], "targets": ["kafka2"], "by": "the scenario"}
    times = {"asked": failed_ns - 10**8, "proved": failed_ns - 10**7, "healing": ends_ns - 2, "healed": ends_ns - 1}
    rows("faults", *({**fault, "at_ns": at, "event": event, "text": event} for event, at in times.items()))
    looks = range(failed_ns, ends_ns, 10**9)  # a fault that is never probed would be no evidence
    rows("probes", *({"fault": 1, "at_ns": at, "held": True, "text": "made"} for at in looks))
    rows("groups", *({"consumer": each, "group": 0, "at_ns": START, "event": "assigned", "topic": 0, "partition": each,
                      "assignment": 1, "position": 0} for each in range(PARTITIONS)))  # fmt: skip
    clock = Clock(RUN * 1000, START - 10**9)
    write_record(
        directory,
        RunRecord(
            run=RUN, name=directory.name, scenario="bench", section="A", title="Made for the bench", shape="base",
            mode="zookeeper", kafka="3.9.2", seed=1, argv=["scripts/bench", "judge"], versions={},
            expect={"lost": "required", "duplicated": "required", "reordered": "required"},
            topics=["orders"], groups=["readers"],
            producers=[ProducerRecord(p, f"producer{p + 1}", 0, "1", count, None) for p, count in enumerate(counts)],
            consumers=[ConsumerRecord(c, f"consumer{c + 1}", 0, 0, start="earliest") for c in range(PARTITIONS)],
            faults=[FaultRecord(1, "isolate", ["leader:orders/0"], heals="at the end")],
            nodes={1: "kafka1", 2: "kafka2", 3: "kafka3"}, began=clock,
            plan=Scenario("bench", "A", "", "", producers=[], topics=[TopicPlan("orders", PARTITIONS)]),
            marks=Marks(load_begun_ns=START, load_ended_ns=ends_ns - 3), ended="complete",
            ended_at=Clock(clock.wall_ns + ends_ns - START, ends_ns),
        ),
    )  # fmt: skip
