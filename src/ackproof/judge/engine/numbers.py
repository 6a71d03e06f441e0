"""The numbers that producers reserved, in a large journal: folded by blocks like the sends, and set against them.

What `sequence_audit` asks row by row is asked here of blocks of 4,096 numbers; only blocks that differ are asked row by
row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ackproof.judge.engine.block_digests import BITS, FAR, Columns, Longs, grouped, hashed
from ackproof.judge.engine.sums import added
from ackproof.judge.sequence_audit import Producer

PIECE = 1 << 20  # numbers at a time
_COUNTS = ("reported", "ok", "fail", "info", "backwards")
_FIRSTS = ("first_ok_ns", "first_sent_ns", "first_seq")
_LASTS = ("last_sent_ns", "last_done_ns", "last_seq")


def reservations(paths: Sequence[Path]) -> Columns:
    """Each stretch of numbers that may have been used, and whether the producer lived to say so."""
    names = ["producer", "first_seq", "count", "used"]
    if not paths:
        return {name: np.zeros(0, np.int64) for name in ("producer", "first_seq", "size", "closed")}
    blocks = pa.concat_tables([pq.read_table(path, columns=names) for path in paths], promote_options="permissive")
    found = blocks.group_by(names[:2]).aggregate([("count", "max"), ("used", "max")])
    used = found["used_max"].fill_null(-1).to_numpy()
    size = np.where(used >= 0, used, found["count_max"].to_numpy())
    columns = {name: found[name].to_numpy().astype(np.int64) for name in names[:2]}
    columns |= {"size": size.astype(np.int64), "closed": (used >= 0).astype(np.int64)}
    return {name: column[size > 0] for name, column in columns.items()}


def fold_reserved(own: Columns, bits: int = BITS) -> Columns:
    """By producer and block: how many numbers, and two sums of their hashes."""
    pieces = [_piece(producer, first, end, bits) for producer, first, end in _pieces(own)]
    return added(pieces, ("producer", "block"))


def _pieces(own: Columns) -> Iterator[tuple[int, int, int]]:
    for producer, first, size in zip(*(own[name].tolist() for name in ("producer", "first_seq", "size")), strict=True):
        for begin in range(first, first + size, PIECE):
            yield producer, begin, min(begin + PIECE, first + size)


def _piece(producer: int, first: int, end: int, bits: int) -> Columns:
    seq = np.arange(first, end)
    block = seq >> bits
    starts = np.flatnonzero(np.diff(block, prepend=block[0] - 1))
    return {
        "producer": np.full(len(starts), producer),
        "block": block[starts],
        "count": np.diff(np.append(starts, len(seq))),
        **{name: np.add.reduceat(hashes, starts) for name, hashes in hashed(seq).items()},
    }


def differing(sends: Columns, reserved: Columns) -> Longs:
    """Producer and block, where what was reported is not exactly what was reserved. `sends` are folds of parts."""
    key, compared = ("producer", "block"), ("count", "number_one", "number_two")
    minus = {name: -column if name in compared else column for name, column in reserved.items()}
    both = added([{name: side[name] for name in (*key, *compared)} for side in (sends, minus) if side], key)
    if not both:
        return np.zeros((0, 2), np.int64)
    which = np.logical_or.reduce([both[name] != 0 for name in compared])
    return np.stack([both["producer"][which], both["block"][which]], axis=1)


def clipped(own: Columns, blocks: Longs, run: int, bits: int = BITS) -> list[dict[str, Any]]:
    """The reservations as far as they lie in these blocks, as rows of the journal's own table."""
    wanted: dict[int, list[int]] = {}
    for producer, block in blocks.tolist():
        wanted.setdefault(producer, []).append(block)
    rows = []
    names = ("producer", "first_seq", "size", "closed")
    for producer, first, size, closed in zip(*(own[name].tolist() for name in names), strict=True):
        mine = np.array(sorted(wanted.get(producer, [])), np.int64)
        low, high = np.searchsorted(mine, [first >> bits, ((first + size - 1) >> bits) + 1])
        for block in mine[low:high].tolist():
            begin, end = max(first, block << bits), min(first + size, (block + 1) << bits)
            common = {"run": run, "producer": producer, "first_seq": begin, "count": end - begin, "at_ns": 0}
            rows.append({**common, "used": end - begin if closed else None})
    return rows


def producers(run: int, reported: Columns, own: Columns, blocks: Longs) -> list[Producer]:
    """One for each; `blocks` are those that differ."""
    counts = _totals(own)
    unequal = set(blocks[:, 0].tolist())
    told: dict[int, dict[str, int]] = {}
    if reported:
        for row in zip(*(reported[name].tolist() for name in reported), strict=True):
            found = dict(zip(reported, row, strict=True))
            told[found["producer"]] = found
    return [
        _producer(run, number, told.get(number, {}), counts.get(number, 0), number not in unequal)
        for number in sorted({*told, *counts})
    ]


def _totals(own: Columns) -> Mapping[int, int]:
    order, starts = grouped([own["producer"]])
    sizes = np.add.reduceat(own["size"][order], starts) if len(starts) else own["size"]
    return dict(zip(own["producer"][order[starts]].tolist(), sizes.tolist(), strict=True))


def _producer(run: int, number: int, told: Mapping[str, int], reserved: int, equal: bool) -> Producer:
    bounds: dict[str, int | None] = {name: told.get(name) for name in (*_FIRSTS, *_LASTS)}
    bounds |= {name: None for name in _FIRSTS if bounds[name] == FAR}
    bounds |= {name: None for name in _LASTS if bounds[name] == -1}
    counts = {name: told.get(name, 0) for name in _COUNTS}
    return Producer(run=run, producer=number, reserved=reserved, equal=equal, **counts, **bounds)  # type: ignore[arg-type]
