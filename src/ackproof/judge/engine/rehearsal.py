"""Rehearsal: a judge that has judged once is more than twice as quick the second time.

What the first verdict of a small run spends most on is not its rows but Java itself: loading classes, planning some
thirty questions, generating and compiling the code of their stages (docs/judge.md has the figures). A run of a few
made-up messages has the same plans. `rehearse` judges one in a session that waits for the real journal anyway.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from ackproof.journal.writer import Writer
from ackproof.judge.pipeline import judge
from ackproof.model.journal_tables import TABLES
from ackproof.model.run_record import Clock, ConsumerRecord, FaultRecord, Marks, ProducerRecord, RunRecord, write_record
from ackproof.model.scenario import Scenario
from ackproof.spark.session import Session

_RUN = 1
_MS = 1_000_000
_STEP = 50_000  # nanoseconds between two sends
_OF_CONSUMERS = ("reads", "groups", "commits")


def rehearse(session: Session, sends: int = 2, consumers: bool = True) -> None:
    """Judge a made-up run of so many messages, so that the real one finds everything compiled.

    A few have the code loaded that Spark generates; with many Java also sees where the work is, and compiles it well.
    What a run does not have (`consumers`) Spark leaves out of its plans, and so of the code.
    """
    folder = Path(tempfile.mkdtemp(prefix="rehearsal-", dir=session.folder))
    try:
        _make_run(folder, sends, consumers)
        judge([folder], session=session)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make_run(folder: Path, sends: int, consumers: bool) -> None:
    """Every second send is lost; one row or two in every other table."""
    kept = range(sends // 2)
    values: dict[str, list[dict[str, object]]] = {
        "blocks": [{"producer": 0, "first_seq": 0, "count": sends, "used": sends, "at_ns": 1}],
        "sends": [
            {
                "producer": 0,
                "seq": seq,
                "topic": 0,
                "partition": 0,
                "due_ns": seq * _STEP,
                "sent_ns": seq * _STEP,
                "done_ns": seq * _STEP + 2 * _MS,
                "outcome": "ok",
                "offset": seq,
            }
            for seq in range(sends)
        ],
        "reads": [
            {
                "consumer": 0,
                "group": 0,
                "topic": 0,
                "partition": 0,
                "offset": 0,
                "producer": 0,
                "seq": 0,
                "read_ns": 3 * _MS,
                "poll": 1,
                "assignment": 1,
            }
        ],
        "groups": [
            {
                "consumer": 0,
                "group": 0,
                "at_ns": at * _MS,
                "event": "assigned",
                "topic": 0,
                "partition": 0,
                "assignment": at,
                "position": 0,
            }
            for at in (1, 2)
        ],
        "commits": [
            {"consumer": 0, "group": 0, "at_ns": at, "topic": 0, "partition": 0, "offset": at, "outcome": "ok"}
            for at in (1, 2)
        ],
        "log": [
            {"topic": 0, "partition": 0, "offset": seq, "leader_epoch": 0, "producer": 0, "seq": seq} for seq in kept
        ],
        "ends": [
            {
                "topic": 0,
                "partition": 0,
                "log_start": 0,
                "high_watermark": len(kept),
                "log_end": len(kept),
                "read_to": len(kept),
                "leader": 2,
                "leader_epoch": 1,
                "replicas": [1, 2],
                "isr": [1, 2],
                "min_isr": 1,
                "compacted": False,
                "transactional": False,
                "at_ns": 9 * _MS,
            }
        ],
        "state": [
            {
                "at_ns": at * _MS,
                "took_ns": 1,
                "broker": at % 2 + 1,
                "topic": 0,
                "partition": 0,
                "leader": at % 2 + 1,
                "leader_epoch": at % 2,
                "replicas": [1, 2],
                "isr": [1],
                "high_watermark": 1,
                "log_end": 2,
                "log_start": 0,
            }
            for at in range(4)
        ],
        "members": [{"at_ns": at * _MS, "source": "kafka1", "brokers": [1, 2][: 1 + at % 2]} for at in range(4)],
        "faults": [
            {"fault": 1, "at_ns": _MS, "event": "proved", "kind": "isolate", "asked": ["kafka1"], "targets": ["kafka1"]}
        ],
    }
    for table in TABLES:
        if table in values and (consumers or table not in _OF_CONSUMERS):
            writer = Writer(folder, table, _RUN, "rehearsal")
            for row in values[table]:
                writer.add(**row)
            writer.close()
    clock = Clock(0, 0)
    write_record(
        folder,
        RunRecord(
            run=_RUN,
            name="rehearsal",
            scenario="rehearsal",
            section="",
            title="",
            shape="base",
            mode="",
            kafka="",
            seed=0,
            argv=[],
            versions={},
            expect={},
            topics=["rehearsal"],
            groups=["rehearsal"],
            producers=[ProducerRecord(0, "producer", 0, "1", sends, None)],
            consumers=[ConsumerRecord(0, "consumer", 0, 0)] if consumers else [],
            faults=[FaultRecord(1, "isolate", ["kafka1"])],
            nodes={1: "kafka1", 2: "kafka2"},
            began=clock,
            plan=Scenario("rehearsal", "", "", "", producers=[], topics=[]),
            marks=Marks(load_begun_ns=0, load_ended_ns=sends * _STEP, healed_ns=sends * _STEP, drained_ns=9 * _MS),
            ended_at=clock,
            ended="complete",
        ),
    )
