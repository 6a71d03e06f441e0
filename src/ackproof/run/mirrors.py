"""What a run does with mirrors: wait for their topics, wait until they catch up, ask where groups would continue."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ackproof.clients import mirror_probe as mirror
from ackproof.clients.mirror_probe import GroupOffsets, Pair
from ackproof.core.errors import CannotHere
from ackproof.core.sites import placed
from ackproof.journal.writer import Writer
from ackproof.lab import client as control
from ackproof.lab import requests
from ackproof.lab.requests import Injected
from ackproof.model.run_record import RunRecord
from ackproof.model.scenario import Scenario
from ackproof.model.steps import Translated

MADE_S = 60.0
CAUGHT_UP_S = 60.0
STILL_S = 30.0


class Mirrors:
    def __init__(self, scenario: Scenario, record: RunRecord, directory: Path, lab: str) -> None:
        self._scenario = scenario
        self._record = record
        self._lab = lab
        self._table = Writer(directory, "translated", record.run, "run") if scenario.mirrors else None

    def close(self) -> None:
        if self._table is not None:
            self._table.close(seal=False)

    def wait_until_made(self) -> None:
        """Wait for the mirrored topics: a mirror looks for new topics once a second, and clients need them."""
        wanted = {(name, number) for name in self._scenario.mirrors for number in self._numbers(name)}
        deadline = time.monotonic() + MADE_S
        while wanted:
            views = requests.leaders(self._lab)
            wanted -= {(view.topic, view.partition) for view in views if view.leader is not None}
            if wanted and time.monotonic() > deadline:
                names = ", ".join(sorted({name for name, _ in wanted}))
                raise CannotHere(f"the mirror did not make {names} within {MADE_S:.0f} s: logs/mirror.log says why")
            time.sleep(0.1)

    def wait_until_caught_up(self, partitions: list[str]) -> Injected:
        pairs = self._pairs(partitions)
        if lacking := self._inside(partial(mirror.behind, list(pairs.values()), CAUGHT_UP_S)):
            names = ", ".join(f"{pair.mirror}/{pair.partition}" for pair in lacking)
            raise CannotHere(f"the mirror had not caught up in {names} after {CAUGHT_UP_S:.0f} s")
        said = [f"{name}: ends with the same record as {self._source(name)}" for name in pairs]
        return Injected(list(pairs), said)

    def tell_group(self, plan: Translated) -> Injected:
        group, pairs = plan.group, self._pairs(plan.partitions)
        found = self._inside(partial(mirror.settled_group_offsets, group, list(pairs.values()), STILL_S))
        self._journal(group, list(pairs), found)
        said = [f"{name}: {_told(group, each, self._source(name))}" for name, each in zip(pairs, found, strict=True)]
        return Injected(list(pairs), said)

    def settle(self, tell: Callable[[str], None]) -> None:
        """Let the mirrors catch up before the final read: unfinished work is no loss. Report one that does not."""
        every = [f"{name}/*" for name in self._scenario.mirrors]
        if not every:
            return
        try:
            self.wait_until_caught_up(every)
        except CannotHere as problem:
            tell(problem.message)
        pairs = self._pairs(every)
        for group in self._record.groups:
            self._journal(group, list(pairs), self._inside(partial(mirror.group_offsets, group, list(pairs.values()))))

    def _journal(self, group: str, names: list[str], found: list[GroupOffsets]) -> None:
        assert self._table is not None  # noqa: S101 - there is a mirror
        for name, each in zip(names, found, strict=True):
            topic, _, number = name.rpartition("/")
            made = self._record.topics.index(topic)
            self._table.add(
                at_ns=time.monotonic_ns(),
                group=self._record.groups.index(group),
                topic=self._record.mirrors[made],
                partition=int(number),
                mirror=made,
                mirror_offset=each.mirror_offset,
                offset=each.offset,
            )
        self._table.flush()

    def _inside(self, question: Callable[[], Any]) -> Any:
        return control.inside(self._lab, "observer", question)

    def _numbers(self, topic: str) -> range:
        return range(self._scenario.topic(topic).partitions)

    def _source(self, partition: str) -> str:
        topic, _, number = partition.rpartition("/")
        return f"{self._scenario.mirrors[topic]}/{number}"

    def _pairs(self, partitions: list[str]) -> dict[str, Pair]:
        """The partitions of source and mirror, by the name of the mirror's partition."""
        sites = requests.where(self._lab).sites
        pairs = {}
        for name in partitions:
            made, _, asked = name.rpartition("/")
            (mirror_site, own), (site, topic) = placed(made), placed(self._scenario.mirrors[made])
            for number in self._numbers(made) if asked == "*" else [int(asked)]:
                pairs[f"{made}/{number}"] = Pair(sites[site], topic, sites[mirror_site], own, number)
        return pairs


def _told(group: str, found: GroupOffsets, source: str) -> str:
    there = "nothing is written down" if found.mirror_offset is None else f"{group} goes on at {found.mirror_offset:,}"
    own = "nowhere" if found.offset is None else f"at {found.offset:,}"
    return f"{there} (in {source} {own})"
