"""Groups of which it is not sure that they were given all that Kafka had for them, by the laboratory's own doing.

A consumer that was stopped before it had read everything, that had to be killed, or that was late itself, says nothing
of Kafka by what it lacks. Each of ours tells where it stood in the end; what lies below is sure, for it went past it.
What a fault of the scenario did to a consumer is no doubt: it is what the scenario is about. Older journals do not tell
where consumers stood, and are taken as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof.judge.behind import BEHIND_MS, frozen, latest_ms
from ackproof.judge.sources import Source
from ackproof.record import ConsumerRecord, RunRecord

Place = tuple[int, int]  # topic and partition
NOWHERE = -1  # it is not known where a consumer stood
SESSION_MS = 45_000.0  # by default, after which a group takes a member for dead
# What a check asks of consumers: that they read everything; or only that none of them was late, or killed; or that none
# of them was so late that its group may have taken it for dead.
Needs = Literal["whole", "in time", "owned"]


@dataclass
class Doubt:
    """What is in doubt of a group, and why."""

    why: list[str] = field(default_factory=list)
    late: bool = False  # or killed: so when it did something is in doubt as well
    ousted: bool = False  # it may have lost its partitions by that
    nothing_sure: bool = False
    stood: dict[Place, int] = field(default_factory=dict)  # below these offsets it is sure
    elsewhere: bool = False  # nothing is sure where it is not known where the group stood


def doubts(source: Source) -> dict[int, Doubt]:
    """By group; empty where all is sure."""
    if not source.rows["lateness"]:
        return {}
    record, late, stood = source.record, latest_ms(source), _stood(source)
    plans = dict(enumerate(record.each("consumers")))
    ends = {(row["topic"], row["partition"]): row["high_watermark"] for row in _ends(source)}
    paused = frozen(source)
    found: dict[int, Doubt] = defaultdict(Doubt)
    for consumer in record.consumers:
        if consumer.name not in late or _ended_by_scenario(source, consumer.name):
            continue
        own, behind_ms = stood.get(consumer.group, {}), late[consumer.name]
        if consumer.name not in paused and behind_ms >= BEHIND_MS:
            doubt = found[consumer.group]
            doubt.late = doubt.nothing_sure = True
            doubt.ousted |= behind_ms >= _session_ms(consumer) / 2
            doubt.why.append(f"{consumer.name} was late itself by up to {behind_ms:,.0f} ms")
        foreign = bool(plans.get(consumer.id, {}).get("command"))
        topics = _topics(record, consumer, plans.get(consumer.id, {}))
        if (how := _ended(source, consumer.name)) == "killed":
            doubt = found[consumer.group]
            doubt.late = doubt.ousted = doubt.elsewhere = True
            doubt.why.append(f"{consumer.name} did not end when it was told to, and was killed")
        elif foreign and how == "told" and (unread := sorted(_unread(own, ends, topics))):
            doubt = found[consumer.group]
            doubt.elsewhere = True
            more = f" and {len(unread) - 1:,} more" if len(unread) > 1 else ""
            doubt.why.append(f"{consumer.name} told of no last message in {_name(record, unread[0])}{more}")
    for group, own in stood.items():
        for place in sorted(own):
            if own[place] < ends.get(place, 0):
                found[group].why.append(_short(own[place], ends[place], _name(record, place)))
    for group, doubt in found.items():
        doubt.stood = stood.get(group, {})
    return dict(found)


def of_check(found: Mapping[int, Doubt], needs: Needs) -> dict[int, Doubt]:
    """The doubts that count for a check."""
    if needs == "whole":
        return dict(found)
    return {group: doubt for group, doubt in found.items() if (doubt.late if needs == "in time" else doubt.ousted)}


def in_doubt(table: pa.Table, found: Mapping[int, Doubt], record: RunRecord, needs: Needs) -> npt.NDArray[np.bool_]:
    """Which witnesses are: all of a group, but for messages below where it stood."""
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
    for (topic, partition), position in doubt.stood.items():
        there = (topics == topic) & (partitions == partition)
        beyond[there] = offsets[there] >= position
    return beyond


def _groups(table: pa.Table, record: RunRecord) -> npt.NDArray[np.int64]:
    if "group" in table.column_names:
        return np.asarray(table["group"].to_numpy(), np.int64)
    own = {consumer.id: consumer.group for consumer in record.consumers}
    return np.array([own.get(each, -1) for each in table["consumer"].to_pylist()], np.int64)


def _stood(source: Source) -> dict[int, dict[Place, int]]:
    """Of each group, where the foremost of its consumers stood in the end; one that the scenario ended is left out."""
    left_out = {each.id for each in source.record.consumers if _ended_by_scenario(source, each.name)}
    found: dict[int, dict[Place, int]] = defaultdict(dict)
    for path in source.files["positions"]:
        for row in pq.read_table(path, filters=~pc.field("consumer").isin(left_out)).to_pylist():
            own, place = found[row["group"]], (row["topic"], row["partition"])
            own[place] = max(own.get(place, NOWHERE), NOWHERE if row["position"] is None else row["position"])
    return dict(found)


def _session_ms(consumer: ConsumerRecord) -> float:
    asked = consumer.settings.get("session.timeout.ms")
    return float(asked) if isinstance(asked, int | float) else SESSION_MS


def _short(stood: int, end: int, place: str) -> str:
    if stood == NOWHERE:
        return f"nobody knows where its consumers stood in {place}"
    return f"its consumers stood at {stood:,} in {place}, where the log goes to {end:,}"


def _ends(source: Source) -> list[dict[str, Any]]:
    return [*source.small["ends"], *source.small["mirror_ends"]]


def _unread(stood: Mapping[Place, int], ends: Mapping[Place, int], topics: set[int]) -> Iterator[Place]:
    for place, end in ends.items():
        if place[0] in topics and place not in stood and end > 0:
            yield place


def _topics(record: RunRecord, consumer: ConsumerRecord, plan: Mapping[str, Any]) -> set[int]:
    return {consumer.topic, *(record.topics.index(name) for name in plan.get("also", []) if name in record.topics)}


def _ended_by_scenario(source: Source, name: str) -> bool:
    """Whether the last that a fault did to it was to end it."""
    own = [row for row in source.small["faults"] if row["event"] == "proved" and name in row["targets"]]
    last = max(own, key=lambda row: int(row["at_ns"]), default=None)
    return last is not None and last["kind"] in ("kill", "stop")


def _ended(source: Source, name: str) -> Literal["killed", "told", "itself"]:
    own = [row for row in source.small["nodes"] if (row["node"], row["event"]) == (name, "exited")]
    last = max(own, key=lambda row: int(row["at_ns"]), default=None)
    if last is None or last["signal"]:
        return "killed"
    return "itself" if last["by_itself"] else "told"


def _name(record: RunRecord, place: Place) -> str:
    topic, partition = place
    return f"{record.topics[topic] if 0 <= topic < len(record.topics) else topic}/{partition}"
