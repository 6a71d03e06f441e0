"""How consumers moved, part by part: which of a consumer's steps were not to the very next offset.

Nearly all are, and a part whose rows are in order needs no window to see it: the row before is the row above. Where one
part ends and the next begins, the two rows there are compared when all are known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ackproof.judge.engine.block_digests import Bools, Columns, Longs, filled, grouped

KEY = ("consumer", "assignment", "topic", "partition")
ORDER = ("poll", "read_ns", "offset")
REST = ("producer", "seq")
READS = (*KEY, *ORDER, *REST)
STEP = (*KEY, "previous_offset", "offset", "producer", "seq", "read_ns", "poll")


def walk(reads: pa.Table) -> tuple[Columns, Columns]:
    """The odd steps within a part, and of each of its walks the first row and the last."""
    columns = {name: filled(reads, name, -1) for name in READS}
    order, starts = grouped([columns[name] for name in KEY])
    walks = {name: column[order] for name, column in columns.items()}
    rises = _not_before(walks)
    rises[starts] = True
    if not rises.all():
        order = np.lexsort([columns[name] for name in reversed((*KEY, *ORDER))])
        walks = {name: column[order] for name, column in columns.items()}
    ends = np.append(starts, len(order))[1:] - 1
    edges: Columns = {name: walks[name][starts] for name in (*KEY, *ORDER, *REST)}
    edges |= {f"last_{name}": walks[name][ends] for name in ORDER}
    return _odd(walks, starts), edges


def joined(odd: Sequence[Columns], edges: Sequence[Columns]) -> Columns | None:
    """All odd steps of a run; null where its parts are not in the order in which they were read."""
    every = {name: np.concatenate([each[name] for each in edges]) for name in (edges[0] if edges else ())}
    if not every:
        return {name: np.zeros(0, np.int64) for name in STEP}
    order = np.lexsort([every[name] for name in reversed((*KEY, *ORDER))])
    every = {name: column[order] for name, column in every.items()}
    same = np.zeros(len(order), np.bool_)
    same[1:] = np.logical_and.reduce([every[name][1:] == every[name][:-1] for name in KEY])
    before = {name: np.roll(every[f"last_{name}"], 1) for name in ORDER}
    if not _rises(before, every)[same].all():
        return None
    between = same & (every["offset"] != before["offset"] + 1)
    step = {name: every[name][between] for name in STEP if name != "previous_offset"}
    step["previous_offset"] = before["offset"][between]
    return {name: np.concatenate([*(each[name] for each in odd), step[name]]) for name in STEP}


def _odd(walks: Columns, starts: Longs) -> Columns:
    size = len(walks["offset"])
    odd = np.zeros(size, np.bool_)
    odd[1:] = walks["offset"][1:] != walks["offset"][:-1] + 1
    odd[starts] = False
    at = np.flatnonzero(odd)
    found = {name: walks[name][at] for name in STEP if name != "previous_offset"}
    return {**found, "previous_offset": walks["offset"][at - 1]}


def _not_before(walks: Columns) -> Bools:
    """Whether each row comes after the row above it."""
    found = np.ones(len(walks["offset"]), np.bool_)
    found[1:] = _rises({name: walks[name][:-1] for name in ORDER}, {name: walks[name][1:] for name in ORDER})
    return found


def _rises(before: Columns, after: Columns) -> Bools:
    found: Bools = np.ones(len(after["offset"]), np.bool_)
    for name in reversed(ORDER):
        found = (after[name] > before[name]) | ((after[name] == before[name]) & found)
    return found
