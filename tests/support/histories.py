"""Histories written by hand: a few sends, the records of the final log, and the other rows that a check reads.

Times are milliseconds from the beginning of the run. What a test leaves out is as in a run where nothing went wrong:
each send was reserved, made when it was due and acknowledged a millisecond later; each partition that is named was read
to its end; each fault was proved and healed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ackproof.journal.writer import Writer
from ackproof.judge.frames import NO_SPAN, Span
from ackproof.model.journal_tables import TABLES
from ackproof.model.run_record import (
    Clock,
    ConsumerRecord,
    FaultRecord,
    Marks,
    ProducerRecord,
    RunRecord,
    write_record,
)
from ackproof.model.scenario import Expected
from tests.support.plans import plan_of

MS = 1_000_000
START = 1_000 * MS  # the monotonic clock does not start at 0 with a run
FIRST_RUN = 1_700_000_000_000_000

Rows = dict[str, list[dict[str, Any]]]


def at(ms: float) -> int:
    return START + round(ms * MS)


@dataclass
class History:
    """One run, written row by row."""

    run: int = FIRST_RUN
    acks: str = "1"
    expect: dict[str, Expected] = field(default_factory=dict)
    topics: tuple[str, ...] = ("orders",)
    settings: dict[str, float] = field(default_factory=dict)  # the scenario's table `judge`
    rows: Rows = field(default_factory=lambda: {name: [] for name in TABLES})
    faults: list[FaultRecord] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)
    producers: list[dict[str, Any]] = field(default_factory=list)  # of the plan
    starts: Literal["earliest", "latest"] = "earliest"  # every consumer
    readers: int | None = None  # the number of consumers that every group should have
    consumers: list[dict[str, Any]] = field(default_factory=list)  # of the plan
    receivers: list[dict[str, Any]] = field(default_factory=list)  # in the plan: consumers with a receiver
    alerts: list[dict[str, Any]] = field(default_factory=list)  # expected by the plan
    marks: Marks = field(default_factory=Marks)
    ended: str | None = "complete"
    mirrors: dict[int, int] = field(default_factory=dict)  # the mirror's topic, and the topic that it copies
    planned: int | None = None  # partitions of each topic in the plan
    mode: Literal["zookeeper", "kraft"] = "zookeeper"
    racks: list[str] = field(default_factory=list)  # the racks of broker 1, 2, 3 and so on
    unread: dict[int, str] = field(
        default_factory=dict
    )  # what each group had not read when the run stopped waiting for it
    own_blocks: bool = False  # the test itself says which numbers were reserved

    def send(
        self,
        seq: int,
        offset: int | None = None,
        *,
        outcome: str = "ok",
        producer: int = 0,
        topic: int = 0,
        partition: int = 0,
        key: int | None = None,
        due: float | None = None,
        sent: float | None = None,
        done: float | None = None,
        never_done: bool = False,
        error: str | None = None,
    ) -> History:
        sent = float(seq) if sent is None else sent
        done = sent + 1 if done is None else done
        self.rows["sends"].append(
            {
                "producer": producer,
                "seq": seq,
                "topic": topic,
                "partition": partition,
                "key": key,
                "due_ns": at(sent if due is None else due),
                "sent_ns": at(sent),
                "done_ns": None if never_done else at(done),
                "outcome": outcome,
                "error": error,
                "offset": offset,
            }
        )
        return self

    def block(
        self, first: int, count: int, used: int | None = None, *, producer: int = 0, behind: float | None = None
    ) -> History:
        self.own_blocks = True
        reserved = {"producer": producer, "first_seq": first, "count": count, "used": None, "at_ns": at(0)}
        self.rows["blocks"].append(reserved)
        if used is not None:
            behind_ns = None if behind is None else round(behind * MS)
            self.rows["blocks"].append({**reserved, "used": used, "at_ns": at(1), "behind_ns": behind_ns})
        return self

    def log(
        self,
        offset: int,
        seq: int,
        *,
        producer: int = 0,
        topic: int = 0,
        partition: int = 0,
        epoch: int | None = 0,
        digest: int | None = None,
    ) -> History:
        self.rows["log"].append(
            {
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "leader_epoch": epoch,
                "producer": producer,
                "seq": seq,
                "digest": digest,
            }
        )
        return self

    def copied(
        self,
        offset: int,
        seq: int,
        *,
        producer: int = 0,
        topic: int = 1,
        partition: int = 0,
        digest: int | None = None,
    ) -> History:
        """Add what the final read found in a mirror's topic: by default topic 1, which copies topic 0."""
        self.mirrors.setdefault(topic, 0)
        self.rows["mirrored"].append(
            {
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "leader_epoch": 0,
                "producer": producer,
                "seq": seq,
                "digest": digest,
            }
        )
        return self

    def stands(
        self, mirror_offset: int | None, offset: int | None, *, when: float = 900, partition: int = 0
    ) -> History:
        """Add where group 0 goes on in topic 1, a mirror, and in topic 0, which it copies."""
        self.mirrors.setdefault(1, 0)
        row = {"at_ns": at(when), "group": 0, "topic": 0, "partition": partition, "mirror": 1}
        self.rows["translated"].append({**row, "mirror_offset": mirror_offset, "offset": offset})
        return self

    def end(
        self,
        high_watermark: int,
        *,
        topic: int = 0,
        partition: int = 0,
        log_start: int = 0,
        epoch: int | None = 0,
        compacted: bool = False,
        transactional: bool = False,
        **other: Any,
    ) -> History:
        row = {
            "topic": topic,
            "partition": partition,
            "log_start": log_start,
            "high_watermark": high_watermark,
            "log_end": high_watermark,
            "read_to": high_watermark,
            "leader": 1,
            "leader_epoch": epoch,
            "replicas": [1, 2, 3],
            "isr": [1, 2, 3],
            "min_isr": 1,
            "compacted": compacted,
            "transactional": transactional,
            "at_ns": at(1_000_000),
        }
        self.rows["ends"].append({**row, **other})
        return self

    def read(
        self,
        offset: int,
        seq: int,
        *,
        producer: int = 0,
        topic: int = 0,
        partition: int = 0,
        consumer: int = 0,
        group: int = 0,
        assignment: int = 1,
        when: float | None = None,
    ) -> History:
        poll = len(self.rows["reads"]) + 1
        self.rows["reads"].append(
            {
                "consumer": consumer,
                "group": group,
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "leader_epoch": 0,
                "producer": producer,
                "seq": seq,
                "read_ns": at(poll if when is None else when),
                "poll": poll,
                "assignment": assignment,
            }
        )
        return self

    def group(
        self,
        when: float,
        event: str,
        consumer: int = 0,
        *,
        position: int | None = 0,
        group: int = 0,
        topic: int = 0,
        partition: int = 0,
        assignment: int = 1,
    ) -> History:
        """Add that a consumer was given a partition, or gave it back."""
        self.rows["groups"].append(
            {
                "consumer": consumer,
                "group": group,
                "at_ns": at(when),
                "event": event,
                "topic": topic,
                "partition": partition,
                "assignment": assignment,
                "position": position if event == "assigned" else None,
            }
        )
        return self

    def stood(
        self, position: int | None, log_end: int | None = None, *, consumer: int = 0, group: int = 0, partition: int = 0
    ) -> History:
        """Add the position of a consumer in a partition when it ended."""
        row = {"consumer": consumer, "group": group, "at_ns": at(50_000), "topic": 0, "partition": partition}
        self.rows["positions"].append({**row, "position": position, "log_end": log_end})
        return self

    def late(self, client: str, *behind: float, when: float = 3_000) -> History:
        """Add how late a process was, each time that it reported it; without times, only that it is watched."""
        for number, each in enumerate((0.0, *behind)):
            told = {"at_ns": at(when + number), "behind_ns": round(each * MS)}
            self.rows["lateness"].append({"client": client, **told})
        return self

    def waited(self, *looks: tuple[float, float], node: str = "kafka1") -> History:
        """Add when the lab looked at a node, and how long one of its threads had then waited for a processor."""
        rows = [{"client": node, "at_ns": at(when), "behind_ns": round(waited * MS)} for when, waited in looks]
        self.rows["lateness"] += rows
        return self

    def ended_when_told(
        self, consumer: int, *, signal: int | None = None, code: int = 0, by_itself: bool = False
    ) -> History:
        """Add the end of a consumer's process: in order, with this exit code, or by this signal."""
        how = {"code": code if signal is None else None, "signal": signal, "by_itself": by_itself}
        told = {"node": f"consumer{consumer + 1}", "at_ns": at(51_000), "event": "exited"}
        self.rows["nodes"].append({**told, **how})
        return self

    def gone(self, when: float, consumer: int) -> History:
        """Add that a consumer's process ended."""
        exited = {"node": f"consumer{consumer + 1}", "at_ns": at(when), "event": "exited", "signal": 9}
        self.rows["nodes"].append({**exited, "by_itself": False})
        return self

    def commit(
        self,
        when: float,
        offset: int,
        *,
        consumer: int = 0,
        group: int = 0,
        topic: int = 0,
        partition: int = 0,
        outcome: str = "ok",
    ) -> History:
        self.rows["commits"].append(
            {
                "consumer": consumer,
                "group": group,
                "at_ns": at(when),
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "outcome": outcome,
            }
        )
        return self

    def receiver(self, strategy: str, copies: str = "forbidden", drops: str = "forbidden") -> History:
        """Add one more consumer, with a receiver."""
        self.receivers.append({"copies": 1, "receiver": {"strategy": strategy, "copies": copies, "drops": drops}})
        return self

    def received(
        self,
        offset: int,
        seq: int,
        *,
        producer: int = 0,
        topic: int = 0,
        partition: int = 0,
        consumer: int = 0,
        accepted: bool = True,
    ) -> History:
        row = {"consumer": consumer, "at_ns": at(len(self.rows["received"])), "topic": topic, "partition": partition}
        message = {"offset": offset, "producer": producer, "seq": seq, "accepted": accepted}
        self.rows["received"].append({**row, **message})
        return self

    def cost(self, when: float, *, messages: int, deciding: int, handling: int, memory: int, disk: int) -> History:
        """Add the cost of the first consumer's receiver, in microseconds."""
        times = {"deciding_ns": deciding * 1000, "handling_ns": handling * 1000}
        row = {"consumer": 0, "at_ns": at(when), "messages": messages, "memory_bytes": memory, "disk_bytes": disk}
        self.rows["costs"].append({**row, **times})
        return self

    def claim(self, when: str, partitions: str = "orders/0", **claimed: Any) -> History:
        nothing: dict[str, list[str]] = {"leader": [], "not_leader": [], "isr": [], "isr_without": []}
        no_more = {"isr_full": False, "preferred": False, "no_leader": False, "same_leader_as": None, "acked": None}
        self.claims.append({"at": when, "partitions": partitions, **nothing, **no_more, **claimed})
        return self

    def expects(self, rule: str, fault: int, *, within: float, clears: float, undone_by: int | None = None) -> History:
        """Add an alert that the scenario expects, with times in milliseconds."""
        times = {"within_s": within / 1000, "clears_within_s": clears / 1000}
        self.alerts.append({"rule": rule, "fault": fault, "undone_by": undone_by, **times})
        return self

    def alert(self, when: float, rule: str, event: str) -> History:
        self.rows["alerts"].append({"at_ns": at(when), "rule": rule, "event": event})
        return self

    def state(
        self,
        when: float,
        broker: int,
        *,
        leader: int | None,
        epoch: int | None,
        isr: Sequence[int] | None = (1, 2, 3),
        high_watermark: int | None = None,
        took: float = 0,
        topic: int = 0,
        partition: int = 0,
        error: str | None = None,
    ) -> History:
        self.rows["state"].append(
            {
                "at_ns": at(when),
                "took_ns": round(took * MS),
                "broker": broker,
                "topic": topic,
                "partition": partition,
                "error": error,
                "leader": leader,
                "leader_epoch": epoch,
                "replicas": [1, 2, 3],
                "isr": None if isr is None else list(isr),
                "high_watermark": high_watermark,
                "log_end": high_watermark,
                "log_start": 0,
            }
        )
        return self

    def transaction(
        self, number: int, first: int, last: int, *events: tuple[str, float], producer: int = 0, timeout: int = 10_000
    ) -> History:
        """Add what the producer reported about a transaction: events, and when they came."""
        for event, when in events:
            self.rows["transactions"].append(
                {
                    "producer": producer,
                    "transaction": number,
                    "event": event,
                    "first_seq": first,
                    "last_seq": last,
                    "timeout_ms": timeout,
                    "at_ns": at(when),
                }
            )
        return self

    def stable(
        self,
        when: float,
        last_stable: int,
        high_watermark: int,
        *,
        broker: int = 1,
        topic: int = 0,
        partition: int = 0,
    ) -> History:
        self.rows["stable"].append(
            {
                "at_ns": at(when),
                "broker": broker,
                "topic": topic,
                "partition": partition,
                "last_stable": last_stable,
                "high_watermark": high_watermark,
            }
        )
        return self

    def fault(
        self,
        *events: tuple[str, float],
        kind: str = "isolate",
        asked: str = "leader:orders/0",
        became: str = "kafka1",
        heals: str = "at the end",
    ) -> History:
        number = len(self.faults) + 1
        self.faults.append(FaultRecord(number, kind, [asked], heals=heals))
        for event, when in events:
            self.rows["faults"].append(
                {
                    "fault": number,
                    "at_ns": at(when),
                    "event": event,
                    "kind": kind,
                    "asked": [asked],
                    "targets": [became],
                    "by": "the scenario",
                    "text": f"{event}, as seen",
                }
            )
        return self

    def complete(self) -> Rows:
        """Return the rows, with everything that the test left out."""
        rows = {name: list(own) for name, own in self.rows.items()}
        if not self.own_blocks:
            for producer in sorted({row["producer"] for row in rows["sends"]}):
                for seq in sorted({row["seq"] for row in rows["sends"] if row["producer"] == producer}):
                    block = {"producer": producer, "first_seq": seq, "count": 1, "used": 1, "at_ns": at(0)}
                    rows["blocks"].append(block)
        known = {(row["topic"], row["partition"]) for row in rows["ends"]}
        named = {(row["topic"], row["partition"]) for name in ("sends", "log") for row in rows[name]}
        extra = History()
        for topic, partition in sorted(named - known):
            if partition >= 0:
                offsets = [
                    row["offset"] for row in rows["log"] if (row["topic"], row["partition"]) == (topic, partition)
                ]
                extra.end(max(offsets, default=-1) + 1, topic=topic, partition=partition)
        rows["ends"] += extra.rows["ends"]
        copies = History()
        for topic, partition in sorted({(row["topic"], row["partition"]) for row in rows["mirrored"]}):
            held = [row["offset"] for row in rows["mirrored"] if (row["topic"], row["partition"]) == (topic, partition)]
            copies.end(max(held) + 1, topic=topic, partition=partition)
        rows["mirror_ends"] += copies.rows["ends"]
        return rows

    def record(self, name: str = "a-run") -> RunRecord:
        producers = sorted({row["producer"] for table in ("sends", "blocks") for row in self.rows[table]})
        groups = dict.fromkeys(range(len(self.receivers)), 0)
        groups |= {row["consumer"]: row["group"] for table in ("reads", "groups") for row in self.rows[table]}
        began = Clock(FIRST_RUN * 1000, START)
        plan: dict[str, Any] = {"judge": self.settings} if self.settings else {}
        plan |= {"producers": self.producers} if self.producers else {}
        plan |= {"consumers": [{"readers": self.readers}] * (max(groups, default=-1) + 1)} if self.readers else {}
        plan |= {"consumers": self.consumers} if self.consumers else {}
        plan |= {"consumers": self.receivers} if self.receivers else {}
        plan |= {"topics": [{"name": name, "partitions": self.planned} for name in self.topics]} if self.planned else {}
        plan |= {"cluster": {"racks": self.racks}} if self.racks else {}
        plan |= {"health": {"topic": "orders"}, "alerts": self.alerts} if self.alerts or self.rows["alerts"] else {}
        return RunRecord(
            run=self.run,
            name=name,
            scenario="by-hand",
            section="A",
            title="By hand",
            shape="base",
            mode=self.mode,
            kafka="3.9.2",
            seed=1,
            argv=["ackproof", "run", "by-hand"],
            versions={},
            expect=self.expect,
            topics=list(self.topics),
            groups=["group"],
            producers=[ProducerRecord(p, f"producer{p}", 0, self.acks, 100, None) for p in producers],
            consumers=[
                ConsumerRecord(c, f"consumer{c + 1}", 0, g, start=self.starts) for c, g in sorted(groups.items())
            ],
            faults=self.faults,
            nodes={1: "kafka1", 2: "kafka2", 3: "kafka3"},
            began=began,
            plan=plan_of(plan | ({"claims": self.claims} if self.claims else {})),
            marks=self.marks,
            mirrors=self.mirrors,
            unread=self.unread,
            ended_at=Clock(began.wall_ns + 60_000 * MS, began.monotonic_ns + 60_000 * MS),
            ended=self.ended,  # type: ignore[arg-type]
        )

    def write(self, directory: Path) -> Path:
        """Write the run directory that such a run would leave."""
        directory.mkdir(parents=True, exist_ok=True)
        for table, rows in self.complete().items():
            if rows or table in ("blocks", "sends", "log", "ends"):
                writer = Writer(directory, table, self.run, "writer")
                for row in rows:
                    writer.add(**row)
                writer.close()
        write_record(directory, self.record(directory.name))
        return directory

    def span(self) -> Span:
        sends = self.rows["sends"]
        if not sends:
            return NO_SPAN
        last = max(row["sent_ns"] for row in sends)
        return (
            min(row["sent_ns"] for row in sends),
            last,
            max([last, *(row["done_ns"] for row in sends if row["done_ns"] is not None)]),
        )
