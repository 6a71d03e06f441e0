"""Write made-up run directories as a run and a judge leave them, for tests of reports without Kafka and Spark.

The story is that of `acks1-leader-isolated`: kafka2 leads in epoch 0 and is cut off from everybody but the clients; it
goes on acknowledging; kafka1 takes over in epoch 1; healing truncates what kafka2 alone had. By hand:

    python tests/support/make_run.py /tmp/runs base unknown interrupted no-loss crowd hostile
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from ackproof.journal.writer import Writer
from ackproof.model.run_record import Clock, ConsumerRecord, FaultRecord, Marks, ProducerRecord, RunRecord, write_record
from tests.support.made_story import BEGAN, LOAD, NEW, NODES, OLD, RUN, SHAPES, THIRD, S, Shape, Times
from tests.support.make_verdict import write_verdict
from tests.support.plans import plan_of


def make_run(runs: Path, shape: Shape) -> Path:
    directory = runs / shape.name
    directory.mkdir(parents=True)
    times = Times(shape)
    sends = _sends(shape, times)
    _write_traffic(directory, shape, sends, times)
    _write_state(directory, shape, times)
    _write_faults(directory, shape, times)
    _write_logs(directory, shape, times)
    write_record(directory, _record(shape, times))
    if shape.judged:
        write_verdict(directory, shape, sends, times)
    return directory


def _sends(shape: Shape, times: Times) -> dict[str, Any]:
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


def _write_traffic(directory: Path, shape: Shape, sends: dict[str, Any], times: Times) -> None:
    count = len(sends["seq"])
    zeros = np.zeros(count, np.int32)
    acked = ~sends["info"]
    writer = Writer(directory, "sends", RUN, "producers")
    columns: dict[str, Any] = {
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
    writer.add_columns(columns)
    writer.close(seal=shape.sealed)
    kept = acked & (sends["offset"] < times.mark)
    if shape.consumers:
        writer = Writer(directory, "reads", RUN, "consumer-0")
        length = int(kept.sum())
        some = np.zeros(length, np.int32)
        read: dict[str, Any] = {
            "consumer": some,
            "group": some,
            "topic": some,
            "partition": some,
            "offset": sends["offset"][kept],
        }
        read |= {"producer": sends["producer"][kept], "seq": sends["seq"][kept], "assignment": some + 1}
        writer.add_columns(read | {"read_ns": sends["done"][kept] + 5_000_000, "poll": np.arange(length)})
        writer.close()
    if shape.ended != "complete":
        return
    writer = Writer(directory, "log", RUN, "final")
    rows: dict[str, Any] = {"topic": zeros[kept], "partition": zeros[kept], "offset": sends["offset"][kept]}
    rows |= {"leader_epoch": zeros[kept], "producer": sends["producer"][kept], "seq": sends["seq"][kept]}
    writer.add_columns(rows)
    writer.close()
    writer = Writer(directory, "ends", RUN, "final")
    mark = int(kept.sum())
    end: dict[str, Any] = {"topic": 0, "partition": 0, "log_start": 0, "high_watermark": mark, "log_end": mark}
    end |= {"read_to": mark, "leader": NEW, "leader_epoch": 1, "replicas": [2, 1, 3], "isr": [1, 3, 2], "min_isr": 1}
    writer.add(**end, compacted=False, transactional=False, at_ns=times.drained)
    writer.close()


def _write_state(directory: Path, shape: Shape, times: Times) -> None:
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


def _write_faults(directory: Path, shape: Shape, times: Times) -> None:
    writer = Writer(directory, "faults", RUN, "run")
    fault: dict[str, Any] = {"fault": 1, "kind": "kill" if "killed" in shape.scenario else "isolate"}
    fault |= {"asked": [f"leader:{shape.topic}/0"], "targets": ["kafka2"]}
    writer.add(at_ns=times.asked, event="asked", **fault)
    proof = "10 links severed, each probe counted by the rule, none arrived; client → kafka2 still gets through"
    writer.add(at_ns=times.proved, event="proved", text=proof, **fault)
    if shape.ended == "complete":
        writer.add(at_ns=times.healed, event="healed", by="scenario", text="10 links open again", **fault)
    writer.close(seal=shape.sealed)


def _write_logs(directory: Path, shape: Shape, times: Times) -> None:
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
                f"INFO [Broker id=1] Leader {label} with topic id Some(j7TOyjvsT12R8HE) starts at leader epoch 1 "
                f"from offset {mark} with partition epoch 1, high watermark {mark - 1}, ISR [1,3], adding replicas [] "
                "and removing replicas [] . Previous leader Some(2) and previous leader epoch was 0. (s.c.logger)",
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
                f"INFO [Broker id=2] Follower {label} starts at leader epoch 1 from offset {end} with partition epoch "
                f"1 and high watermark {mark}. Current leader is 1. (state.change.logger)",
            ),
            (
                times.truncated,
                f"INFO [UnifiedLog partition={label}, dir=/data/log1] Truncating to offset {mark} (k.l.UnifiedLog)",
            ),
            *((times.truncated + 1, line) for line in shape.log_lines),
        ],
    }
    folder = directory / "logs"
    folder.mkdir()
    for node, entries in lines.items():
        text = "".join(f"{stamp(at)} {line}\n" for at, line in sorted(entries) if at < times.drained)
        (folder / f"{node}.log").write_text(text, encoding="utf-8")


def _record(shape: Shape, times: Times) -> RunRecord:
    complete = shape.ended == "complete"
    marks = Marks(LOAD - 3 * S, LOAD, times.load_ended)
    if complete:
        marks = msgspec.structs.replace(marks, healed_ns=times.healed, drained_ns=times.drained)
    producer: dict[str, Any] = {"topic": 0, "acks": shape.acks, "count": shape.count, "rate": shape.rate}
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
        plan=plan_of({"cluster": {"brokers": 3}}),
        ended_at=Clock(BEGAN.wall_ns + times.drained - BEGAN.monotonic_ns, times.drained) if complete else None,
        ended=shape.ended,
        problems=[] if shape.ended == "complete" else ["stopped by Ctrl-C at 10.2 s"],
        marks=marks,
    )


def main(arguments: Iterable[str]) -> None:
    out, *names = arguments
    for name in names or SHAPES:
        print(make_run(Path(out), SHAPES[name]))


if __name__ == "__main__":
    main(sys.argv[1:])
