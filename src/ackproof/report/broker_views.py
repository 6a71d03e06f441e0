"""Each broker's own view of a partition while the run went on, sample by sample.

In a network split two brokers may both say that they lead. So views are never averaged or merged: each broker has a
line of its own, and only a broker's own claim counts as leading.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow.compute as pc

from ackproof.report.run_reader import Run, integers, numbers
from ackproof.report.time_series import Floats, Ints

Bools = np.ndarray[Any, np.dtype[np.bool_]]

_COLUMNS = (
    "at_ns",
    "broker",
    "topic",
    "partition",
    "error",
    "leader",
    "leader_epoch",
    "isr",
    "high_watermark",
    "log_end",
)


VALUES_MOST = 30_000_000  # columns of numbers take far less memory than rows


@dataclass(frozen=True)
class View:
    """One broker's answers about one partition, in the order of time. No answer: leader and epoch -1, numbers NaN."""

    broker: int
    at_ns: Ints
    leader: Ints
    epoch: Ints
    isr_size: Floats
    high_watermark: Floats
    log_end: Floats
    answered: Bools

    @property
    def claims(self) -> Bools:
        """The samples in which the broker itself says that it leads."""
        return np.asarray(self.leader == self.broker)


@dataclass(frozen=True)
class Partition:
    topic: int
    partition: int
    views: tuple[View, ...]

    def first_seen(self, epoch_above: int, after_ns: int = 0) -> tuple[int, View, int] | None:
        """Return when a broker first claimed to lead in an epoch above this one: the moment, its view, and the
        sample."""
        found = []
        for view in self.views:
            places = np.flatnonzero(view.claims & (view.epoch > epoch_above) & (view.at_ns >= after_ns))
            if len(places):
                found.append((int(view.at_ns[places[0]]), view, int(places[0])))
        return min(found, key=lambda entry: entry[0], default=None)


def read_partitions(run: Run) -> list[Partition]:
    """Return every partition about which brokers were asked, sorted by topic."""
    table = run.table("state", _COLUMNS, VALUES_MOST)
    table = table.filter(pc.greater_equal(table["topic"], 0))  # a broker that did not answer has no partition here
    if table.num_rows == 0:
        return []
    table = table.sort_by([(name, "ascending") for name in ("topic", "partition", "broker", "at_ns")])
    keys = [integers(table[name]) for name in ("topic", "partition", "broker")]
    every = {
        "at_ns": integers(table["at_ns"]),
        "leader": integers(table["leader"]),
        "epoch": integers(table["leader_epoch"]),
        "isr_size": numbers(pc.list_value_length(table["isr"])),
        "high_watermark": numbers(table["high_watermark"]),
        "log_end": numbers(table["log_end"]),
        "answered": pc.is_null(table["error"]).to_numpy(),
    }
    begins = np.flatnonzero(np.any([np.diff(key) for key in keys], axis=0)) + 1
    views: dict[tuple[int, int], list[View]] = {}
    # To filter the table for each broker would read all of it each time.
    for first, last in pairwise([0, *begins.tolist(), table.num_rows]):
        topic, partition, broker = (int(key[first]) for key in keys)
        view = View(broker, **{name: values[first:last] for name, values in every.items()})
        views.setdefault((topic, partition), []).append(view)
    return [Partition(topic, partition, tuple(own)) for (topic, partition), own in views.items()]
