"""Facts about a run that are small, and made without Spark: its moments, phases and claims, and the ends of processes.

A moment is a time at which the judge asks who led each partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ackproof.model.run_record import RunRecord

Row = Mapping[str, Any]
Moment = tuple[int, int, str, int]  # run, place among the run's moments, name, time
_NODES = ("leader", "not_leader", "isr", "isr_without")


def moments(record: RunRecord, faults: Sequence[Row]) -> list[Moment]:
    """The start; before and during each fault that began; the end; in the order of time."""
    marks = record.marks
    found: list[tuple[str, int]] = []
    if marks.load_begun_ns is not None:
        found.append(("start", marks.load_begun_ns))
    asked = {row["fault"]: row["at_ns"] for row in faults if row["event"] == "asked"}
    over = {row["fault"]: row["at_ns"] for row in faults if row["event"] in ("healed", "not healed")}
    lasts = {row["fault"] for row in faults if row["event"] == "healed" and row["by"] != "done"}
    healing = {row["fault"]: row["at_ns"] for row in faults if row["event"] == "healing"}
    last = marks.healed_ns or max(over.values(), default=0)
    for fault, at_ns in sorted(asked.items(), key=lambda entry: int(entry[1])):
        found.append((f"before {fault}", at_ns))
        later = [other for other in asked.values() if other > at_ns]
        ends = (
            healing.get(fault, over[fault])
            if fault in lasts
            else min(later, default=max(last, marks.load_ended_ns or 0))
        )
        found.append((f"during {fault}", ends))
    if marks.drained_ns is not None:
        found.append(("end", marks.drained_ns))
    in_time = sorted(found, key=lambda moment: moment[1])
    return [(record.run, place, name, at_ns) for place, (name, at_ns) in enumerate(in_time)]


def phases(record: RunRecord, faults: Sequence[Row]) -> list[tuple[int, int, str, int, int]]:
    """The times between one fault and the next, from the beginning of the load to its end, named by what began them.

    A phase begins when a fault is proved or healed. It ends when the next fault, or its healing, is requested: a broker
    that is started serves long before that is proved.
    """
    marks = record.marks
    if marks.load_begun_ns is None or marks.load_ended_ns is None:
        return []
    names = {fault.id: f"{fault.kind} {' '.join(fault.asked)}" for fault in record.faults}
    lasts = {row["fault"] for row in faults if row["event"] == "healing"}
    turns: list[tuple[int, str]] = [(marks.load_begun_ns, "the beginning")]
    ends_ns: list[int] = []
    asked: dict[tuple[int, str], int] = {}
    for row in sorted(faults, key=lambda row: int(row["at_ns"])):
        ends = row["event"] == "healed" and row["fault"] in lasts
        if (row["event"] == "proved" or ends) and turns[-1][0] < row["at_ns"] < marks.load_ended_ns:
            begun = asked.get((row["fault"], "healing" if ends else "asked"), int(row["at_ns"]))
            ends_ns.append(max(begun, turns[-1][0]))
            turns.append(
                (row["at_ns"], ("the end of " if ends else "") + names.get(row["fault"], f"fault {row['fault']}"))
            )
        asked.setdefault((row["fault"], row["event"]), row["at_ns"])
    ends_ns.append(marks.load_ended_ns)
    return [
        (record.run, place, name, from_ns, to_ns)
        for place, ((from_ns, name), to_ns) in enumerate(zip(turns, ends_ns, strict=True))
    ]


def claims(record: RunRecord, faults: Sequence[Row]) -> Iterator[tuple[Any, ...]]:
    """The claims of the scenario, with the brokers' numbers; one row for each claim."""
    ids = {name: number for number, name in record.nodes.items()}
    hit = {row["fault"]: row["targets"] for row in faults if row["event"] == "proved"}
    for number, claim in enumerate(record.plan.claims, start=1):
        topic, _, partition = claim.partitions.rpartition("/")
        nodes: dict[str, list[int] | None] = {}
        for field in _NODES:
            names = [each for name in getattr(claim, field) for each in _named(name, hit)]
            nodes[field] = [ids[name] for name in names if name in ids] if getattr(claim, field) else None
        yield (
            record.run,
            number,
            claim.at,
            record.topics.index(topic),
            None if partition == "*" else int(partition),
            *(nodes[field] for field in _NODES),
            claim.isr_full,
            claim.preferred,
            claim.no_leader,
            claim.same_leader_as,
            claim.acked,
            claim.in_words(),
        )


def lives(record: RunRecord, nodes: Sequence[Row]) -> list[tuple[int, int, list[int]]]:
    """When the processes of each consumer ended."""
    return [
        (
            record.run,
            consumer.id,
            sorted(row["at_ns"] for row in nodes if row["node"] == consumer.name and row["event"] == "exited"),
        )
        for consumer in record.consumers
    ]


def exits(record: RunRecord) -> list[tuple[int, str, list[int]]]:
    """The exit codes that the scenario expects of each producer, one for each of its processes in turn."""
    return [(record.run, producer.name, plan.exits) for producer, plan in record.planned_producers if plan.exits]


def _named(name: str, hit: Mapping[int, list[str]]) -> list[str]:
    return hit.get(int(name.removeprefix("target:")), []) if name.startswith("target:") else [name]
