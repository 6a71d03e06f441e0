"""The report's sentences about results, fates and lost ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from ackproof.model.glossary import glossary
from ackproof.model.verdict import CheckResult, FailoverTimes, PartitionView, Verdict
from ackproof.report.lost_ranges import LostRange, Story
from ackproof.report.run_reader import SECOND, Run

RESULTS = {
    "confirmed": ("✓", "Confirmed"),
    "refuted": ("✗", "Refuted"),
    "unknown": ("?", "Unknown"),
    "not judged": ("!", "Not judged"),
    "not applicable": ("-", "Not applicable"),
}

HEADLINE = ("lost", "duplicated", "reordered")
# No scenario permits these, so they are shown among all checks, and not among the key numbers.
_NEVER = ("phantom", "aborted_read", "resurrected", "offset_gap", "exit_codes", "claims")

FATES = {entry.word: entry.meaning for entry in glossary() if entry.kind == "fate"}

FAILOVER_STEPS = (
    ("first_error_ms", "first error at a client", "no client saw an error"),
    ("new_epoch_ms", "a new leader epoch", "no new leader was seen"),
    ("first_ack_ms", "first acknowledgement from it", "nothing was acknowledged by a new leader"),
    ("isr_full_ms", "all replicas in sync again", "never complete again"),
)


def is_fit(verdict: Verdict) -> bool:
    """Whether the run is evidence. If not, the page must not show the results of its checks as evidence."""
    return all(entry.fit for entry in verdict.fitness)


def expected_besides(verdict: Verdict) -> list[CheckResult]:
    """Return the checks that this scenario requires or forbids besides lost, duplicated and reordered."""
    known = (*HEADLINE, *_NEVER)
    return [
        check
        for check in verdict.checks
        if check.name not in known and check.expected != "allowed" and check.found is not None
    ]


def fate_kind(fate: str) -> str:
    """Return which colour of the bar a fate has."""
    if fate.startswith("lost"):
        return "lost"
    if fate in ("survived", "survived_moved"):
        return "kept"
    return "odd" if fate == "resurrected" else "other"


@dataclass(frozen=True)
class FateRow:
    name: str
    count: int
    meaning: str
    kind: str


def fate_rows(fates: Mapping[str, int]) -> list[FateRow]:
    """Return the fates in the order of the glossary. A fate that this version does not know comes last."""
    known = [name for name in FATES if fates.get(name)]
    names = known + [name for name in fates if name not in FATES and fates[name]]
    return [FateRow(name, fates[name], FATES.get(name, ""), fate_kind(name)) for name in names]


def moment(run: Run, at_ns: float) -> str:
    return f"{run.seconds(at_ns):,.2f} s"


def time_of_day(run: Run, at_ns: float) -> str:
    return run.wall(at_ns).strftime("%H:%M:%S.%f")[:-3] + " UTC"


def range_title(run: Run, lost: LostRange) -> str:
    where = f"{run.topic(lost.topic)}/{lost.partition}" if lost.partition >= 0 else run.topic(lost.topic)
    span = f"{lost.first:,}" if lost.first == lost.last else f"{lost.first:,} to {lost.last:,}"
    if lost.by_offset:
        return f"{where}, offset{'s' if lost.first != lost.last else ''} {span}"
    return f"{where}, offsets unknown: messages {span} of {producer_name(run, lost.producers[0])}"


def producer_name(run: Run, number: int) -> str:
    return next((entry.name for entry in run.record.producers if entry.id == number), f"producer {number}")


def range_story(run: Run, lost: LostRange, story: Story) -> list[tuple[str, str]]:
    """Return the story in order: when (in seconds since the load began), and what happened."""
    told = [(_span(run, lost), _acked(run, lost, story))]
    if story.new_leader is not None and story.new_leader_ns is not None:
        after = f" {story.acked_after:,} of these acknowledgements came after that." if story.acked_after else ""
        taken = f"{run.node(story.new_leader)} was seen to lead in epoch {story.new_epoch}, without them.{after}"
        told.append((moment(run, story.new_leader_ns), taken))
    if story.gone_ns is not None:
        ended = f"which had ended at {story.log_end_before:,}, was seen to end at or before {lost.first:,}."
        cut = f"{run.node(story.acked_by)}'s log, {ended}"
        told.append((moment(run, story.gone_ns), cut))
    told.append(("at the end", _now(lost)))
    return told


def _span(run: Run, lost: LostRange) -> str:
    first, last = (run.seconds(int(lost.done_ns[place])) for place in (0, -1))
    return f"{first:,.2f} s" if f"{first:.2f}" == f"{last:.2f}" else f"{first:,.2f} to {last:,.2f} s"


def _acked(run: Run, lost: LostRange, story: Story) -> str:
    if len(lost.producers) == 1:
        several = lost.first_seq != lost.last_seq
        numbers = f"numbers {lost.first_seq:,} to {lost.last_seq:,}" if several else f"number {lost.first_seq:,}"
        what = f"{_messages(lost.count)} of {producer_name(run, lost.producers[0])} ({numbers})"
    else:
        what = f"{_messages(lost.count)} of {len(lost.producers)} producers"
    what += " was" if lost.count == 1 else " were"
    if story.acked_by is None:
        return f"{what} acknowledged; the views of the brokers do not show by which leader."
    return f"{what} acknowledged by {run.node(story.acked_by)}, which said that it led in epoch {story.acked_epoch}."


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"


def _now(lost: LostRange) -> str:
    if not lost.by_offset:
        return "None of them is in the healed log."
    if lost.standing == 0:
        return "Nothing stands at these offsets in the healed log."
    epochs = ", ".join(str(epoch) for epoch in lost.standing_epochs)
    where = "all" if lost.standing == lost.count else f"{lost.standing:,}"
    return f"Other messages, written in epoch {epochs}, stand at {where} of these offsets in the healed log."


@dataclass(frozen=True)
class Spread:
    """Loss as rate times time: how many a second were acknowledged and lost, and for how long."""

    count: int
    seconds: float
    rate: float


def rate_times_time(ranges: Sequence[LostRange]) -> Spread | None:
    done = [entry.done_ns for entry in ranges]
    count = sum(map(len, done))
    if count < 2:
        return None
    span_s = float(np.max([part[-1] for part in done]) - np.min([part[0] for part in done])) / SECOND
    return Spread(count, span_s, count / span_s) if span_s > 0 else None


@dataclass(frozen=True)
class MoveCell:
    """A partition at one moment: its leader, and its replicas in sync and not in sync, by name."""

    leader: str
    in_sync: str
    missing: str


@dataclass(frozen=True)
class MovesTable:
    moments: list[str]
    rows: list[tuple[str, list[MoveCell | None]]]


def moves_table(run: Run, moves: Sequence[PartitionView]) -> MovesTable:
    """Return who led, and who was in sync: a row for each partition, a column for each moment."""
    moments = list(dict.fromkeys(view.moment for view in sorted(moves, key=lambda view: view.place)))
    rows: dict[str, dict[str, MoveCell]] = {}
    for view in moves:
        in_sync = [run.node(broker) for broker in sorted(view.isr or ())]
        missing = [run.node(broker) for broker in sorted(set(view.replicas or ()) - set(view.isr or ()))]
        cell = MoveCell(run.node(view.leader), " ".join(in_sync), " ".join(missing))
        rows.setdefault(f"{view.topic}/{view.partition}", {})[view.moment] = cell
    return MovesTable(moments, [(name, [cells.get(each) for each in moments]) for name, cells in rows.items()])


@dataclass(frozen=True)
class FailoverStep:
    name: str
    at: str = ""
    after_ms: float | None = None
    never: str = ""  # what the page says where the step never came


def failover_steps(run: Run, times: FailoverTimes) -> list[FailoverStep]:
    """Return the proof, then each step with its distance from the proof. A step that the judge could not look for is
    left out."""
    steps = [FailoverStep("fault proved", moment(run, times.proved_ns))]
    for key, name, never in FAILOVER_STEPS:
        after = getattr(times, key)
        if after is msgspec.UNSET:
            continue
        if after is None:
            steps.append(FailoverStep(name, never=never))
            continue
        with_epochs = key == "new_epoch_ms" and times.new_epoch is not None
        epochs = f" ({times.old_epoch} → {times.new_epoch})" if with_epochs else ""
        steps.append(FailoverStep(name + epochs, moment(run, times.proved_ns + after * 1e6), after))
    return steps
