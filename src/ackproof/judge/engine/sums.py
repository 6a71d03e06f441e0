"""What of a large journal is only counted: made from the same parts that are folded, each read once.

    producers   how many numbers each reported with which outcome, and from when to when
    seconds     how many were sent, acknowledged, known of and read in each second of the load
    latencies   how many acknowledgements took how long, by the highest bits of their microseconds
    acks        the first and the last acknowledgement of a partition in each slice of time
    waits       from when to when somebody waited for one
    stretches   the offsets of the log from a first to a last, and how many records there are between them
    shares      how many records of each partition a consumer was given

Arrays in, arrays out; the checks that ask for these take them where they are there, and else count themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.judge.engine.block_digests import FAR, Bools, Columns, Longs, filled, grouped

SECOND = 1_000_000_000
SIGNIFICANT_BITS = 7
BASES = ("due", "sent")
SENDS = ("due_ns", "sent_ns")  # besides what is folded
READS = ("consumer", "read_ns")
KEYS = {
    "producers": ("producer",),
    "seconds": ("second",),
    "latencies": ("basis", "us"),
    "acks": ("topic", "partition", "slice"),
    "waits": ("topic", "partition"),
    "stretches": ("topic", "partition", "first"),
    "shares": ("consumer", "topic", "partition"),
}

Sums = dict[str, Columns]


@dataclass(frozen=True)
class Lines:
    """What a run's rows are held against."""

    begin_ns: int | None  # its first send
    late_ns: int
    end_ns: int | None = None  # its last outcome
    unavailable_ns: int = SECOND
    only: Mapping[int, int] = field(default_factory=dict)  # of each topic its only partition; -1 where it has several


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
    acks, waits = _waited(attempts(sends, lines), lines)
    return {
        "producers": _producers(sends, ok, sent, done),
        "seconds": added(counted, KEYS["seconds"]),
        "latencies": added(latencies, KEYS["latencies"]),
        "acks": acks,
        "waits": waits,
    }


def sum_reads(reads: pa.Table, lines: Lines) -> Sums:
    key = [filled(reads, name, -1) for name in KEYS["shares"]]
    return {
        "seconds": _seconds(filled(reads, "read_ns", -1), "read", lines),
        "shares": _summed(key, KEYS["shares"], {"read": np.ones(len(reads), np.int64)}),
    }


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


@dataclass(frozen=True)
class Attempts:
    """Sends with the partition that they waited for and the time until which they did, in the order of their rows."""

    topic: Longs
    partition: Longs
    sent_ns: Longs
    until_ns: Longs
    ok: Bools


def attempts(sends: pa.Table, lines: Lines) -> Attempts:
    topic, partition = filled(sends, "topic", -1), filled(sends, "partition", -1)
    known = np.full(max([*lines.only, -1]) + 2, -1)  # the last stands for topics of which no end is known
    for number, only in lines.only.items():
        known[number] = only
    there = np.isin(topic, np.array([*lines.only], np.int64))
    said = np.where(partition >= 0, partition, known[np.where(there, topic, -1)])
    sent, done = filled(sends, "sent_ns", -1), filled(sends, "done_ns", -1)
    until = np.where(done >= 0, done, -1 if lines.end_ns is None else lines.end_ns)
    kept = there & (said >= 0) & (sent >= 0)
    ok = pc.equal(sends["outcome"], "ok").to_numpy()
    return Attempts(topic[kept], said[kept], sent[kept], until[kept], ok[kept])


def _waited(own: Attempts, lines: Lines) -> tuple[Columns, Columns]:
    acked = own.until_ns[own.ok]
    slices = [own.topic[own.ok], own.partition[own.ok], acked // lines.unavailable_ns]
    return (
        _summed(slices, KEYS["acks"], {"first_ns": acked, "last_ns": acked}),
        _summed(
            [own.topic, own.partition], KEYS["waits"], {"first_sent_ns": own.sent_ns, "last_until_ns": own.until_ns}
        ),
    )


def _producers(sends: pa.Table, ok: Bools, sent: Longs, done: Longs) -> Columns:
    seq = filled(sends, "seq", -1)
    outcomes = {name: pc.equal(sends["outcome"], name).to_numpy() for name in ("fail", "info")}
    known = done >= 0
    first_sent = np.where(sent >= 0, sent, FAR)
    return _summed(
        [filled(sends, "producer", -1)],
        KEYS["producers"],
        {
            "reported": np.ones(len(sends), np.int64),
            "ok": ok.astype(np.int64),
            **{name: which.astype(np.int64) for name, which in outcomes.items()},
            "backwards": (known & (sent >= 0) & (done < sent)).astype(np.int64),
            "first_ok_ns": np.where(ok & known, done, FAR),
            "first_sent_ns": first_sent,
            "last_sent_ns": sent,
            "last_done_ns": done,
            "first_seq": seq,
            "last_seq": seq,
            "first_ok_sent_ns": np.where(ok, first_sent, FAR),
            "last_ok_ns": np.where(ok, done, -1),
        },
    )


def _summed(key: Sequence[Longs], names: Sequence[str], columns: Columns) -> Columns:
    order, starts = grouped(key)
    made = {name: column[order[starts]] for name, column in zip(names, key, strict=True)}
    return made | {name: _reduced(_how(name), column, order, starts) for name, column in columns.items()}


def _how(name: str) -> np.ufunc:
    """Firsts are the least, lasts the greatest, and all else adds up."""
    if name.startswith("first"):
        return np.minimum
    return np.maximum if name.startswith(("last", "max")) else np.add


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
    return _summed([columns[name] for name in key], key, {name: columns[name] for name in names if name not in key})


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
