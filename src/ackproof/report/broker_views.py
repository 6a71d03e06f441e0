"""What each broker said of a partition while the run went on: its own view, sample by sample.

In a split two brokers may both say that they lead. So nothing here is averaged or merged: each broker's view is a line
of its own, and who leads is asked of the brokers that claim it.
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


VALUES_MOST = 30_000_000  # columns of numbers, which take far less memory than rows


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
        """Where the broker itself says that it leads."""
        return np.asarray(self.leader == self.broker)


@dataclass(frozen=True)
class Partition:
    topic: int
    partition: int
    views: tuple[View, ...]

    def first_seen(self, epoch_above: int, after_ns: int = 0) -> tuple[int, View, int] | None:
        """When a broker first claimed to lead in an epoch above this one: the moment, its view, the place in it."""
        found = []
        for view in self.views:
            places = np.flatnonzero(view.claims & (view.epoch > epoch_above) & (view.at_ns >= after_ns))
            if len(places):
                found.append((int(view.at_ns[places[0]]), view, int(places[0])))
        return min(found, key=lambda entry: entry[0], default=None)


def read_partitions(run: Run) -> list[Partition]:
    """Every partition that the state was asked of, the first topic's first."""
    table = run.table("state", _COLUMNS, VALUES_MOST)
    table = table.filter(pc.greater_equal(table["topic"], 0))  # a broker that did not answer spoke of no partition
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
    for first, last in pairwise([0, *begins.tolist(), table.num_rows]):  # to filter for each would read all for each
        topic, partition, broker = (int(key[first]) for key in keys)
        view = View(broker, **{name: values[first:last] for name, values in every.items()})
        views.setdefault((topic, partition), []).append(view)
    return [Partition(topic, partition, tuple(own)) for (topic, partition), own in views.items()]
