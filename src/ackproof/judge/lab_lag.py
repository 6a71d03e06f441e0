"""How late the lab itself was, because it had to wait for a processor: its measurements then say little about Kafka.

Each process of the lab reports this. The observer asks each broker at a fixed interval. A producer of ours records by
how much it missed the time to which it wanted to wait. A thread of each client, of the observer and of the final read
wakes ten times a second (`lateness`). Time spent waiting for Kafka does not count.

Kafka's own nodes may wait for a processor while the lab is on time. So the lab looks every second which of their
threads waited longest, and records a wait of a fifth of the second or more. The waits of consecutive looks add up: the
next thread gets the delayed work late.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof.judge.run_source import Source, by_groups
from ackproof.model.faults import FREEZE

LOOKS_EVERY_NS = 125_000_000  # how often the observer asks each broker that answers
LOOKS_MOST = 6_000_000  # 69 hours of looks at one topic on three brokers
MERGED_LOOKS = 1_000_000
BEHIND_MS = 1_000.0
IN_A_ROW_NS = 2_500_000_000  # the lab looks at the nodes every second, or somewhat later
FOREVER = 2**63 - 1
Stretch = tuple[int, int]  # begin and end, in nanoseconds
Moments = npt.NDArray[np.int64]


class TooManyLooks(Exception):
    """The table `state` has more answers of brokers than the judge holds in memory."""


@dataclass(frozen=True)
class Looks:
    """When brokers were asked, and how long the answers took, by broker, topic and time."""

    at: Moments
    took: Moments
    again: npt.NDArray[np.bool_]  # for each look but the first: whether the one before had the same broker and topic


def is_behind(ms: float, line_ms: float = BEHIND_MS) -> bool:
    """Whether the lab was late enough to explain a duration above this line."""
    return ms >= min(line_ms, BEHIND_MS)


def behind_ms(source: Source) -> float:
    """How late the lab was at most during the load."""
    return max(_observer_ms(source), _producers_ms(source), _told_ms(source))


def waited_ms(source: Source) -> float:
    """How long the nodes waited for a processor during the load: the largest sum over consecutive looks."""
    begun, ended = source.record.marks.load_begun_ns or 0, source.record.marks.load_ended_ns
    longest = together = before = 0
    for at, waited in sorted(look for looks in _told(source, servers=True).values() for look in looks):
        in_load = (at if ended is None else min(at, ended)) - max(at - waited, begun)
        if in_load > 0:
            together = in_load if at - before > IN_A_ROW_NS else together + in_load
            longest, before = max(longest, together), at
    return longest / 1e6


def frozen(source: Source) -> dict[str, list[Stretch]]:
    """When a fault of the scenario froze each process. Its lateness in that time is the scenario's doing."""
    pauses = [row for row in source.small["faults"] if row["kind"] in FREEZE]
    ends = {row["fault"]: row["at_ns"] for row in pauses if row["event"] == "healed"}
    begins = {row["fault"]: row["at_ns"] for row in pauses if row["event"] == "asked"}
    found: dict[str, list[Stretch]] = {}
    for fault, name in sorted({(row["fault"], name) for row in pauses for name in row["targets"]}):
        found.setdefault(name, []).append((begins.get(fault, 0), ends.get(fault, FOREVER)))
    return found


def latest_ms(source: Source) -> dict[str, float]:
    """How late each process was at most since the load began, by its own report."""
    return _latest_ms(source, FOREVER)


def _latest_ms(source: Source, last: int) -> dict[str, float]:
    """The same until `last`, without the time in which a fault had frozen the process."""
    begun, pauses = source.record.marks.load_begun_ns or 0, frozen(source)
    found = {}
    for client, told in _told(source).items():
        own = pauses.get(client, [])
        found[client] = max(_outside(max(at - behind, begun), min(at, last), own) for at, behind in told) / 1e6
    return found


def _outside(begin: int, end: int, pauses: list[Stretch]) -> int:
    """How much of a stretch of time lies in no pause."""
    found = 0
    for paused, resumed in sorted(pauses):
        found += max(0, min(end, paused) - begin)
        begin = max(begin, resumed)
    return found + max(0, end - begin)


def _told(source: Source, servers: bool = False) -> dict[str, list[tuple[int, int]]]:
    """When each process of the lab noticed that it was late, and by how much.

    With `servers`, the same for the nodes of the cluster: when the lab looked, and how long the node had waited for a
    processor.
    """
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for path in source.files["lateness"]:
        for row in pq.read_table(path, columns=["client", "at_ns", "behind_ns"]).to_pylist():
            if source.record.is_server(row["client"]) == servers:
                found[row["client"]].append((row["at_ns"], row["behind_ns"]))
    return dict(found)


def _told_ms(source: Source) -> float:
    """How late a process was at most, counting only the time during the load."""
    ended = source.record.marks.load_ended_ns
    return max(_latest_ms(source, FOREVER if ended is None else ended).values(), default=0.0)


def _observer_ms(source: Source) -> float:
    """How late the observer was at most when it asked a broker again.

    It wants to ask again after a fixed interval, but not before the last answer. Without a look before the load began,
    or after it ended, the time counts from the beginning, or to the end.
    """
    begun, ended = source.record.marks.load_begun_ns, source.record.marks.load_ended_ns
    looks = _looks(source)
    if not len(looks.at):
        return 0.0
    wanted = looks.at + np.maximum(looks.took, LOOKS_EVERY_NS)
    first, last = looks.at.min(), wanted.max()
    begun, ended = first if begun is None else begun, last if ended is None else ended
    late = (np.minimum(looks.at[1:], ended) - np.maximum(wanted[:-1], begun))[looks.again]
    return float(max(first - begun, ended - max(last, begun), late.max(initial=0))) / 1e6


def _producers_ms(source: Source) -> float:
    """How late a producer was at most, by its own report.

    The reports have no times, so producers that the scenario froze are left out; `lateness` covers those too.
    """
    paused = frozen(source)
    others = [producer.id for producer in source.record.producers if producer.name not in paused]
    latest_ns = 0
    for path in source.files["blocks"]:
        if "behind_ns" in pq.read_schema(path).names:
            told = pq.read_table(path, columns=["behind_ns"], filters=pc.field("producer").isin(others))
            latest_ns = max(latest_ns, pc.max(told["behind_ns"]).as_py() or 0)
    return latest_ns / 1e6


def gaps_ms(source: Source) -> npt.NDArray[np.float64]:
    """The time from each look at a broker during the load to the next."""
    marks, looks = source.record.marks, _looks(source)
    during = (looks.at >= (marks.load_begun_ns or 0)) & (looks.at <= (marks.load_ended_ns or FOREVER))
    return np.diff(looks.at)[looks.again & during[1:] & during[:-1]] / 1e6


def _looks(source: Source) -> Looks:
    """Every look at a broker, by broker and topic.

    The topic tells brokers of two clusters apart, which may have the same number. The partitions of a topic share their
    looks, so thousands of partitions need no more memory than one.
    """
    names = ["broker", "topic", "at_ns", "took_ns"]
    chunks = [[np.zeros(0, np.int64) for _ in names]]
    for rows in by_groups(source.files["state"], names):
        chunks.append(_once([rows[name].to_numpy() for name in names]))
        if sum(len(chunk[0]) for chunk in chunks[1:]) > max(MERGED_LOOKS, len(chunks[0][0]) // 2):
            _merge(chunks)
    _merge(chunks)
    broker, topic, at, took = chunks[0]
    return Looks(at, took, (np.diff(broker) == 0) & (np.diff(topic) == 0))


def _merge(chunks: list[list[Moments]]) -> None:
    """Merge the chunks into one, in place, so that each array is free before the next is made."""
    columns = [np.concatenate(own) for own in zip(*chunks, strict=True)]
    chunks.clear()
    chunks.append(_once(columns))
    if len(chunks[0][0]) > LOOKS_MOST:
        raise TooManyLooks(f"the table `state` has more than {LOOKS_MOST:,} answers of brokers")


def _once(columns: list[Moments]) -> list[Moments]:
    """The rows in the order of broker, topic, time and duration, each look once: its first row."""
    order = np.lexsort(columns[2::-1])
    fresh = np.ones(len(order), bool)
    fresh[1:] = np.logical_or.reduce([np.diff(column[order]) != 0 for column in columns[:3]])
    order = order[fresh]
    for place, column in enumerate(columns):
        columns[place] = column[order]
    return columns
