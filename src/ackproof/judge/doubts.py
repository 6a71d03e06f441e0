"""The consumer groups that may lack messages because of the lab, and not because of Kafka.

Messages that a consumer lacks prove nothing about Kafka if the lab stopped the consumer before it had read everything,
if it was killed, or if it was late. Each consumer records its last position. Messages below that position are beyond
doubt, because the consumer went past them. A fault of the scenario that hits a consumer causes no doubt: the scenario
is about that. Older journals do not record positions; the judge takes them as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from signal import SIGTERM, valid_signals
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof.judge.lab_lag import BEHIND_MS, FOREVER, latest_ms
from ackproof.judge.run_source import Source
from ackproof.model.checks.kind import ConsumerNeeds
from ackproof.model.faults import LEAVE_DOWN
from ackproof.model.run_record import ConsumerRecord, RunRecord
from ackproof.model.scenario import ConsumerPlan

Row = Mapping[str, Any]
Place = tuple[int, int]  # topic and partition
NOWHERE = -1  # the position of a consumer is unknown
SESSION_MS = 45_000.0  # the default session timeout, after which a group removes a member
KILLED = "did not stop when the lab asked it to, and was killed"


@dataclass
class Doubt:
    """What is in doubt about a group, and why."""

    why: list[str] = field(default_factory=list)
    late: bool = False  # a consumer was late or killed, so the times of its reads are in doubt too
    ousted: bool = False  # the group may have removed it for that
    nothing_sure: bool = False
    sure: dict[Place, int] = field(default_factory=dict)  # everything below these offsets
    elsewhere: bool = False  # every message of a partition that is not in `sure` is in doubt


class Stands(NamedTuple):
    """The position of the foremost consumer of a group in a partition."""

    position: int = NOWHERE
    told_end: int | None = None  # the offset up to which the leader let it read; null if no leader reported one

    def is_short_of(self, end: int) -> bool:
        """Whether the consumer could have read on.

        A reader of committed messages cannot pass an open transaction: it stops at the offset that the leader reports,
        below the end of the log.
        """
        return max(self.position, 0) < (end if self.told_end is None else min(self.told_end, end))


def doubts(source: Source) -> dict[int, Doubt]:
    """The doubts by group; empty if there is none."""
    if not source.rows["lateness"]:
        return {}
    record, late, stood = source.record, latest_ms(source), _stood(source)
    plans = dict(enumerate(record.plan.each_consumer))
    ends = {(row["topic"], row["partition"]): row["high_watermark"] for row in _ends(source)}
    found: dict[int, Doubt] = defaultdict(Doubt)
    for consumer in record.consumers:
        if consumer.name not in late or _ended_by_scenario(source, consumer.name):
            continue
        own, behind_ms = stood.get(consumer.group, {}), late[consumer.name]
        if behind_ms >= BEHIND_MS:
            doubt = found[consumer.group]
            doubt.late = doubt.nothing_sure = True
            doubt.ousted |= behind_ms >= _session_ms(consumer) / 2
            doubt.why.append(f"{consumer.name} was late by up to {behind_ms:,.0f} ms")
        plan = plans.get(consumer.id)
        foreign = plan is not None and bool(plan.command)
        topics = _topics(record, consumer, plan)
        how, died = _ended(source, consumer.name)
        if died:
            doubt = found[consumer.group]
            doubt.late = doubt.ousted = doubt.elsewhere = True
            doubt.why.append(f"{consumer.name} {died}")
        elif foreign and how == "told" and (unread := sorted(_unread(own, ends, topics))):
            doubt = found[consumer.group]
            doubt.elsewhere = True
            more = f" and {len(unread) - 1:,} more" if len(unread) > 1 else ""
            doubt.why.append(f"{consumer.name} never printed a message of {_name(record, unread[0])}{more}")
    for group, why in sorted(record.unread.items()):
        found[group].elsewhere = True
        found[group].why.append(why)
    for group, own in stood.items():
        for place, stands in sorted(own.items()):
            if stands.is_short_of(end := ends.get(place, 0)):
                found[group].why.append(_short(stands.position, end, _name(record, place)))
    for group, doubt in found.items():
        doubt.sure = {
            place: stands.position if stands.is_short_of(ends.get(place, 0)) else FOREVER
            for place, stands in stood.get(group, {}).items()
        }
    return dict(found)


def of_check(found: Mapping[int, Doubt], needs: ConsumerNeeds) -> dict[int, Doubt]:
    """The doubts that count for a check with these needs."""
    if needs == "whole":
        return dict(found)
    return {group: doubt for group, doubt in found.items() if (doubt.late if needs == "in time" else doubt.ousted)}


def in_doubt(
    table: pa.Table, found: Mapping[int, Doubt], record: RunRecord, needs: ConsumerNeeds
) -> npt.NDArray[np.bool_]:
    """Which witnesses are in doubt: all of the doubtful groups, except messages below a group's position."""
    groups = _groups(table, record)
    placed = needs == "whole" and {"topic", "partition", "offset"} <= set(table.column_names)
    result = np.zeros(table.num_rows, bool)
    for group, doubt in found.items():
        doubtful = groups == group
        if placed and not doubt.nothing_sure:
            doubtful &= _beyond(table, doubt)
        result |= doubtful
    return result


def _beyond(table: pa.Table, doubt: Doubt) -> npt.NDArray[np.bool_]:
    topics, partitions, offsets = (table[name].to_numpy() for name in ("topic", "partition", "offset"))
    beyond = np.full(table.num_rows, doubt.elsewhere)
    for (topic, partition), sure in doubt.sure.items():
        there = (topics == topic) & (partitions == partition)
        beyond[there] = offsets[there] >= sure
    return beyond


def _groups(table: pa.Table, record: RunRecord) -> npt.NDArray[np.int64]:
    if "group" in table.column_names:
        return np.asarray(table["group"].to_numpy(), np.int64)
    own = {consumer.id: consumer.group for consumer in record.consumers}
    return np.array([own.get(each, -1) for each in table["consumer"].to_pylist()], np.int64)


def _stood(source: Source) -> dict[int, dict[Place, Stands]]:
    """The last position of the foremost consumer of each group, without consumers that the scenario ended."""
    left_out = {each.id for each in source.record.consumers if _ended_by_scenario(source, each.name)}
    found: dict[int, dict[Place, Stands]] = defaultdict(dict)
    for path in source.files["positions"]:
        for row in pq.read_table(path, filters=~pc.field("consumer").isin(left_out)).to_pylist():
            own, place = found[row["group"]], (row["topic"], row["partition"])
            before, position, told = own.get(place, Stands()), row["position"], row["log_end"]
            ends = [end for end in (before.told_end, told) if end is not None]
            position = NOWHERE if position is None else position
            own[place] = Stands(max(before.position, position), max(ends, default=None))
    return dict(found)


def _session_ms(consumer: ConsumerRecord) -> float:
    asked = consumer.settings.get("session.timeout.ms")
    return float(asked) if isinstance(asked, int | float) else SESSION_MS


def _short(stood: int, end: int, place: str) -> str:
    if stood == NOWHERE:
        return f"the consumers of its group recorded no position in {place}"
    return f"its consumers stopped at offset {stood:,} in {place}, and the log ends at {end:,}"


def _ends(source: Source) -> list[Row]:
    return [*source.small["ends"], *source.small["mirror_ends"]]


def _unread(stood: Collection[Place], ends: Mapping[Place, int], topics: set[int]) -> Iterator[Place]:
    for place, end in ends.items():
        if place[0] in topics and place not in stood and end > 0:
            yield place


def _topics(record: RunRecord, consumer: ConsumerRecord, plan: ConsumerPlan | None) -> set[int]:
    also = [] if plan is None else plan.also
    return {consumer.topic, *(record.topics.index(name) for name in also if name in record.topics)}


def _ended_by_scenario(source: Source, name: str) -> bool:
    """Whether the last fault that hit the consumer ended it."""
    own = [row for row in source.small["faults"] if row["event"] == "proved" and name in row["targets"]]
    last = max(own, key=lambda row: int(row["at_ns"]), default=None)
    return last is not None and last["kind"] in LEAVE_DOWN


def _ended(source: Source, name: str) -> tuple[Literal["told", "itself"], str]:
    """Whether the lab asked a consumer to stop, and how the consumer died if something killed it.

    The process that listens to an external client ends with the client's exit code. That is 128 plus the signal's
    number if a signal ended the client. After our own SIGTERM, 128 + SIGTERM is a normal end.
    """
    own = [row for row in source.small["nodes"] if (row["node"], row["event"]) == (name, "exited")]
    last = max(own, key=lambda row: int(row["at_ns"]), default=None)
    if last is None:
        return "told", KILLED
    code = last["code"] or 0
    number = last["signal"] or (code - 128 if code - 128 in valid_signals() else 0)
    if last["by_itself"]:
        return "itself", f"died of signal {number}, which no fault of the scenario sent" if number else ""
    return "told", KILLED if number and code != 128 + SIGTERM else ""


def _name(record: RunRecord, place: Place) -> str:
    topic, partition = place
    return f"{record.topics[topic] if 0 <= topic < len(record.topics) else topic}/{partition}"
