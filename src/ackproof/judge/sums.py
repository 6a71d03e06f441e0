"""What of a large journal is only counted: made from the same parts that are folded, each read once.

    seconds     how many were sent, acknowledged, known of and read in each second of the load
    latencies   how many acknowledgements took how long, by the highest bits of their microseconds
    stretches   the offsets of the log from a first to a last, and how many records there are between them

Arrays in, arrays out; the checks that ask for these take them where they are there, and else count themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.judge.folds import Bools, Columns, Longs, filled, grouped

SECOND = 1_000_000_000
SIGNIFICANT_BITS = 7
BASES = ("due", "sent")
SENDS = ("due_ns", "sent_ns")  # besides what is folded
READS = ("read_ns",)
KEYS = {"seconds": ("second",), "latencies": ("basis", "us"), "stretches": ("topic", "partition", "first")}
_MAXIMA = ("max_ns", "last")

Sums = dict[str, Columns]


@dataclass(frozen=True)
class Lines:
    """What a run's rows are held against."""

    begin_ns: int | None  # its first send
    late_ns: int


def sum_sends(sends: pa.Table, lines: Lines) -> Sums:
    ok = pc.equal(sends["outcome"], "ok").to_numpy()
    sent, done = filled(sends, "sent_ns", -1), filled(sends, "done_ns", -1)
    known = done >= 0
    counted = [
        _seconds(sent[sent >= 0], "sent", lines),
        _seconds(done[ok & known], "acked", lines),
        _seconds(done[known], "done", lines),
    ]
    took = [np.maximum(done - filled(sends, f"{basis}_ns", 0), 0)[ok & known] for basis in BASES]
    latencies = [_latencies(number, each, lines.late_ns) for number, each in enumerate(took)]
    return {"seconds": added(counted, KEYS["seconds"]), "latencies": added(latencies, KEYS["latencies"])}


def sum_reads(reads: pa.Table, lines: Lines) -> Sums:
    return {"seconds": _seconds(filled(reads, "read_ns", -1), "read", lines)}


def sum_log(log: pa.Table) -> Sums:
    topic, partition = filled(log, "topic", -1), filled(log, "partition", -1)
    offset = filled(log, "offset", -1)
    order, starts = grouped([topic, partition])
    own = {name: column[order[starts]] for name, column in (("topic", topic), ("partition", partition))}
    bounds = {name: _reduced(how, offset, order, starts) for name, how in (("first", np.minimum), ("last", np.maximum))}
    return {"stretches": {**own, **bounds, "records": np.diff(np.append(starts, len(order)))}}


def all_whole(stretches: Columns) -> Bools:
    """Which hold a record at each offset between their ends; offsets of a partition are there once."""
    found: Bools = stretches["records"] == stretches["last"] - stretches["first"] + 1
    return found


def added(parts: Sequence[Columns], key: Sequence[str]) -> Columns:
    """Rows of one key as one; what one part does not count is none there."""
    names = list(dict.fromkeys(name for part in parts for name in part))
    if not names:
        return {}
    sizes = [len(part[key[0]]) for part in parts]
    columns = {
        name: np.concatenate(
            [part.get(name, np.zeros(size, np.int64)) for part, size in zip(parts, sizes, strict=True)]
        )
        for name in names
    }
    order, starts = grouped([columns[name] for name in key])
    made = {name: columns[name][order[starts]] for name in key}
    for name in names:
        if name not in key:
            made[name] = _reduced(np.maximum if name in _MAXIMA else np.add, columns[name], order, starts)
    return made


def _seconds(at_ns: Longs, what: str, lines: Lines) -> Columns:
    if lines.begin_ns is None:
        return {"second": np.zeros(0, np.int64), what: np.zeros(0, np.int64)}
    second, count = np.unique((at_ns - lines.begin_ns) // SECOND, return_counts=True)
    return {"second": second, what: count}


def _latencies(basis: int, took_ns: Longs, late_ns: int) -> Columns:
    us = took_ns // 1000
    # Half a microsecond more keeps powers of two away from where a logarithm rounds.
    shift = np.maximum(np.frexp(us + 0.5)[1] - SIGNIFICANT_BITS, 0).astype(np.int64)
    kept = (us >> shift) << shift
    order, starts = grouped([kept])
    return {
        "basis": np.full(len(starts), basis),
        "us": kept[order[starts]],
        "sends": np.diff(np.append(starts, len(order))),
        "max_ns": _reduced(np.maximum, took_ns, order, starts),
        "late": _reduced(np.add, (took_ns > late_ns).astype(np.int64), order, starts),
    }


def _reduced(how: np.ufunc, column: Longs, order: Longs, starts: Longs) -> Longs:
    found: Longs = how.reduceat(column[order], starts) if len(starts) else column[:0]
    return found
