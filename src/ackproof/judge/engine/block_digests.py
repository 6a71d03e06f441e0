"""Blocks of numbers, folded: what sends, healed log and reads of 4,096 numbers of a producer have in common.

A journal is mostly dull: a number was sent once, acknowledged, stands in the healed log where it was acknowledged, and
each group was given it once. To see that of a block takes no join: the same count, and the same sum of hashes over
(number, offset), in each partition, say that two tables hold the same pairs. Two sums of 64 bits are kept: that blocks
which differ agree in both by chance has a likelihood of 2^-128 for each block.

Everything here is arrays in, arrays out, for one part of one table of one run; `suspect_blocks` puts parts together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

BITS = 12
FEWER_BITS = 8  # of a small journal, of which a block is a larger part

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Columns = dict[str, npt.NDArray[Any]]

KEY = ("producer", "block", "topic", "partition")
FAR = np.int64(2**62)  # above every time, offset and epoch
SENDS = ("producer", "seq", "topic", "partition", "outcome", "offset", "done_ns")
LOG = ("producer", "seq", "topic", "partition", "offset", "leader_epoch")
READS = ("group", "producer", "seq", "topic", "partition", "offset")


def fold_sends(sends: pa.Table, bits: int = BITS) -> Columns:
    """Acknowledged sends by block and partition; rows of partition -1 stand for all others, which must be looked at."""
    ok = pc.equal(sends["outcome"], "ok").to_numpy()
    done, offset = filled(sends, "done_ns", -1), filled(sends, "offset", -1)
    partition = filled(sends, "partition", -1)
    plain = ok & (done >= 0) & (offset >= 0) & (partition >= 0)
    partition = np.where(plain, partition, -1)
    seq = filled(sends, "seq", -1)
    keys = (filled(sends, "producer", -1), seq >> bits, filled(sends, "topic", -1), partition)
    order, starts = grouped(keys)
    numbers = hashed(seq)
    return {
        **_key(keys, order, starts),
        **_sums(numbers, offset, order, starts),
        **_bounds("offset", offset, order, starts),
        **_bounds("done", done, order, starts),
        **{name: _reduced(np.add, hashes, order, starts) for name, hashes in numbers.items()},
    }


def fold_log(log: pa.Table, bits: int = BITS) -> Columns:
    """Records by block and partition, with `rising` where the numbers rise with the offsets."""
    seq, offset = filled(log, "seq", -1), filled(log, "offset", -1)
    epoch = filled(log, "leader_epoch", -1)  # of a log that was read where it lies none is known
    keys = (filled(log, "producer", -1), seq >> bits, filled(log, "topic", -1), filled(log, "partition", -1))
    order, starts = grouped(keys)
    ends = np.append(starts, len(order))[1:] - 1
    in_order, places = seq[order], offset[order]
    rises = np.ones(len(order), np.bool_)
    rises[1:] = (in_order[1:] > in_order[:-1]) & (places[1:] > places[:-1])
    rises[starts] = True
    return {
        **_key(keys, order, starts),
        **_sums(hashed(seq), offset, order, starts),
        **_bounds("offset", offset, order, starts),
        "low_epoch": _reduced(np.minimum, np.where(epoch < 0, FAR, epoch), order, starts),
        "high_epoch": _reduced(np.maximum, epoch, order, starts),
        "rising": np.logical_and.reduceat(rises, starts) if len(starts) else rises,
        "first_seq": in_order[starts],
        "last_seq": in_order[ends],
    }


def fold_reads(reads: pa.Table, bits: int = BITS) -> Columns:
    """Records that consumers of a group were given, by block and partition."""
    seq, offset = filled(reads, "seq", -1), filled(reads, "offset", -1)
    keys = (filled(reads, "producer", -1), seq >> bits, filled(reads, "topic", -1), filled(reads, "partition", -1))
    group = filled(reads, "group", -1)
    order, starts = grouped((group, *keys))
    return {
        "group": group[order][starts],
        **_key(keys, order, starts),
        **_sums(hashed(seq), offset, order, starts),
        **_bounds("offset", offset, order, starts),
    }


def grouped(keys: Sequence[Longs]) -> tuple[Longs, Longs]:
    """The order that puts equal keys together and leaves their rows as they were, and where each key begins."""
    if not len(keys[0]):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    packed, size = np.zeros(len(keys[0]), np.int64), 1
    for key in keys:
        low, span = int(key.min()), int(key.max()) - int(key.min()) + 1
        size *= span
        if size >= 2**62:
            return _grouped_one_by_one(keys)
        packed = packed * span + (key - low)
    if size < 2**16:
        packed = packed.astype(np.uint16)  # sorted by its digits, in a tenth of the time
    order = np.argsort(packed, kind="stable")
    return order, _beginnings(packed[order])


def _grouped_one_by_one(keys: Sequence[Longs]) -> tuple[Longs, Longs]:
    order = np.lexsort(tuple(reversed(keys)))
    differs = np.zeros(len(order), np.bool_)
    for key in keys:
        differs[1:] |= key[order][1:] != key[order][:-1]
    differs[0] = True
    return order, np.flatnonzero(differs)


def _beginnings(ordered: npt.NDArray[Any]) -> Longs:
    differs = np.ones(len(ordered), np.bool_)
    differs[1:] = ordered[1:] != ordered[:-1]
    return np.flatnonzero(differs)


def filled(table: pa.Table, name: str, missing: int) -> Longs:
    column = table[name]
    if column.null_count:
        column = column.fill_null(missing)
    found: Longs = column.to_numpy().astype(np.int64, copy=False)
    return found


def _key(keys: Sequence[Longs], order: Longs, starts: Longs) -> Columns:
    return {name: key[order[starts]] for name, key in zip(KEY, keys, strict=True)}


def _sums(numbers: Columns, offset: Longs, order: Longs, starts: Longs) -> Columns:
    """Pairs of number and offset, each hashed twice and independently."""
    pairs = {
        name: _mixed(numbers[f"number_{name}"].view(np.uint64) + offset.view(np.uint64)) for name in ("one", "two")
    }
    return {
        "count": np.diff(np.append(starts, len(order))),
        **{name: _reduced(np.add, hashes.view(np.int64), order, starts) for name, hashes in pairs.items()},
    }


def hashed(number: Longs) -> Columns:
    """Two hashes of a number by itself."""
    first = _mixed(number.view(np.uint64))
    second = _mixed(first ^ np.uint64(0xD6E8FEB86659FD93))
    return {"number_one": first.view(np.int64), "number_two": second.view(np.int64)}


def _mixed(number: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """splitmix64: every bit of the answer hangs on every bit of the number."""
    number = number + np.uint64(0x9E3779B97F4A7C15)
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


def _bounds(name: str, column: Longs, order: Longs, starts: Longs) -> Columns:
    return {
        f"low_{name}": _reduced(np.minimum, column, order, starts),
        f"high_{name}": _reduced(np.maximum, column, order, starts),
    }


def _reduced(how: np.ufunc, column: Longs, order: Longs, starts: Longs) -> Longs:
    found: Longs = how.reduceat(column[order], starts) if len(starts) else column[:0]
    return found
