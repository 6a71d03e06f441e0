"""Pauses of a large journal: stretches without an acknowledgement of a partition, and who waited in them.

The same as the check `unavailable`, from what was counted: pauses lie between the slices of time that have an
acknowledgement, and only parts with a send that may have waited in one are read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ackproof.judge.engine.block_digests import FAR, Columns, Longs, grouped
from ackproof.judge.engine.parts import Part
from ackproof.judge.engine.sums import Lines, Sums, attempts

SENDS = ("topic", "partition", "sent_ns", "done_ns", "outcome")

Wait = tuple[int, int, int, int, float, int, int]  # topic, partition, from, to, milliseconds, waiting, failed
Pauses = dict[tuple[int, int], tuple[Longs, Longs]]  # of each partition, when they open and when they close, in order


def pauses(sums: Sums, lines: Lines) -> Pauses:
    """Every stretch between acknowledgements longer than the threshold, whether or not anybody waited."""
    found: Pauses = {}
    waits, acks = sums["waits"], sums["acks"]
    if not waits:
        return found
    for place, key in enumerate(zip(waits["topic"].tolist(), waits["partition"].tolist(), strict=True)):
        begin, end = int(waits["first_sent_ns"][place]), int(waits["last_until_ns"][place])
        own = (acks["topic"] == key[0]) & (acks["partition"] == key[1])
        in_time = np.argsort(acks["slice"][own], kind="stable")
        firsts, lasts = acks["first_ns"][own][in_time], acks["last_ns"][own][in_time]
        opens, closes = np.concatenate([[begin], lasts]), np.append(firsts, end)
        long = closes - opens > lines.unavailable_ns
        if long.any():
            found[key] = opens[long], closes[long]
    return found


def may_wait(part: Part, found: Pauses) -> bool:
    """Whether a send of this part may have waited in a pause, as far as the file says."""
    earliest, _ = part.bounds.get("sent_ns", (-1, -1))
    _, latest = (0, FAR) if "done_ns" in part.nulls else part.bounds.get("done_ns", (0, FAR))
    return any(bool(((closes > earliest) & (opens < latest)).any()) for opens, closes in found.values())


def waited(part: Part, found: Pauses, lines: Lines) -> Columns:
    """Of each pause that somebody waited in: from when, until when, how many, and how many failed in it."""
    own = attempts(part.read(SENDS), lines)
    order, starts = grouped([own.topic, own.partition])
    made = []
    for rows in np.split(order, starts[1:]) if len(starts) else []:
        key = int(own.topic[rows[0]]), int(own.partition[rows[0]])
        if key not in found:
            continue
        opens, closes = found[key]
        sent, until, ok = own.sent_ns[rows], own.until_ns[rows], own.ok[rows]
        first = np.searchsorted(closes, sent, side="right")
        count = np.maximum(np.searchsorted(opens, until, side="left") - first, 0)
        row = np.repeat(np.arange(len(rows)), count)
        pause = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
        made.append(
            _added(
                np.full(len(row), key[0]),
                np.full(len(row), key[1]),
                opens[pause],
                closes[pause],
                np.maximum(sent[row], opens[pause]),
                np.minimum(until[row], closes[pause]),
                np.ones(len(row), np.int64),
                (~ok[row] & (until[row] <= closes[pause])).astype(np.int64),
            )
        )
    return _together(made)


def rows_of(made: Sequence[Columns], lines: Lines) -> Iterable[Wait]:
    """What the check says of each, where the wait was long enough."""
    every = _together(made)
    for topic, partition, since, to, waiting, failed in zip(
        *(every[name].tolist() for name in ("topic", "partition", "from_ns", "to_ns", "waiting", "failed")), strict=True
    ):
        if to - since > lines.unavailable_ns:
            yield topic, partition, since, to, (to - since) / 1e6, waiting, failed


_NAMES = ("topic", "partition", "open_ns", "close_ns", "from_ns", "to_ns", "waiting", "failed")
_HOW = {"from_ns": np.minimum, "to_ns": np.maximum, "waiting": np.add, "failed": np.add}


def _together(made: Sequence[Columns]) -> Columns:
    return _added(*(np.concatenate([np.zeros(0, np.int64), *(each[name] for each in made)]) for name in _NAMES))


def _added(*columns: Longs) -> Columns:
    given = dict(zip(_NAMES, columns, strict=True))
    order, starts = grouped([given[name] for name in _NAMES[:4]])
    first = order[starts]
    made = {name: given[name][first] for name in _NAMES[:4]}
    return made | {
        name: how.reduceat(given[name][order], starts) if len(starts) else given[name] for name, how in _HOW.items()
    }
