"""Count what clients did per second, and fold latencies into histograms, in one pass over tables of any length.

The numbers that the page of a judged run prints come from the verdict. Its lines of sent, acknowledged and read
messages are the counts of the judge's check `rate`, if there are any. The lines of failed and unknown sends, and of the
latency in each second, are drawn from the journal: the verdict has only totals for the whole run, and the page prints
those. `Traffic.counts` is printed only for a run that was not judged.

A plot has about a thousand columns of pixels, a journal millions of rows. So only the smallest and the largest value of
each column are drawn, and no outlier is dropped; `Series.total` keeps the number of points, and the page says both.
Percentiles come from histograms whose buckets are 2 % wide; the maximum is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.report.run_reader import SECOND, Run, integers

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

COLUMNS = 1_200  # of pixels: more points cannot be told apart
BEFORE_S = 600  # a send may be due a little before the load begins
LONGEST_S = 14 * 24 * 3600  # a later time is damaged, and would need endless memory
LATENCY_ROWS = 4_096
_STEP = np.log(1.02)
_BUCKETS = int(np.ceil(np.log(1e10) / _STEP))  # 1 µs to 10,000 s


@dataclass(frozen=True)
class Series:
    """A line of a plot: seconds since the load began, values, and how many points there were before thinning."""

    name: str
    style: str
    times: Floats
    values: Floats
    total: int
    steps: bool = False

    @property
    def shown(self) -> int:
        return len(self.times)


def thin(times: Floats, values: Floats, columns: int = COLUMNS) -> tuple[Floats, Floats]:
    """Keep the first, last, smallest and largest value of each column, in the order of time. A gap stays a gap."""
    if len(times) <= 4 * columns:
        return times, values
    span = max(times[-1] - times[0], 1e-9)
    column = np.minimum(((times - times[0]) / span * columns).astype(np.int64), columns - 1)
    keep = np.zeros(len(times), dtype=bool)
    for chosen in (np.flatnonzero(~np.isnan(values)), np.flatnonzero(np.isnan(values))):
        if len(chosen) == 0:
            continue
        of = column[chosen]
        for order in (np.arange(len(chosen)), np.lexsort((values[chosen], of))):
            sorted_of = of[order]
            edge = np.flatnonzero(np.diff(sorted_of)) if len(sorted_of) > 1 else np.array([], dtype=np.int64)
            keep[chosen[order[np.concatenate(([0], edge + 1, edge, [len(order) - 1]))]]] = True
    return times[keep], values[keep]


def thinned(name: str, style: str, times: Floats, values: Floats, steps: bool = False) -> Series:
    kept_times, kept_values = changes(times, values) if steps else (times, values)
    kept_times, kept_values = thin(kept_times, kept_values)
    return Series(name, style, kept_times, kept_values, len(times), steps)


def changes(times: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Keep the first and the last of consecutive equal values. The plot has fewer points and looks the same."""
    if len(times) < 3:
        return times, values
    same = (values[1:] == values[:-1]) | (np.isnan(values[1:]) & np.isnan(values[:-1]))
    keep = np.ones(len(times), dtype=bool)
    keep[1:-1] = ~(same[:-1] & same[1:])
    return times[keep], values[keep]


class PerSecond:
    """Counts how many things happened in each second since the load began."""

    def __init__(self) -> None:
        self.counts = np.zeros(0, dtype=np.int64)
        self.out_of_range = 0

    @classmethod
    def of(cls, seconds: Floats, counts: Ints) -> PerSecond:
        """Return counts that were counted already."""
        made = cls()
        place = seconds.astype(np.int64) + BEFORE_S
        good = (place >= 0) & (place < LONGEST_S)
        made.out_of_range = int(counts[~good].sum())
        made.counts = np.bincount(place[good], weights=counts[good]).astype(np.int64)
        return made

    def add(self, seconds: Floats) -> None:
        whole = np.floor(seconds).astype(np.int64) + BEFORE_S
        good = whole[(whole >= 0) & (whole < LONGEST_S)]
        self.out_of_range += len(whole) - len(good)
        if len(good):
            counted = np.bincount(good)
            if len(counted) > len(self.counts):
                self.counts = np.concatenate((self.counts, np.zeros(len(counted) - len(self.counts), dtype=np.int64)))
            self.counts[: len(counted)] += counted

    def series(self, name: str, style: str, first: int, last: int) -> Series:
        """Return the count of each second as steps. A second in which nothing happened counts 0."""
        seconds = np.arange(first, last)
        values = np.zeros(len(seconds))
        place = seconds + BEFORE_S
        inside = (place >= 0) & (place < len(self.counts))
        values[inside] = self.counts[place[inside]]
        return thinned(name, style, seconds.astype(np.float64), values, steps=True)

    def span(self) -> tuple[int, int] | None:
        """Return the first second in which something happened, and the one after the last."""
        seen = np.flatnonzero(self.counts)
        return (int(seen[0]) - BEFORE_S, int(seen[-1]) + 1 - BEFORE_S) if len(seen) else None


def _judged_rates(run: Run) -> tuple[PerSecond, PerSecond, PerSecond] | None:
    """Return what was sent, acknowledged and read in each second, as the judge counted it; None without its counts."""
    batches = list(run.witnesses("rate", ("second", "at_ns", "sent", "acked", "read"))) if run.verdict else []
    if not sum(map(len, batches)):
        return None
    table = pa.Table.from_batches(batches)
    second, at_ns = integers(table["second"]), integers(table["at_ns"])
    # The judge counts seconds from the first send, which is a moment after the origin of the page.
    seconds = second + np.floor(run.seconds(at_ns[0] - second[0] * SECOND))
    sent, acked, read = (PerSecond.of(seconds, integers(table[name])) for name in ("sent", "acked", "read"))
    return sent, acked, read


class LatencyOverTime:
    """Histograms of latency, one for each second. In a long run, neighbouring seconds are merged."""

    def __init__(self) -> None:
        self.width_s = 1
        self._counts = np.zeros((LATENCY_ROWS, _BUCKETS), dtype=np.int32)
        self._largest = np.zeros(LATENCY_ROWS)
        self.total = 0

    def add(self, seconds: Floats, latency_ms: Floats) -> None:
        good = (seconds > -BEFORE_S) & (seconds < LONGEST_S) & ~np.isnan(latency_ms)
        seconds, micros = seconds[good], np.maximum(latency_ms[good] * 1000, 1.0)
        if len(seconds) == 0:
            return
        while (row := np.maximum(seconds // self.width_s, 0).astype(np.int64)).max() >= LATENCY_ROWS:
            self._merge_rows()
        bucket = np.minimum((np.log(micros) / _STEP).astype(np.int64), _BUCKETS - 1)
        low, high = int(row.min()), int(row.max()) + 1
        counted = np.bincount((row - low) * _BUCKETS + bucket, minlength=(high - low) * _BUCKETS)
        self._counts[low:high] += counted.reshape(high - low, _BUCKETS).astype(np.int32)
        np.maximum.at(self._largest, row, micros)
        self.total += len(seconds)

    def _merge_rows(self) -> None:
        half = LATENCY_ROWS // 2
        self._counts[:half] = self._counts[0::2] + self._counts[1::2]
        self._counts[half:] = 0
        self._largest[:half] = np.maximum(self._largest[0::2], self._largest[1::2])
        self._largest[half:] = 0
        self.width_s *= 2

    def percentile(self, share: float) -> tuple[Floats, Floats]:
        """Return seconds, and the latency in ms that this share of the acknowledgements does not exceed."""
        sizes = self._counts.sum(axis=1)
        rows = np.flatnonzero(sizes)
        wanted = np.maximum(np.ceil(sizes[rows] * share), 1)
        reached = np.cumsum(self._counts[rows], axis=1) >= wanted[:, None]
        upper_edge = np.exp((reached.argmax(axis=1) + 1) * _STEP)
        return self._middles(rows), np.minimum(upper_edge, self._largest[rows]) / 1000

    def largest(self) -> tuple[Floats, Floats]:
        rows = np.flatnonzero(self._counts.sum(axis=1))
        return self._middles(rows), self._largest[rows] / 1000

    def _middles(self, rows: Ints) -> Floats:
        return np.asarray((rows + 0.5) * self.width_s, dtype=np.float64)


@dataclass
class Traffic:
    """What the clients did, second by second."""

    sent: PerSecond
    acked: PerSecond
    failed: PerSecond
    unknown: PerSecond
    read: PerSecond
    from_due: LatencyOverTime
    from_sent: LatencyOverTime
    counts: dict[str, int]


def read_traffic(run: Run) -> Traffic:
    """Read what the clients did. The rates are the judge's, if it has counted them."""
    judged = _judged_rates(run)
    sent, acked, read = judged or (PerSecond(), PerSecond(), PerSecond())
    traffic = Traffic(sent, acked, PerSecond(), PerSecond(), read, LatencyOverTime(), LatencyOverTime(), {"sent": 0})
    by_outcome = {"ok": None if judged else traffic.acked, "fail": traffic.failed, "info": traffic.unknown}
    traffic.counts |= dict.fromkeys(by_outcome, 0)
    for batch in run.batches("sends", ("due_ns", "sent_ns", "done_ns", "outcome")):
        due, given, done = (integers(batch.column(name)) for name in ("due_ns", "sent_ns", "done_ns"))
        # A send that never ended is shown where it began.
        ended = np.where(done < 0, given, done)
        traffic.counts["sent"] += len(given)
        if not judged:
            traffic.sent.add(run.seconds(given))
        for outcome, counter in by_outcome.items():
            chosen = pc.fill_null(pc.equal(batch.column("outcome"), outcome), False).to_numpy(zero_copy_only=False)
            if counter is not None:
                counter.add(run.seconds(ended[chosen]))
            traffic.counts[outcome] += int(chosen.sum())
            if outcome == "ok":
                traffic.from_due.add(run.seconds(due[chosen]), (ended - due)[chosen] / (SECOND / 1000))
                traffic.from_sent.add(run.seconds(given[chosen]), (ended - given)[chosen] / (SECOND / 1000))
    for batch in () if judged else run.batches("reads", ("read_ns",)):
        traffic.read.add(run.seconds(integers(batch.column("read_ns"))))
    if beyond := traffic.sent.out_of_range + traffic.read.out_of_range:
        run.problems.append(f"{beyond:,} sends or reads have times outside of the run and are not drawn")
    return traffic
