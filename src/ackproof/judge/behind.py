"""How late the laboratory was itself, for want of a processor: what it measured then says little of Kafka.

Two of its processes tell. The observer wants to ask each broker again and again; a producer of ours wants to wait so
long and no longer, and writes down by how much it missed that. Neither counts what it waited for Kafka.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof.judge.sources import Source

LOOKS_EVERY_MS = 125.0  # the observer asks each broker so often, if it answers
BEHIND_MS = 1_000.0


def is_behind(ms: float) -> bool:
    return ms >= BEHIND_MS


def behind_ms(source: Source) -> float:
    """How late the laboratory was at its latest during the load."""
    return max(_observer_ms(source), _producers_ms(source))


def _observer_ms(source: Source) -> float:
    """From the moment at which it wanted to ask a broker again, which is no earlier than the last answer, until it
    did."""
    gaps_ms, took_ms = looks_ms(source)
    return float((gaps_ms - np.maximum(took_ms, LOOKS_EVERY_MS)).max(initial=0.0))


def _producers_ms(source: Source) -> float:
    """As they wrote it down themselves; but for those that the scenario froze, whose lateness is its doing."""
    frozen = {name for row in source.small["faults"] if row["kind"] == "pause" for name in row["targets"]}
    others = [producer.id for producer in source.record.producers if producer.name not in frozen]
    latest_ns = 0
    for path in source.files["blocks"]:
        if "behind_ns" in pq.read_schema(path).names:
            told = pq.read_table(path, columns=["behind_ns"], filters=pc.field("producer").isin(others))
            latest_ns = max(latest_ns, pc.max(told["behind_ns"]).as_py() or 0)
    return latest_ns / 1e6


def looks_ms(source: Source) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """From each look at a broker to the next, and how long the first of the two took. By topic too: brokers of two
    clusters may have the same number, and no topic in common."""
    marks, names = source.record.marks, ["broker", "topic", "at_ns", "took_ns"]
    asked = [pq.read_table(path, columns=names) for path in source.files["state"]]
    brokers, topics, at_ns, took_ns = (
        np.concatenate([np.zeros(0, np.int64), *(table[name].to_numpy() for table in asked)]) for name in names
    )
    during = (at_ns >= (marks.load_begun_ns or 0)) & (at_ns <= (marks.load_ended_ns or at_ns.max(initial=0)))
    gaps, took = [np.zeros(0)], [np.zeros(0)]
    for broker, topic in np.unique(np.stack([brokers, topics]), axis=1).T:
        own = during & (brokers == broker) & (topics == topic)
        looks, first = np.unique(at_ns[own], return_index=True)
        gaps.append(np.diff(looks) / 1e6)
        took.append(took_ns[own][first][:-1] / 1e6)
    return np.concatenate(gaps), np.concatenate(took)
