"""Where to look closer: the blocks of numbers whose folds differ, and whatever stands at the offsets that they touch.

Checks that ask about single messages need only these; the rest of the journal is known to be dull. A block is looked at
if any of this is so:

    - one of its sends was not acknowledged with an offset
    - the pairs (number, offset) of its sends and of the healed log differ in a partition
    - in the log, its numbers do not rise with the offsets, or it overlaps the block before or after
    - a group that reads the topic was not given each of its records exactly once
    - one of its acks came when a later epoch had been seen, or may be the first of an epoch
    - other numbers of it were reported than were reserved
    - it touches offsets that a consumer jumped over, or that were acknowledged in another order than they were sent

What stands at the offsets of such a block belongs to it, whoever sent it. The conditions are wider than the checks:
they decide where to look, and the checks themselves say what is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof.judge.engine import block_digests as folds
from ackproof.judge.engine import steps, sums
from ackproof.judge.engine.block_digests import BITS, FAR, KEY, Bools, Columns, Longs, grouped
from ackproof.judge.engine.kept import Tree
from ackproof.judge.engine.parts import BY_THREADS, Hands, Part
from ackproof.judge.engine.parts import TABLES as TABLES_FOLDED
from ackproof.judge.engine.sums import KEYS, Lines, Sums, added
from ackproof.judge.run_source import by_groups
from ackproof.model.journal_tables import TABLES
from ackproof.model.run_record import RunRecord

EPOCHS_MOST = 1_000_000  # of all partitions together
_FIRSTS = pa.schema(
    {"topic": pa.int32(), "partition": pa.int32(), "leader_epoch": pa.int32(), "seen_ns_min": pa.int64()}
)
_HOW: dict[str, np.ufunc] = {"low": np.minimum, "high": np.maximum}


class TooManyEpochs(Exception):
    """The table `state` has more epochs of partitions than the judge holds in memory."""


@dataclass(frozen=True)
class Closer:
    """Of one run: the blocks to look at, and the stretches of offsets that they touch."""

    blocks: Longs  # producer, block
    stretches: Longs  # topic, partition, stretch


@dataclass(frozen=True)
class Folded:
    """One run, each part of it read once."""

    parts: Mapping[str, Sequence[Part]]
    folds: Mapping[str, Columns]  # of each table, where `part` counts its parts
    sums: Sums
    steps: Columns | None  # of consumers, other than to the next offset; null where parts are not in order


def folded(parts: Sequence[Part], lines: Lines, bits: int = BITS, hands: Hands = BY_THREADS) -> Folded:
    made = hands.fold(partial(fold_part, lines=lines, bits=bits), parts)
    by_table = {table: [part for part in parts if part.table == table] for table in TABLES_FOLDED}
    found = {}
    for table in TABLES_FOLDED:
        own = [one["folds"] for part, one in zip(parts, made, strict=True) if part.table == table]
        found[table] = together([{**one, "part": np.full(len(one["producer"]), n)} for n, one in enumerate(own)])
    counted = {
        name: added([one["sums"][name] for one in made if name in one["sums"]], key) for name, key in KEYS.items()
    }
    walks = [one for one in made if "edges" in one]
    odd = steps.joined([one["odd"] for one in walks], [one["edges"] for one in walks])
    return Folded(by_table, found, counted, odd)


def fold_part(part: Part, lines: Lines, bits: int) -> Tree:
    """One group of rows of a file: its folds, what is only counted, and how consumers moved in it."""
    if part.table == "sends":
        rows = part.read([*folds.SENDS, *sums.SENDS])
        return {"folds": folds.fold_sends(rows, bits), "sums": sums.sum_sends(rows, lines)}
    if part.table == "reads":
        rows = part.read(list(dict.fromkeys([*folds.READS, *sums.READS, *steps.READS])))
        odd, edges = steps.walk(rows)
        return {
            "folds": folds.fold_reads(rows, bits),
            "sums": sums.sum_reads(rows, lines),
            "odd": odd,
            "edges": edges,
        }
    rows = part.read(folds.LOG)
    return {"folds": folds.fold_log(rows, bits), "sums": sums.sum_log(rows)}


def together(parts: Sequence[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def closer(
    record: RunRecord,
    parts: Mapping[str, Columns],
    views: Iterable[Mapping[str, Any]],
    unequal: Longs,
    places: Sequence[Longs] = (),
    bits: int = BITS,
) -> Closer:
    """`views` are the first times at which each epoch was seen; `unequal` are blocks of which other numbers were
    reported than were reserved; `places` are further stretches of offsets that are worth a look."""
    sends, log = _merged(parts["sends"]), _merged(parts["log"], _rising)
    reads = _merged(parts["reads"], key=("group", *KEY)) if parts["reads"] else {}
    odd = [unequal]
    if sends:
        odd.append(_blocks(sends, sends["partition"] < 0))
    if log:
        odd += [_blocks(log, ~log["rising"]), _blocks(log, _overlapping(log))]
    both = _merged(together([_signed(table, sign) for table, sign in ((sends, 1), (log, -1)) if table]))
    if both:
        odd += [_blocks(both, _unbalanced(both)), _blocks(both, _out_of_its_time(both, list(views)))]
        odd += [_blocks(both, _first_of_epoch(both))]
    for group, topic in sorted(_readers(record, reads)):
        of_topic = _chosen(log, log["topic"] == topic) if log else {}
        own = _chosen(reads, (reads["group"] == group) & (reads["topic"] == topic)) if reads else {}
        compared = _merged(together([_signed(each, sign) for each, sign in ((own, 1), (of_topic, -1)) if each]))
        if compared:
            odd.append(_blocks(compared, _unbalanced(compared)))
    blocks = np.unique(np.concatenate(odd), axis=0)
    stretches = [_stretches(table, blocks, bits) for table in (sends, log, reads) if table]
    return Closer(blocks, np.unique(np.concatenate([np.zeros((0, 3), np.int64), *stretches, *places]), axis=0))


def jumped_over(found: Columns, bits: int = BITS) -> Longs:
    """The stretches of offsets that consumers jumped over."""
    ahead = found["offset"] > found["previous_offset"] + 1
    first, last = (found["previous_offset"][ahead] + 1) >> bits, (found["offset"][ahead] - 1) >> bits
    return _spread(found["topic"][ahead], found["partition"][ahead], first, last)


def first_seen(state: Sequence[Path]) -> list[dict[str, Any]]:
    """When each epoch of each partition was first seen by anybody."""
    columns = ["topic", "partition", "leader_epoch", "at_ns", "took_ns"]
    firsts = _FIRSTS.empty_table()
    for views in by_groups(state, columns):
        seen = views.filter(pc.is_valid(views["leader_epoch"]))
        seen = seen.append_column("seen_ns_min", pc.add(seen["at_ns"], seen["took_ns"]))
        both = pa.concat_tables([firsts, seen.select(_FIRSTS.names).cast(_FIRSTS)])
        found = both.group_by(columns[:3]).aggregate([("seen_ns_min", "min")])
        firsts = found.select([*columns[:3], "seen_ns_min_min"]).rename_columns(_FIRSTS.names)
        if len(firsts) > EPOCHS_MOST:
            raise TooManyEpochs(f"the table `state` has more than {EPOCHS_MOST:,} epochs of partitions")
    return list(firsts.to_pylist())


def narrowed(
    run: Folded, table: str, found: Closer, into: Path, bits: int = BITS, hands: Hands = BY_THREADS
) -> tuple[list[str], int]:
    """The rows of a table of one run that are worth a look, as files, and how many; parts without any are not read."""
    wanted = _Wanted(found, bits)
    parts = run.folds[table]
    asked = np.unique(parts["part"][wanted.blocks(parts) | wanted.touched(parts)]).tolist() if parts else []
    into.mkdir(parents=True, exist_ok=True)
    tasks = [(run.parts[table][number], str(into / f"{table}-{number}.parquet")) for number in asked]
    rows = hands.each(partial(_narrow_part, wanted=wanted), tasks, f"parts of the {table} looked at closer")
    return [path for (_, path), count in zip(tasks, rows, strict=True) if count], sum(rows)


def _narrow_part(task: tuple[Part, str], wanted: _Wanted) -> int:
    part, path = task
    rows = part.read()
    kept = _as_now(rows.filter(pa.array(wanted.rows(rows))), TABLES[part.table].schema)
    if len(kept):
        # Two workers may be at it, where one was given up too early: whole or not at all.
        aside = f"{path}.{uuid4().hex}"
        pq.write_table(kept, aside, compression="none")
        Path(aside).rename(path)
    return len(kept)


def _as_now(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """An older journal lacks columns that came later: they are null."""
    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    return rows.select(schema.names).cast(schema)


class _Wanted:
    """Whether something is worth a look."""

    def __init__(self, found: Closer, bits: int) -> None:
        self._blocks = found.blocks
        self._stretches = found.stretches
        self._bits = bits

    def rows(self, table: pa.Table) -> Bools:
        seq, offset = folds.filled(table, "seq", -1), folds.filled(table, "offset", -1)
        by_number = within([folds.filled(table, "producer", -1), seq >> self._bits], self._blocks)
        place = [folds.filled(table, name, -1) for name in ("topic", "partition")]
        return by_number | (within([*place, offset >> self._bits], self._stretches) & (offset >= 0))

    def blocks(self, parts: Columns) -> Bools:
        return within([parts["producer"], parts["block"]], self._blocks)

    def touched(self, parts: Columns) -> Bools:
        """Whether any offset of a part may be in a stretch that is worth a look; all between its bounds may."""
        found = np.zeros(len(parts["producer"]), np.bool_)
        for topic, partition in np.unique(self._stretches[:, :2], axis=0):
            own = self._stretches[(self._stretches[:, 0] == topic) & (self._stretches[:, 1] == partition), 2]
            here = (parts["topic"] == topic) & (parts["partition"] == partition)
            low, high = parts["low_offset"][here] >> self._bits, parts["high_offset"][here] >> self._bits
            found[here] = np.searchsorted(own, low) < np.searchsorted(own, high, side="right")
        return found


def within(keys: Sequence[Longs], known: Longs) -> Bools:
    """Which of these keys, column by column, are among the rows of `known`."""
    if not len(known) or not len(keys[0]):
        return np.zeros(len(keys[0]), np.bool_)
    packed, rows = np.zeros(len(keys[0]), np.int64), np.zeros(len(known), np.int64)
    for place, key in enumerate(keys):
        distinct = np.unique(known[:, place])
        at = np.minimum(np.searchsorted(distinct, key), len(distinct) - 1)
        packed = np.where((packed >= 0) & (distinct[at] == key), packed * len(distinct) + at, -1)
        rows = rows * len(distinct) + np.searchsorted(distinct, known[:, place])
    return np.isin(packed, rows)


# -- what makes a block worth a look ---------------------------------------------------------------------------------


def _merged(
    parts: Columns,
    also: Callable[[Columns, Longs, Longs], Columns] | None = None,
    key: Sequence[str] = KEY,
) -> Columns:
    """Parts of one key as one: sums added up, bounds widened."""
    if not parts:
        return {}
    order, starts = grouped([parts[name] for name in key])
    made = {name: parts[name][order[starts]] for name in key}
    for name, column in parts.items():
        how = np.add if name in ("count", "one", "two") else _HOW.get(name.split("_")[0])
        if name not in key and how is not None:
            made[name] = how.reduceat(column[order], starts) if len(starts) else column[:0]
    return {**made, **(also(parts, order, starts) if also else {})}


def _rising(parts: Columns, order: Longs, starts: Longs) -> Columns:
    """Each part rises, and begins above the one before it."""
    rising = parts["rising"][order].copy()
    goes_on = np.ones(len(order), np.bool_)
    goes_on[1:] = (parts["first_seq"][order][1:] > parts["last_seq"][order][:-1]) & (
        parts["low_offset"][order][1:] > parts["high_offset"][order][:-1]
    )
    goes_on[starts] = True
    return {"rising": np.logical_and.reduceat(rising & goes_on, starts) if len(starts) else rising}


def _signed(table: Columns, sign: int) -> Columns:
    """Bounds that a table does not have stand for no bound, and the sums of the other side are taken off."""
    size = len(table["producer"])
    none = {f"low_{name}": np.full(size, FAR) for name in ("done", "epoch")}
    none |= {f"high_{name}": np.full(size, -1) for name in ("done", "epoch")}
    kept = {name: table[name] for name in (*KEY, "low_offset", "high_offset")}
    sums = {name: table[name] * sign for name in ("count", "one", "two")}
    return {**none, **kept, **sums, **{name: table[name] for name in none if name in table}}


def _unbalanced(table: Columns) -> Bools:
    found: Bools = (table["count"] != 0) | (table["one"] != 0) | (table["two"] != 0)
    return found


def _overlapping(log: Columns) -> Bools:
    """Blocks of a producer in a partition of which a later one does not stand wholly above the one before."""
    order = np.lexsort((log["block"], log["partition"], log["topic"], log["producer"]))
    same = np.ones(max(len(order) - 1, 0), np.bool_)
    for name in ("producer", "topic", "partition"):
        same &= log[name][order][1:] == log[name][order][:-1]
    crossed = same & (log["low_offset"][order][1:] <= log["high_offset"][order][:-1])
    found = np.zeros(len(order), np.bool_)
    found[order[1:][crossed]] = True
    found[order[:-1][crossed]] = True
    return found


def _out_of_its_time(both: Columns, views: list[Mapping[str, Any]]) -> Bools:
    """An ack came after somebody had seen a later epoch than that of a record of its block."""
    found = np.zeros(len(both["producer"]), np.bool_)
    by_place: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for view in views:
        by_place[view["topic"], view["partition"]].append((view["leader_epoch"], view["seen_ns_min"]))
    for (topic, partition), own in by_place.items():
        own.sort()
        epochs = np.array([epoch for epoch, _ in own], np.int64)
        since = np.minimum.accumulate(np.array([seen for _, seen in own], np.int64)[::-1])[::-1]
        here = (both["topic"] == topic) & (both["partition"] == partition)
        later = np.searchsorted(epochs, both["low_epoch"][here], side="right")
        found[here] = np.append(since, FAR)[later] < both["high_done"][here]
    return found


def _first_of_epoch(both: Columns) -> Bools:
    """The first ack of an epoch may be in it: no block that is wholly of that epoch has an ack before its first."""
    found = np.zeros(len(both["producer"]), np.bool_)
    pure = both["low_epoch"] == both["high_epoch"]
    order, starts = grouped([both["topic"], both["partition"]])
    for rows in np.split(order, starts[1:]):
        low, high, done = both["low_epoch"][rows], both["high_epoch"][rows], both["low_done"][rows]
        for epoch in np.unique(np.concatenate([low[low < FAR], high[high >= 0]])):
            within = (low <= epoch) & (epoch <= high)
            whole = within & pure[rows]
            bound = done[whole].min() if whole.any() else FAR
            found[rows[within & (done <= bound)]] = True
    return found


def _readers(record: RunRecord, reads: Columns) -> set[tuple[int, int]]:
    """Groups, and the topics that they read or should have."""
    found = {(consumer.group, consumer.topic) for consumer in record.consumers}
    if reads:
        found |= set(zip(reads["group"].tolist(), reads["topic"].tolist(), strict=True))
    return found


def _chosen(table: Columns, which: npt.NDArray[np.bool_]) -> Columns:
    return {name: column[which] for name, column in table.items()}


def _blocks(table: Columns, which: npt.NDArray[np.bool_]) -> Longs:
    return np.unique(np.stack([table["producer"][which], table["block"][which]], axis=1), axis=0)


def _stretches(table: Columns, blocks: Longs, bits: int) -> Longs:
    """The stretches of offsets that these blocks touch, each from its first to its last."""
    order, starts = grouped(
        [np.concatenate([table["producer"], blocks[:, 0]]), np.concatenate([table["block"], blocks[:, 1]])]
    )
    asked = order >= len(table["producer"])
    sizes = np.diff(np.append(starts, len(order)))
    member = np.repeat(np.logical_or.reduceat(asked, starts), sizes) if len(starts) else asked
    rows = order[member & ~asked]
    rows = rows[table["partition"][rows] >= 0]
    first, last = table["low_offset"][rows] >> bits, table["high_offset"][rows] >> bits
    return _spread(table["topic"][rows], table["partition"][rows], first, last)


def _spread(topic: Longs, partition: Longs, first: Longs, last: Longs) -> Longs:
    """Every stretch from a first to a last, each once."""
    lengths = last - first + 1
    ahead = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    columns = [np.repeat(topic, lengths), np.repeat(partition, lengths), np.repeat(first, lengths) + ahead]
    return np.unique(np.stack(columns, axis=1), axis=0)
