"""The runbook as it was carried out: every step in the order of time, how long it took, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ackproof.model.run_record import FaultRecord, RunRecord
from ackproof.model.verdict import RunbookStep

Row = Mapping[str, Any]


def runbook(record: RunRecord, faults: Sequence[Row]) -> list[RunbookStep]:
    """The steps of the scenario's runbook, each with the start of its fault and its healing; empty if it has none."""
    begun = record.marks.load_begun_ns
    if begun is None or not any(fault.step for fault in record.faults):
        return []
    found = []
    for fault in record.faults:
        events = {row["event"]: row for row in faults if row["fault"] == fault.id}
        for asked, answers, words in _halves(fault):
            if asked in events:
                came = next((events[name] for name in answers if name in events), None)
                found.append(_step(begun, words, events[asked], came, came is not None and came["event"] == answers[0]))
    return sorted(found, key=lambda step: step.at_s)


def _halves(fault: FaultRecord) -> list[tuple[str, tuple[str, str], str]]:
    """For the start and the healing of a fault: the event that requests it, those that answer it, and its words."""
    words = fault.step or f"{fault.kind} {' '.join(fault.asked)}".strip()
    begins = ("asked", ("proved", "not proved"), words)
    return [begins, ("healing", ("healed", "not healed"), f"{fault.kind} heals")] if fault.heals else [begins]


def _step(begun_ns: int, words: str, asked: Row, came: Row | None, done: bool) -> RunbookStep:
    return RunbookStep(
        at_s=(asked["at_ns"] - begun_ns) / 1e9,
        took_s=None if came is None else (came["at_ns"] - asked["at_ns"]) / 1e9,
        step=words,
        done=done,
        text="never answered" if came is None else came["text"] or "",
    )
