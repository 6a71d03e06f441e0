"""Rehearsal: a judge that has judged once is three times as quick the second time.

What a first verdict spends most on is not its rows but Java itself: loading classes, generating and compiling the code
of some five hundred stages. A run of a few made-up messages has the same plans. `rehearse` judges one in a session that
waits for the real journal anyway.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from ackproof.journal import TABLES, Writer
from ackproof.judge.main import judge
from ackproof.judge.spark import Session
from ackproof.record import Clock, FaultRecord, ProducerRecord, RunRecord, write_record

_RUN = 1
_MS = 1_000_000


def rehearse(session: Session) -> None:
    """Judge a made-up run of a few messages, so that the real one finds everything compiled."""
    folder = Path(tempfile.mkdtemp(prefix="rehearsal-", dir=session.folder))
    try:
        _make_run(folder)
        judge([folder], session=session)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make_run(folder: Path) -> None:
    """Two sends, one lost; one row or two in every table."""
    values: dict[str, list[dict[str, object]]] = {
        "blocks": [{"producer": 0, "first_seq": 0, "count": 2, "used": 2, "at_ns": 1}],
        "sends": [
            {
                "producer": 0,
                "seq": seq,
                "topic": 0,
                "partition": 0,
                "due_ns": seq * _MS,
                "sent_ns": seq * _MS,
                "done_ns": (seq + 2) * _MS,
                "outcome": "ok",
                "offset": seq,
            }
            for seq in (0, 1)
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
        "log": [{"topic": 0, "partition": 0, "offset": 0, "leader_epoch": 0, "producer": 0, "seq": 0}],
        "ends": [
            {
                "topic": 0,
                "partition": 0,
                "log_start": 0,
                "high_watermark": 1,
                "log_end": 1,
                "read_to": 1,
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
        "faults": [
            {"fault": 1, "at_ns": _MS, "event": "proved", "kind": "isolate", "asked": ["kafka1"], "targets": ["kafka1"]}
        ],
    }
    for table in TABLES:
        if table in values:
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
            producers=[ProducerRecord(0, "producer", 0, "1", 2, None)],
            consumers=[],
            faults=[FaultRecord(1, "isolate", ["kafka1"])],
            nodes={1: "kafka1", 2: "kafka2"},
            began=clock,
            plan={},
            ended_at=clock,
            ended="complete",
        ),
    )
