"""Lost messages as ranges of offsets, each with its story.

Seventy thousand lost messages are seldom seventy thousand events: they are one stretch of a leader's log that was cut
off. So neighbouring witnesses of the judge with the same fate become one range. The brokers' views at that time add the
story: who acknowledged the range, in which epoch, who had taken over by then, and when it was gone. Messages that were
acknowledged without an offset (acks=0) form ranges of their producer's numbers instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ackproof.report.broker_views import Partition, View
from ackproof.report.run_reader import Run, integers
from ackproof.report.time_series import Ints

_WITNESS = ("topic", "partition", "offset", "producer", "seq", "fate", "done_ns", "holder_epoch")


@dataclass(frozen=True)
class LostRange:
    """Neighbouring lost messages of one partition and one fate; without offsets: of one producer."""

    topic: int
    partition: int
    fate: str
    first: int  # offsets, or the producer's numbers where there are none
    last: int
    by_offset: bool
    producers: tuple[int, ...]
    first_seq: int
    last_seq: int
    done_ns: Ints  # when each was acknowledged, sorted
    standing: int  # how many of its offsets hold another message now
    standing_epochs: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.done_ns)


@dataclass(frozen=True)
class Story:
    """What became of a range. A field is null if the brokers' views do not show it."""

    acked_by: int | None
    acked_epoch: int | None
    new_leader: int | None
    new_epoch: int | None
    new_leader_ns: int | None
    acked_after: int  # messages of the range that were acknowledged after the new leader was seen
    log_end_before: int | None
    gone_ns: int | None


def lost_ranges(run: Run) -> list[LostRange]:
    """Return every range, the longest first."""
    batches = list(run.witnesses("lost", _WITNESS))
    if sum(map(len, batches)) == 0:
        return []
    table = pa.Table.from_batches(batches)
    fates = table["fate"].combine_chunks().dictionary_encode()
    rows = {name: integers(table[name]) for name in _WITNESS if name != "fate"}
    rows["fate"] = integers(fates.indices)
    return sorted(_ranges(rows, fates.dictionary.to_pylist()), key=lambda entry: -entry.count)


def _ranges(rows: dict[str, Ints], fates: Sequence[str]) -> list[LostRange]:
    placed = (rows["offset"] >= 0).astype(np.int64)
    # Without offsets, ranges are told apart by producer instead of by partition.
    owner = np.where(placed == 1, -1, rows["producer"])
    number = np.where(placed == 1, rows["offset"], rows["seq"])
    same = ("topic", "partition")
    order = np.lexsort((number, rows["fate"], owner, *(rows[name] for name in reversed(same))))
    sorted_number = number[order]
    apart = np.diff(sorted_number) > 1
    for column in (owner, rows["fate"], *(rows[name] for name in same)):
        apart |= np.diff(column[order]) != 0
    starts = np.concatenate(([0], np.flatnonzero(apart) + 1))
    ends = np.concatenate((starts[1:], [len(order)]))
    made = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        of = order[start:end]
        made.append(
            LostRange(
                int(rows["topic"][of[0]]),
                int(rows["partition"][of[0]]),
                fates[int(rows["fate"][of[0]])],
                int(number[of[0]]),
                int(number[of[-1]]),
                bool(placed[of[0]]),
                tuple(np.unique(rows["producer"][of]).tolist()),
                int(rows["seq"][of].min()),
                int(rows["seq"][of].max()),
                np.sort(rows["done_ns"][of]),
                int((rows["holder_epoch"][of] >= 0).sum()),
                tuple(epoch for epoch in np.unique(rows["holder_epoch"][of]).tolist() if epoch >= 0),
            )
        )
    return made


def tell(lost: LostRange, partitions: Sequence[Partition]) -> Story:
    """Return the story of a range, from what each broker said about itself."""
    views = next((p for p in partitions if (p.topic, p.partition) == (lost.topic, lost.partition)), None)
    acker = _acker(lost, views) if views is not None else None
    if views is None or acker is None:
        return Story(None, None, None, None, None, 0, None, None)
    view, epoch = acker
    taken = views.first_seen(epoch)
    before, gone = _gone(view, lost)
    if taken is None:
        return Story(view.broker, epoch, None, None, None, 0, before, gone)
    at_ns, new, place = taken
    after = int((lost.done_ns > at_ns).sum())
    return Story(view.broker, epoch, new.broker, int(new.epoch[place]), at_ns, after, before, gone)


def _acker(lost: LostRange, partition: Partition) -> tuple[View, int] | None:
    """Return the broker that claimed to lead, and may have held the offset, when the range began to be acknowledged."""
    first_ns = int(lost.done_ns[0])
    found: list[tuple[View, int]] = []
    for view in partition.views:
        place = int(np.searchsorted(view.at_ns, first_ns))
        near = [at for at in (place - 1, place) if 0 <= at < len(view.at_ns) and view.claims[at]]
        reached = view.log_end[place] if place < len(view.at_ns) else np.nan
        if near and not (lost.by_offset and reached <= lost.first):
            found.append((view, int(view.epoch[near[0]])))
    return min(found, key=lambda entry: entry[1], default=None)


def _gone(view: View, lost: LostRange) -> tuple[int | None, int | None]:
    """Return how far the log of the acknowledging broker reached, and when it was first seen to end before the
    range."""
    held = np.flatnonzero(view.log_end > lost.first)
    if not lost.by_offset or len(held) == 0:
        return None, None
    after = np.flatnonzero((view.log_end <= lost.first) & (np.arange(len(view.at_ns)) > held[0]))
    before = int(np.nanmax(view.log_end[held]))
    return before, int(view.at_ns[after[0]]) if len(after) else None
