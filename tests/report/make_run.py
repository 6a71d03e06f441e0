"""Run directories as a run and a judge leave them, made up: to write reports of without Kafka, Spark or waiting.

The story is that of `acks1-leader-isolated`: kafka2 leads in epoch 0 and is cut off from everybody but the clients; it
goes on acknowledging; kafka1 takes over in epoch 1; healing truncates what kafka2 alone had. By hand:

    python tests/report/make_run.py /tmp/runs base unknown interrupted no-loss crowd hostile
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet

from ackproof.journal import Writer, write_sealed
from ackproof.record import Clock, ConsumerRecord, FaultRecord, Marks, ProducerRecord, RunRecord, write_record
from ackproof.verdict import CheckResult, FaultSummary, Fitness, Verdict, judge_check, overall

S = 1_000_000_000
RUN = 1_794_737_000_000_000  # microseconds since 1970: 2026-11-15 10:03:20 UTC
BEGAN = Clock(wall_ns=RUN * 1000, monotonic_ns=5_000 * S)
LOAD = BEGAN.monotonic_ns + 20 * S
OLD, NEW, THIRD = 2, 1, 3
NODES = {1: "kafka1", 2: "kafka2", 3: "kafka3"}


@dataclass(frozen=True)
class Shape:
    """What differs from one made-up run to the next."""

    name: str = "base"
    scenario: str = "acks1-leader-isolated"
    title: str = "acks=1, and the leader is cut off from all other nodes while clients still reach it"
    shape: str = "base"
    mode: str = "zookeeper"
    acks: str = "1"
    producers: int = 1
    count: int = 100_000
    rate: float = 4_000.0
    fault_at: int = 30_000
    loses: bool = True
    consumers: bool = False
    fit: bool = True
    judged: bool = True
    sealed: bool = True
    ended: Any = "complete"
    topic: str = "orders"
    check_text: str = ""
    log_lines: tuple[str, ...] = ()
    latency_spike_ms: float = 412.0
    argv: tuple[str, ...] = ("./ackproof", "run", "acks1-leader-isolated", "--seed", "7")
    expect: dict[str, Any] = field(default_factory=lambda: {"lost": "required"})


SMALL: dict[str, Any] = {"count": 2_000, "rate": 200.0, "fault_at": 600}
SHAPES = {
    "base": Shape(),
    "small": Shape("small", **SMALL),
    "unknown": Shape("unknown", fit=False, loses=False, **SMALL),
    "interrupted": Shape("interrupted", judged=False, sealed=False, ended="interrupted", **SMALL),
    "no-loss": Shape(
        "no-loss", scenario="acksall-leader-isolated", acks="all", loses=False, expect={"lost": "forbidden"}, **SMALL
    ),
    "refuted": Shape("refuted", loses=False, **SMALL),
    "crash": Shape(
        "crash", scenario="acks1-leader-killed", title="acks=1, and the leader is killed", loses=False, expect={}, **SMALL
    ),
    "crowd": Shape(
        "crowd", shape="crowd", producers=10, count=100_000, rate=2_000.0, fault_at=300_000, consumers=True
    ),
}


def make_run(runs: Path, shape: Shape) -> Path:
    directory = runs / shape.name
    directory.mkdir(parents=True)
    times = _Times(shape)
    sends = _sends(shape, times)
    _write_traffic(directory, shape, sends, times)
    _write_state(directory, shape, times)
    _write_faults(directory, shape, times)
    _write_logs(directory, shape, times)
    write_record(directory, _record(shape, times))
    if shape.judged:
        _write_verdict(directory, shape, sends, times)
    return directory


class _Times:
    """The moments of the story, in monotonic nanoseconds, and the offset at which replication ended."""

    def __init__(self, shape: Shape) -> None:
        self.length_s = shape.count / shape.rate
        total_rate = shape.rate * shape.producers
        self.total = shape.count * shape.producers
        self.asked = LOAD + int(shape.fault_at / total_rate * S)
        self.proved = self.asked + S * 15 // 100
        self.elected = min(self.proved + S * 65 // 10, LOAD + int(self.length_s * 0.9 * S))
        self.load_ended = LOAD + int(self.length_s * S)
        self.healed = self.load_ended + S * 6 // 10
        self.truncated = self.healed + S * 4 // 10
        self.isr_full = self.truncated + S * 3 // 10
        self.drained = self.isr_full + S * 15 // 10
        self.mark = int((self.proved - LOAD) / S * total_rate) - 12 if shape.loses else self.total


def _sends(shape: Shape, times: _Times) -> dict[str, np.ndarray[Any, Any]]:
    random = np.random.default_rng(7)
    seq = np.repeat(np.arange(shape.count), shape.producers)
    producer = np.tile(np.arange(shape.producers), shape.count)
    due = LOAD + (seq / shape.rate * S).astype(np.int64)
    late = np.where(random.random(len(seq)) < 0.002, random.exponential(0.03, len(seq)), 0.0004)
    sent = due + (late * S).astype(np.int64)
    latency = random.lognormal(-5.9, 0.35, len(seq))
    latency[len(seq) // 3] = shape.latency_spike_ms / 1000
    done = sent + (latency * S).astype(np.int64)
    info = (due > times.elected) & (random.random(len(seq)) < 0.01) if not shape.loses else np.zeros(len(seq), bool)
    offset = np.cumsum(~info) - 1
    return {"producer": producer, "seq": seq, "due": due, "sent": sent, "done": done, "info": info, "offset": offset}


def _write_traffic(directory: Path, shape: Shape, sends: dict[str, np.ndarray[Any, Any]], times: _Times) -> None:
    count = len(sends["seq"])
    zeros = np.zeros(count, np.int32)
    acked = ~sends["info"]
    writer = Writer(directory, "sends", RUN, "producers")
    writer.add_columns(
        {
            "producer": sends["producer"],
            "seq": sends["seq"],
            "topic": zeros,
            "partition": zeros,
            "due_ns": sends["due"],
            "sent_ns": sends["sent"],
            "done_ns": sends["done"],
            "outcome": np.where(acked, "ok", "info"),
            "error": pa.array(np.where(acked, "", "_MSG_TIMED_OUT"), mask=acked),
            "offset": pa.array(sends["offset"], mask=~acked if shape.acks != "0" else np.ones(count, bool)),
        }
    )
    writer.close(seal=shape.sealed)
    kept = acked & (sends["offset"] < times.mark)
    if shape.consumers:
        writer = Writer(directory, "reads", RUN, "consumer-0")
        length = int(kept.sum())
        some = np.zeros(length, np.int32)
        read = {"consumer": some, "group": some, "topic": some, "partition": some, "offset": sends["offset"][kept]}
        read |= {"producer": sends["producer"][kept], "seq": sends["seq"][kept], "assignment": some + 1}
        writer.add_columns(read | {"read_ns": sends["done"][kept] + 5_000_000, "poll": np.arange(length)})
        writer.close()
    if shape.ended != "complete":
        return
    writer = Writer(directory, "log", RUN, "final")
    rows = {"topic": zeros[kept], "partition": zeros[kept], "offset": sends["offset"][kept]}
    rows |= {"leader_epoch": zeros[kept], "producer": sends["producer"][kept], "seq": sends["seq"][kept]}
    writer.add_columns(rows)
    writer.close()
    writer = Writer(directory, "ends", RUN, "final")
    mark = int(kept.sum())
    end: dict[str, Any] = {"topic": 0, "partition": 0, "log_start": 0, "high_watermark": mark, "log_end": mark}
    end |= {"read_to": mark, "leader": NEW, "leader_epoch": 1, "replicas": [2, 1, 3], "isr": [1, 3, 2], "min_isr": 1}
    writer.add(**end, compacted=False, transactional=False, at_ns=times.drained)
    writer.close()


def _write_state(directory: Path, shape: Shape, times: _Times) -> None:
    writer = Writer(directory, "state", RUN, "observer")
    rate = shape.rate * shape.producers
    for at in range(LOAD - 2 * S, times.drained, S // 4):
        acked = int(np.clip((at - LOAD) / S * rate, 0, times.total))
        cut = times.proved <= at < times.healed
        for broker in (1, 2, 3):
            row: dict[str, Any] = {"at_ns": at + broker * 1_000_000, "took_ns": 2_000_000, "broker": broker}
            row |= {"topic": 0, "partition": 0, "replicas": [2, 1, 3], "log_start": 0}
            moved = at >= times.elected if broker != OLD else at >= times.truncated
            row |= {"leader": NEW if moved else OLD, "leader_epoch": int(moved)}
            end = acked if broker == OLD and at < times.truncated else min(acked, times.mark)
            row["log_end"] = end if broker == OLD or shape.loses else min(acked, times.total)
            isr = [2, 1, 3]
            if broker == OLD and cut and at > times.proved + 10 * S:
                isr = [2]
            elif broker != OLD and moved:
                isr = [1, 3]
            row["isr"] = isr if at < times.isr_full else [1, 3, 2]
            if row["leader"] == broker:
                row["high_watermark"] = min(acked, times.mark)
            if broker == THIRD and times.proved < at < times.proved + S:
                row = {key: row[key] for key in ("at_ns", "took_ns", "broker", "topic", "partition")}
                row["error"] = "no answer within 1 s"
            writer.add(**row)
    writer.close(seal=shape.sealed)


def _write_faults(directory: Path, shape: Shape, times: _Times) -> None:
    writer = Writer(directory, "faults", RUN, "run")
    fault: dict[str, Any] = {"fault": 1, "kind": "kill" if "killed" in shape.scenario else "isolate"}
    fault |= {"asked": [f"leader:{shape.topic}/0"], "targets": ["kafka2"]}
    writer.add(at_ns=times.asked, event="asked", **fault)
    proof = "10 links severed, each probe counted by the rule, none arrived; client → kafka2 still gets through"
    writer.add(at_ns=times.proved, event="proved", text=proof, **fault)
    if shape.ended == "complete":
        writer.add(at_ns=times.healed, event="healed", by="scenario", text="10 links open again", **fault)
    writer.close(seal=shape.sealed)


def _write_logs(directory: Path, shape: Shape, times: _Times) -> None:
    label = f"{shape.topic}-0"

    def stamp(at_ns: int) -> str:
        wall = (at_ns - BEGAN.monotonic_ns + BEGAN.wall_ns) / S
        return datetime.fromtimestamp(wall, UTC).strftime("[%Y-%m-%d %H:%M:%S,%f")[:-3] + "]"

    mark, end = times.mark, times.total
    lines = {
        "kafka1": [
            (LOAD - 18 * S, "INFO starting (kafka.server.KafkaServer)"),
            (
                times.elected,
                f"INFO [Broker id=1] Leader {label} with topic id Some(j7TOyjvsT12R8HEEPrs-IA) starts at leader epoch 1 "
                f"from offset {mark} with partition epoch 1, high watermark {mark - 1}, ISR [1,3], adding replicas [] and "
                "removing replicas [] . Previous leader Some(2) and previous leader epoch was 0. (state.change.logger)",
            ),
            (times.isr_full, f"INFO [Partition {label} broker=1] ISR updated to 1,3,2  and version updated to 2 (k.P)"),
        ],
        "kafka2": [
            (LOAD - 18 * S, "INFO starting (kafka.server.KafkaServer)"),
            (
                times.proved + 10 * S,
                f"INFO [Partition {label} broker=2] Shrinking ISR from 2,1,3 to 2. Leader: (highWatermark: {mark}, "
                f"endOffset: {end}). Out of sync replicas: (brokerId: 1, endOffset: {mark}). (kafka.cluster.Partition)",
            ),
            (times.healed, "INFO [ZooKeeperClient Kafka server] Session expired. (kafka.zookeeper.ZooKeeperClient)"),
            (
                times.truncated - S // 10,
                f"INFO [Broker id=2] Follower {label} starts at leader epoch 1 from offset {end} with partition epoch 1 "
                f"and high watermark {mark}. Current leader is 1. (state.change.logger)",
            ),
            (
                times.truncated,
                f"INFO [UnifiedLog partition={label}, dir=/data/log1] Truncating to offset {mark} (kafka.log.UnifiedLog)",
            ),
            *((times.truncated + 1, line) for line in shape.log_lines),
        ],
    }
    folder = directory / "logs"
    folder.mkdir()
    for node, entries in lines.items():
        text = "".join(f"{stamp(at)} {line}\n" for at, line in sorted(entries) if at < times.drained)
        (folder / f"{node}.log").write_text(text, encoding="utf-8")


def _record(shape: Shape, times: _Times) -> RunRecord:
    complete = shape.ended == "complete"
    marks = Marks(LOAD - 3 * S, LOAD, times.load_ended)
    if complete:
        marks = msgspec.structs.replace(marks, healed_ns=times.healed, drained_ns=times.drained)
    producer = {"topic": 0, "acks": shape.acks, "count": shape.count, "rate": shape.rate}
    heals = "after the last send, and not before a new leader epoch was seen or 30 s have passed"
    return RunRecord(
        run=RUN,
        name=shape.name,
        scenario=shape.scenario,
        section="A",
        title=shape.title,
        shape=shape.shape,
        mode=shape.mode,
        kafka="3.9.2" if shape.mode == "zookeeper" else "4.3.1",
        seed=7,
        argv=list(shape.argv),
        versions={"ackproof": "0.1.0", "kafka": "3.9.2", "librdkafka": "2.16.1", "java": "17.0.12", "linux": "6.1"},
        expect=shape.expect,
        topics=[shape.topic],
        groups=["readers"],
        producers=[ProducerRecord(id=i, name=f"producer-{i}", **producer) for i in range(shape.producers)],
        consumers=[ConsumerRecord(0, "consumer-0", 0, 0)] if shape.consumers else [],
        faults=[FaultRecord(1, "isolate", [f"leader:{shape.topic}/0"], [], f"at {shape.fault_at:,} messages", heals)],
        nodes=NODES,
        began=BEGAN,
        plan={"cluster": {"brokers": 3, "replication": 3}, "producer": {"acks": shape.acks, "retries": 0}},
        ended_at=Clock(BEGAN.wall_ns + times.drained - BEGAN.monotonic_ns, times.drained) if complete else None,
        ended=shape.ended,
        problems=[] if shape.ended == "complete" else ["stopped by Ctrl-C at 10.2 s"],
        marks=marks,
    )


def _write_verdict(directory: Path, shape: Shape, sends: dict[str, np.ndarray[Any, Any]], times: _Times) -> None:
    acked = ~sends["info"]
    gone = np.flatnonzero(acked & (sends["offset"] >= times.mark))
    lost = {name: sends[name][gone] for name in ("producer", "seq", "offset")}
    folder = directory / "verdict" / "lost"
    folder.mkdir(parents=True)
    none = pa.nulls(len(gone), pa.int32())
    zero = np.zeros(len(gone), np.int32)
    more = {"topic": zero, "partition": zero, "done_ns": sends["done"][gone], "holder_epoch": none}
    rows = pa.table({**lost, **more, "fate": pa.repeat("lost_truncated", len(gone))})
    write_sealed(rows, folder / "part-0.parquet", ["producer", "seq"])
    found = {"lost": len(gone), "duplicated": 0, "reordered": 0, "dual_leader": int(shape.loses), "offset_gap": 0}
    first = [
        {"producer": int(sends["producer"][i]), "seq": int(sends["seq"][i]), "topic": 0, "partition": 0}
        | {"offset": int(sends["offset"][i]), "done_ns": int(sends["done"][i]), "fate": "lost_truncated"}
        for i in gone[:100]
    ]
    checks = [
        CheckResult(
            name,
            shape.expect.get(name, "allowed" if name == "dual_leader" else "forbidden"),
            count,
            judge_check(shape.expect.get(name, "allowed" if name == "dual_leader" else "forbidden"), count),
            shape.check_text or (f"{count:,} found" if count else "none found"),
            first if name == "lost" else [],
        )
        for name, count in found.items()
    ]
    flowed = "traffic flowed before the fault: 30,000 acknowledged"
    fitness = [
        Fitness("faults", shape.fit, "fault 1 was proved and healed" if shape.fit else "fault 1 was never proved"),
        Fitness("traffic", True, flowed),
        Fitness("final log", True, "read to the high watermark of every partition"),
    ]
    count = int(acked.sum())
    kept = count - len(gone)
    result = overall(fitness, checks, count)
    failover: dict[str, Any] = {"fault": 1, "kind": "isolate", "topic": 0, "partition": 0, "proved_ns": times.proved}
    failover |= {"old_epoch": 0, "new_epoch": 1, "first_error_ms": None, "first_ack_ms": None}
    failover |= {"new_epoch_ms": (times.elected - times.proved) / 1e6}
    verdict = Verdict(
        run=shape.name,
        scenario=shape.scenario,
        shape=shape.shape,
        mode=shape.mode,
        kafka="3.9.2",
        result=result,
        sentence=f"{result}: of {count:,} acknowledged messages {len(gone):,} are lost"
        if shape.fit
        else "unknown: fault 1 was never proved, so this run says nothing about losses",
        sent=len(acked),
        acked=count,
        failed=0,
        unknown=len(acked) - count,
        high_watermark=kept,
        log_start=0,
        lost=len(gone),
        duplicated=0,
        reordered=0,
        fates={"survived": kept, "lost_truncated": len(gone), "not_written": len(acked) - count},
        identity={"survived": kept, "extra copies": 0, "phantoms": 0},
        unavailable_ms=0.0,
        checks=checks,
        fitness=fitness,
        faults=[FaultSummary("isolate", ["kafka2"], shape.fit, "10 links severed, each probe counted by the rule")],
        failover=[failover | {"isr_full_ms": (times.isr_full - times.proved) / 1e6}],
        latency_ms={
            name: {"p50": 2.7, "p90": 4.3, "p99": 6.2, "p999": 31.0, "max": shape.latency_spike_ms}
            for name in ("due", "sent")
        },
    )
    (directory / "verdict" / "verdict.json").write_bytes(msgspec.json.encode(verdict))


def main(arguments: Iterable[str]) -> None:
    out, *names = arguments
    for name in names or SHAPES:
        print(make_run(Path(out), SHAPES[name]))


if __name__ == "__main__":
    main(sys.argv[1:])
