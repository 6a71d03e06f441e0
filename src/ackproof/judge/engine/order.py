"""Realtime order in a large journal, without sorting it by time.

A send may not be acknowledged at an offset at or below one that was acknowledged before it began. Seen from the
offsets: no acknowledgement at its own offset or above it is older than the send. So the earliest acknowledgement from
an offset on, `since`, is all that matters, and offsets are small numbers without gaps: acknowledgements are put in
their places, and `since` runs down from the highest. The offsets of a run are cut into slabs that fit into memory; of
the slabs above it a slab needs to know one number for each partition.

Sends that came too late are found, and with each the highest offset that was acknowledged before it; what stands there
is worth a look, and the check itself says what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.judge.engine.block_digests import FAR, Columns, Longs, filled, grouped
from ackproof.judge.engine.parts import Part

SENDS = ("topic", "partition", "offset", "sent_ns", "done_ns", "outcome")
SLAB = 4_000_000  # sends, more or less
_SPARSE = 8  # offsets for each send, from which on places would be a waste

Tp = tuple[int, int]


@dataclass(frozen=True)
class Slab:
    """Some offsets of each partition, and the parts of the journal that may hold sends acknowledged there."""

    offsets: Mapping[Tp, tuple[int, int]]  # from the first to before the last
    parts: tuple[Part, ...]
    since: Mapping[Tp, int] = field(default_factory=dict)  # the earliest acknowledgement at higher offsets
    asked: Mapping[Tp, Longs] = field(default_factory=dict)  # when sends began that were acknowledged lower down


@dataclass(frozen=True)
class Seen:
    """Of each partition in a slab: its earliest ack and its latest send; offsets that are worth a look; and sends for
    which the highest offset acknowledged before them lies further up."""

    earliest: dict[Tp, int]
    latest: dict[Tp, int]
    odd: dict[Tp, Longs]
    further_up: dict[Tp, Longs]


def slabs(parts: Sequence[Part], folds: Columns, size: int = SLAB) -> list[Slab]:
    """The slabs of a run, from the lowest offsets to the highest; `folds` are those of its sends, part by part."""
    acked = folds["partition"] >= 0 if folds else np.zeros(0, np.bool_)
    own = {name: folds[name][acked] for name in ("part", "topic", "partition", "low_offset", "high_offset", "count")}
    if not acked.any():
        return []
    number = -(-int(own["count"].sum()) // size)
    order, starts = grouped([own["topic"], own["partition"]])
    cuts: dict[Tp, Longs] = {}
    for rows in np.split(order, starts[1:]):
        key = int(own["topic"][rows[0]]), int(own["partition"][rows[0]])
        cuts[key] = _cuts({name: own[name][rows] for name in ("low_offset", "high_offset", "count")}, number)
    found = []
    for place in range(number):
        offsets = {key: (int(cut[place]), int(cut[place + 1])) for key, cut in cuts.items()}
        touched: set[int] = set()
        for (topic, partition), (first, end) in offsets.items():
            here = (own["topic"] == topic) & (own["partition"] == partition)
            here &= (own["low_offset"] < end) & (own["high_offset"] >= first)
            touched |= set(own["part"][here].tolist())
        found.append(Slab(offsets, tuple(parts[each] for each in sorted(touched))))
    return found


def _cuts(folds: Columns, number: int) -> Longs:
    """The offsets of a partition in so many slabs with about as many sends each; one stray offset far away moves only
    the last cut."""
    order = np.argsort(folds["low_offset"], kind="stable")
    low, so_far = folds["low_offset"][order], np.cumsum(folds["count"][order])
    ends = np.searchsorted(so_far, so_far[-1] * np.arange(1, number) // number)
    return np.concatenate([low[:1], low[ends], [folds["high_offset"].max() + 1]])


def odd_places(run: Callable[[Sequence[Slab]], list[Seen]], every: Sequence[Slab]) -> list[tuple[int, int, Longs]]:
    """Topic, partition and offsets that are worth a look; `run` is how slabs are looked into."""
    seen = run(every)
    found = [(slab, one) for slab, one in zip(every, seen, strict=True)]
    # A slab that knew of nothing above it is looked into once more where that mattered.
    since: dict[Tp, int] = {}
    again = []
    for place in reversed(range(len(every))):
        if any(latest > since.get(key, FAR) for key, latest in seen[place].latest.items()):
            again.append((place, Slab(every[place].offsets, every[place].parts, dict(since))))
        for key, earliest in seen[place].earliest.items():
            since[key] = min(since.get(key, int(FAR)), earliest)
    for (place, slab), one in zip(again, run([slab for _, slab in again]), strict=True):
        found[place] = slab, one
    # Of sends whose answer lies further up: it lies in the highest slab with an acknowledgement before them.
    asked: dict[int, dict[Tp, Longs]] = {}
    for _, one in found:
        for key, sent in one.further_up.items():
            left = sent
            for place in reversed(range(len(every))):
                here = left > seen[place].earliest.get(key, FAR)
                if here.any():
                    own = asked.setdefault(place, {})
                    own[key] = np.concatenate([own.get(key, left[:0]), left[here]])
                left = left[~here]
    queries = [Slab(every[place].offsets, every[place].parts, {}, own) for place, own in asked.items()]
    told = [one for _, one in found] + run(queries)
    return [(topic, partition, offsets) for one in told for (topic, partition), offsets in one.odd.items()]


def look_into(slab: Slab) -> Seen:
    """Which sends of a slab began after something at their offset or above it was acknowledged."""
    rows = _rows(slab)
    seen = Seen({}, {}, {}, {})
    order, starts = grouped([rows["topic"], rows["partition"]])
    for own in np.split(order, starts[1:]) if len(starts) else []:
        key = int(rows["topic"][own[0]]), int(rows["partition"][own[0]])
        offset, sent, done = (rows[name][own] for name in ("offset", "sent_ns", "done_ns"))
        seen.earliest[key], seen.latest[key] = int(done.min()), int(sent.max())
        first, since, at = _since(offset, done)
        if slab.asked:
            # The last place of which `since` is before the moment asked for: it only rises with the offsets.
            seen.odd[key] = first(np.searchsorted(since, slab.asked.get(key, sent[:0]), side="left") - 1)
            continue
        above = slab.since.get(key, int(FAR))
        late = sent > np.minimum(since, above)[at]
        if late.any():
            higher = sent[late] > above
            within = first(np.searchsorted(since, sent[late][~higher], side="left") - 1)
            seen.odd[key] = np.unique(np.concatenate([offset[late], within]))
            seen.further_up[key] = np.unique(sent[late][higher])
    return seen


def _since(offset: Longs, done: Longs) -> tuple[Callable[[Longs], Longs], Longs, Longs]:
    """What offset a place is; the earliest acknowledgement from each place on; and the place of each send."""
    low, span = int(offset.min()), int(offset.max()) - int(offset.min()) + 1
    if span <= _SPARSE * len(offset) + 1024:
        at, size = offset - low, span
        first: Callable[[Longs], Longs] = lambda place: place + low  # noqa: E731
    else:
        distinct, at = np.unique(offset, return_inverse=True)
        size = len(distinct)
        first = lambda place: distinct[place]  # noqa: E731
    earliest = np.full(size, FAR)
    np.minimum.at(earliest, at, done)
    return first, np.minimum.accumulate(earliest[::-1])[::-1], at


def _rows(slab: Slab) -> Columns:
    kept = [_acked(part.read(SENDS), slab.offsets) for part in slab.parts]
    return {
        name: np.concatenate([np.zeros(0, np.int64), *(each[name] for each in kept)])
        for name in ("topic", "partition", "offset", "sent_ns", "done_ns")
    }


def _acked(sends: pa.Table, offsets: Mapping[Tp, tuple[int, int]]) -> Columns:
    rows = {name: filled(sends, name, -1) for name in SENDS if name != "outcome"}
    kept = pc.equal(sends["outcome"], "ok").to_numpy() & (rows["done_ns"] >= 0) & (rows["partition"] >= 0)
    kept &= rows["offset"] >= 0
    size = tuple(max(key[place] for key in offsets) + 1 for place in (0, 1))
    first, end = np.full(size, FAR), np.zeros(size, np.int64)
    for key, (low, high) in offsets.items():
        first[key], end[key] = low, high
    at = tuple(np.clip(rows[name], 0, most - 1) for name, most in zip(("topic", "partition"), size, strict=True))
    kept &= (rows["offset"] >= first[at]) & (rows["offset"] < end[at])
    return {name: column[kept] for name, column in rows.items()}
