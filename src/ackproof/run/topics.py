"""What a run does with topics: create them, record where their logs are on disk, ask for elections, resize and seek."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ackproof.clients.seek import SeekRequest, SeekResult, seek
from ackproof.core.errors import CannotHere
from ackproof.core.sites import placed
from ackproof.journal.writer import Writer
from ackproof.kafka import admin as topics
from ackproof.lab import client as control
from ackproof.lab import requests
from ackproof.lab.directory import LabDirectory
from ackproof.lab.requests import Injected
from ackproof.model import steps
from ackproof.model.run_record import RunRecord
from ackproof.model.scenario import Scenario, TopicPlan

PLACED_S = 20.0
_LOG = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
_NO_LOG = "__cluster_metadata-"  # the controllers' own log, which is no replica of a topic

Place = tuple[int, int, list[str]]  # a broker, one of its log directories, the logs in it


class Topics:
    def __init__(self, scenario: Scenario, record: RunRecord, directory: Path, lab: str) -> None:
        self._scenario = scenario
        self._record = record
        self._lab = lab
        data = LabDirectory.of(lab).data
        self._brokers = {number: data / name for number, name in record.nodes.items() if name.startswith("kafka")}
        self._directory = directory
        self._tables: dict[str, Writer] = {}  # opened when needed
        self._step = 0

    def close(self) -> None:
        for table in self._tables.values():
            table.close(seal=False)

    def _table(self, name: str) -> Writer:
        if name not in self._tables:
            self._tables[name] = Writer(self._directory, name, self._record.run, "run")
        return self._tables[name]

    def _bootstrap(self) -> str:
        return requests.where(self._lab).bootstrap

    # -- creating --------------------------------------------------------------------------------------------------

    def create(self, after: int | None) -> None:
        """Create the topics that are due: at the beginning (None), or after this fault."""
        asked = [topic for topic in self._scenario.topics if topic.after == after and topic.made_by == "lab"]
        looks = self._scenario.cluster.log_dirs > 1 and bool(asked)
        if looks:
            self._journal_places()
        sites = requests.where(self._lab).sites
        for topic in asked:
            site, own = placed(topic.name)
            settings = {key: str(value) for key, value in topic.settings.items()}
            control.inside(
                self._lab,
                "observer",
                partial(topics.create, sites[site], [own], topic.partitions, topic.replication, settings),
            )
            self._journal_id(topic.name, sites[site], own)
        if looks:
            self._wait_until_placed(asked)
            self._journal_places()

    def _journal_id(self, topic: str, bootstrap: str, own: str) -> None:
        at_ns = time.monotonic_ns()
        found = control.inside(self._lab, "observer", partial(topics.ids, bootstrap, [own]))
        number = self._record.topics.index(topic)
        self._table("topics").add(at_ns=at_ns, source="creation", topic=number, topic_id=found.get(own))
        self._table("topics").flush()

    def _wait_until_placed(self, asked: list[TopicPlan]) -> None:
        wanted = {topic.name: topic.partitions * topic.replication for topic in asked}
        deadline = time.monotonic() + PLACED_S
        while True:
            lying = [_LOG.fullmatch(name) for _, _, names in self._look() for name in names]
            counts = {topic: sum(log is not None and log["topic"] == topic for log in lying) for topic in wanted}
            if counts == wanted:
                return
            if time.monotonic() > deadline:
                raise CannotHere(f"not every replica of {', '.join(wanted)} was on disk within {PLACED_S:.0f} s")
            time.sleep(0.05)

    def _look(self) -> list[Place]:
        """The logs on the brokers' disks, which can only be seen inside the lab."""
        return control.inside(self._lab, "observer", lambda: list(_places(self._brokers)))

    def _journal_places(self) -> None:
        at_ns = time.monotonic_ns()
        for broker, directory, names in self._look():
            row = {"step": self._step, "broker": broker, "directory": directory, "partitions": names}
            self._table("places").add(at_ns=at_ns, **row)
        self._table("places").flush()
        self._step += 1

    # -- elections and seeking -------------------------------------------------------------------------------------

    def elect(self, plan: steps.Elect) -> Injected:
        places = list(self._named(plan.partitions))
        bootstrap = self._bootstrap()
        said = control.inside(self._lab, "observer", lambda: topics.elect(bootstrap, places, plan.unclean))
        return Injected([f"{topic}/{number}" for topic, number in places], said)

    def resize(self, plan: steps.Resize) -> Injected:
        bootstrap, count = self._bootstrap(), plan.to_partitions
        said = []
        for name in plan.partitions:
            topic = name.removesuffix("/*")
            said += control.inside(self._lab, "observer", lambda topic=topic: topics.resize(bootstrap, topic, count))  # type: ignore[misc]
        return Injected(list(plan.partitions), said)

    def seek(self, fault: int, plan: steps.Seek) -> Injected:
        """Seek in each partition of the fault, one after the other. The judge decides whether it landed right."""
        said = []
        bootstrap = self._bootstrap()
        for topic, partition in self._named(plan.partitions):
            asked = SeekRequest(
                bootstrap=bootstrap,
                topic=topic,
                partition=partition,
                by="time" if plan.seconds_ago is not None else "offset",
                to=plan.to_offset if plan.to_offset is not None else _ms_ago(plan.seconds_ago or 0.0),
                policy=plan.policy,
            )
            landed = control.inside(self._lab, "client", lambda asked=asked: seek(asked))  # type: ignore[misc]
            self._journal_seek(fault, asked, landed)
            if plan.gone and landed.log_start <= asked.to < landed.log_end:
                raise CannotHere(f"{topic}/{partition}: offset {asked.to:,} still exists, so this step shows nothing")
            said.append(landed.describe(asked))
        return Injected(list(plan.partitions), said)

    def _journal_seek(self, fault: int, asked: SeekRequest, landed: SeekResult) -> None:
        self._table("seeks").add(
            fault=fault,
            at_ns=time.monotonic_ns(),
            topic=self._record.topics.index(asked.topic),
            partition=asked.partition,
            by=asked.by,
            asked=asked.to,
            policy=asked.policy,
            answer=landed.answer,
            landed=landed.offset,
            landed_ms=landed.at_ms,
            before_ms=landed.before_ms,
            log_start=landed.log_start,
            log_end=landed.log_end,
            log_start_after=landed.log_start_after,
            log_end_after=landed.log_end_after,
            error=landed.error,
        )
        self._table("seeks").flush()

    def _named(self, names: list[str]) -> Iterator[tuple[str, int]]:
        counts = {topic.name: topic.partitions for topic in self._scenario.topics}
        for name in names:
            topic, _, number = name.rpartition("/")
            yield from ((topic, each) for each in (range(counts[topic]) if number == "*" else [int(number)]))


def _places(brokers: dict[int, Path]) -> Iterator[Place]:
    for number, disk in brokers.items():
        for folder in sorted(disk.glob("log[0-9]")):
            names = [each.name for each in folder.iterdir() if each.is_dir() and _LOG.fullmatch(each.name)]
            yield (
                number,
                int(folder.name.removeprefix("log")),
                sorted(name for name in names if not name.startswith(_NO_LOG)),
            )


def _ms_ago(seconds: float) -> int:
    return int((time.time() - seconds) * 1000)
