"""Producers that start one after the other, and receivers: the rules for them in a scenario, and when they start."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.clients.runtime import Progress
from ackproof.core.errors import UsageProblem
from ackproof.model.scenario import ProducerPlan, Scenario, TopicPlan
from ackproof.run.client_processes import ClientProcesses
from ackproof.run.clients import Clients
from ackproof.scenario.load import load
from ackproof.scenario.source import read_source

GOOD = """name = "phases"
section = "X"
title = "Phases"
summary = "One after the other."

[[topics]]
name = "orders"
partitions = 2

[[producers]]
topic = "orders"
count = 100
threads = 4

[[producers]]
topic = "orders"
count = 100
copies = 2
partition = 0
after = 1

[[consumers]]
topic = "orders"
group = "ids"
receiver = { strategy = "ids", copies = "forbidden" }
"""


def test_it_is_good() -> None:
    scenario = load(read_source("phases.toml", GOOD))
    assert [plan.after for plan in scenario.producers] == [None, 1]
    assert scenario.consumers[0].receiver is not None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("after = 1", "after = 2", "a [[producers]] table before this one"),
        ("after = 1", "after = 0", "a [[producers]] table before this one"),
        ("after = 1", "after = 1\nrate = 5", "producers without a rate"),
        ("threads = 4", "threads = 0", "from 1 to 64"),
        ("threads = 4", "threads = 4\nrate = 5", "threads are for a producer without a rate"),
        ("threads = 4", "threads = 4\noutbox = {}", "one sweeper"),
        ("partition = 0", "partition = 1", "partition 2 is wanted, and orders has 0 to 1"),
        ("partition = 0", "partition = -1", "has 0 to 1"),
        ('strategy = "ids"', 'strategy = "idz"', "none of"),
        ('copies = "forbidden"', 'copies = "never"', "none of"),
        ('group = "ids"', 'group = "ids"\ncopies = 2', "reads all partitions by itself"),
        ('group = "ids"', 'group = "ids"\ncommit = "auto"', "reads all partitions by itself"),
    ],
)
def test_what_cannot_be_is_told(old: str, new: str, words: str) -> None:
    assert old in GOOD
    with pytest.raises(UsageProblem) as caught:
        load(read_source("bad.toml", GOOD.replace(old, new, 1)))
    assert words in "\n".join([caught.value.message, *caught.value.details])


class Lab:
    """Clients whose processes are only names; a test sets the progress of each."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *plans: ProducerPlan) -> None:
        scenario = Scenario("s", "X", "", "", producers=list(plans), topics=[TopicPlan("orders")])
        count = sum(plan.copies for plan in plans)
        record: Any = SimpleNamespace(
            producers=[SimpleNamespace(name=f"producer{number + 1}", id=number) for number in range(count)],
            consumers=[],
            topics=["orders"],
        )
        (tmp_path / "logs").mkdir()
        self.clients = Clients(scenario, record, tmp_path, "no-lab")
        self.started: list[str] = []
        self._folder = tmp_path / "clients"
        monkeypatch.setattr(ClientProcesses, "exits", lambda _: {})
        monkeypatch.setattr(Clients, "start_client", lambda _, name: self._start(name))

    def _start(self, name: str) -> None:
        self.clients._lives[name] = 1
        self.started.append(name)

    def page(self, name: str, ready: int, done: int = 0) -> None:
        Progress(self._folder / f"{name}.progress", create=True).write(ready, 0, 0, 0, 0, done)

    def went(self) -> list[str]:
        return sorted(path.name for path in self._folder.glob("go*"))


def test_later_producers_wait_until_the_others_end_and_all_of_them_are_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path, monkeypatch, ProducerPlan("orders", 1), ProducerPlan("orders", 1, copies=2, after=1))
    lab.page("producer1", ready=1)
    lab.clients.start_next()
    assert lab.started == [], "the first has not ended"
    lab.page("producer1", ready=1, done=1)
    lab.clients.start_next()
    lab.clients.start_next()
    assert lab.started == ["producer2", "producer3"], "once each"
    lab.page("producer2", ready=1)
    lab.clients.start_next()
    assert lab.went() == [], "one of them is not ready"
    lab.page("producer3", ready=1)
    lab.clients.start_next()
    assert lab.went() == ["go-2"]
