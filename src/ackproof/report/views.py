"""What each broker said of a partition while the run went on: its own view, sample by sample.

In a split two brokers may both say that they lead. So nothing here is averaged or merged: each broker's view is a line
of its own, and who leads is asked of the brokers that claim it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.report.reading import Run, integers, numbers
from ackproof.report.series import Floats, Ints

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
    table = run.table("state", _COLUMNS)
    table = table.filter(pc.greater_equal(table["topic"], 0))  # a broker that did not answer spoke of no partition
    if table.num_rows == 0:
        return []
    keys = (
        table.group_by(["topic", "partition"])
        .aggregate([])
        .sort_by([("topic", "ascending"), ("partition", "ascending")])
    )
    return [
        _partition(table, topic, partition)
        for topic, partition in zip(keys["topic"].to_pylist(), keys["partition"].to_pylist(), strict=True)
    ]


def _partition(table: pa.Table, topic: int, partition: int) -> Partition:
    chosen = table.filter((pc.field("topic") == topic) & (pc.field("partition") == partition))
    brokers = sorted(set(chosen["broker"].to_pylist()))
    return Partition(topic, partition, tuple(_view(chosen, broker) for broker in brokers))


def _view(table: pa.Table, broker: int) -> View:
    mine = table.filter(pc.field("broker") == broker).sort_by("at_ns")
    return View(
        broker,
        integers(mine["at_ns"]),
        integers(mine["leader"]),
        integers(mine["leader_epoch"]),
        numbers(pc.list_value_length(mine["isr"])),
        numbers(mine["high_watermark"]),
        numbers(mine["log_end"]),
        pc.is_null(mine["error"]).to_numpy(),
    )
