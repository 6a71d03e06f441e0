"""Write the verdict of a made-up run as the judge would: `verdict.json`, and the lost messages as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from ackproof.journal.seal import write_sealed
from ackproof.model.verdict import CheckResult, FailoverTimes, FaultSummary, Fitness, Verdict, judge_check, overall
from tests.support.made_story import Shape, Times


def write_verdict(directory: Path, shape: Shape, sends: dict[str, Any], times: Times) -> None:
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
        {"producer": int(sends["producer"][i]), "seq": int(sends["seq"][i]), "topic": shape.topic, "partition": 0}
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
    failover = FailoverTimes(
        fault=1,
        kind="isolate",
        topic=shape.topic,
        partition=0,
        proved_ns=times.proved,
        old_epoch=0,
        new_epoch=1,
        new_epoch_ms=(times.elected - times.proved) / 1e6,
        first_ack_ms=None,
        isr_full_ms=(times.isr_full - times.proved) / 1e6,
    )
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
        failover=[failover],
        latency_ms={
            name: {"p50": 2.7, "p90": 4.3, "p99": 6.2, "p999": 31.0, "max": shape.latency_spike_ms}
            for name in ("due", "sent")
        },
    )
    (directory / "verdict" / "verdict.json").write_bytes(msgspec.json.encode(verdict))
