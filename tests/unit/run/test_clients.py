"""The clients of a run. If one ends by itself the run ends, because its missing data would not be noticed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from ackproof.clients.runtime import LogEnd, Progress
from ackproof.core.errors import CannotHere
from ackproof.journal.writer import Writer
from ackproof.lab import client as control
from ackproof.model.scenario import ConsumerPlan, ProducerPlan, Scenario, TopicPlan
from ackproof.run import execution as running
from ackproof.run import reading as run_reading
from ackproof.run.client_configs import ClientConfigs
from ackproof.run.client_processes import ClientProcesses, Ended
from ackproof.run.clients import Clients
from ackproof.run.reading import Member

DIED, WELL, FAILED = Ended(None, 9), Ended(0, None), Ended(1, None)


def clients(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    exits: dict[str, Any],
    expected: list[int],
    command: list[str] | None = None,
) -> Clients:
    scenario = Scenario(
        name="one",
        section="X",
        title="One",
        summary="One of each.",
        topics=[TopicPlan("orders")],
        producers=[ProducerPlan("orders", 10, exits=expected, command=command or [])],
        consumers=[ConsumerPlan("orders", "readers", command=command or [])],
    )
    record: Any = SimpleNamespace(
        producers=[SimpleNamespace(name="producer1")],
        consumers=[SimpleNamespace(name="consumer1", id=0)],
        run=1,
        topics=["orders"],
        groups=["readers"],
        mirrors={},
    )
    (tmp_path / "logs").mkdir()
    made = Clients(scenario, record, tmp_path, "no-lab")
    made._lives["producer1"] = 1
    monkeypatch.setattr(ClientProcesses, "exits", lambda _: exits)
    return made


@pytest.mark.parametrize("name", ["observer", "consumer1"])
@pytest.mark.parametrize("how", [DIED, WELL])
def test_an_observer_or_consumer_that_ends_by_itself_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: Ended
) -> None:
    with pytest.raises(CannotHere, match=f"{name} ended by itself"):
        clients(tmp_path, monkeypatch, {name: how}, []).raise_if_one_died()


@pytest.mark.parametrize(
    ("expected", "how", "ends_the_run"),
    [
        ([], WELL, False),
        ([], DIED, True),
        ([], Ended(3, None), True),
        ([69], Ended(69, None), False),
        ([69], WELL, True),
    ],
)
def test_a_producer_ends_well_or_as_the_scenario_expects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: list[int], how: Ended, ends_the_run: bool
) -> None:
    made = clients(tmp_path, monkeypatch, {"producer1": how}, expected)
    if ends_the_run:
        with pytest.raises(CannotHere, match="producer1 ended by itself"):
            made.raise_if_one_died()
    else:
        assert made.raise_if_one_died() == {"producer1": how}


def test_a_consumer_that_ends_by_itself_while_it_reads_the_rest_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exits: dict[str, Any] = {}
    made = clients(tmp_path, monkeypatch, exits, [])
    monkeypatch.setattr(Clients, "_wait_until_read", lambda *_: exits.update(consumer1=FAILED))
    with pytest.raises(CannotHere, match="consumer1 ended by itself"):
        made.stop_watching(print)


def test_a_consumer_that_the_scenario_killed_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = clients(tmp_path, monkeypatch, {"consumer1": DIED, "final-read": FAILED}, [])
    made._disturbed.add("consumer1")
    assert made.raise_if_one_died()["consumer1"] == DIED


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (WELL, "every partition is read to its end"),
        (FAILED, "not every partition could be read to its end"),
        (Ended(None, None), "not every partition could be read to its end"),
    ],
)
def test_the_run_says_that_every_partition_was_read_only_if_it_was(
    how: Ended, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = clients(tmp_path, monkeypatch, {"final-read": how}, [])
    made._sites = ["dc1"]
    made.configs = cast(ClientConfigs, SimpleNamespace(final_read=lambda *_: None))
    unread = {0: "consumer1 did not say that it had read all of its partitions"}
    monkeypatch.setattr(Clients, "stop_watching", lambda *_: unread)
    monkeypatch.setattr(ClientProcesses, "start", lambda *_: None)
    monkeypatch.setattr(control, "call", lambda *_: {"nodes": []})
    said: list[str] = []
    mirrors = SimpleNamespace(settle=lambda _: None)
    noted: dict[str, Any] = {}
    ongoing: Any = SimpleNamespace(
        lab="no-lab", clients=made, mirrors=mirrors, tell=said.append, mark=lambda **_: None, note=noted.update
    )
    running._final_read(ongoing)
    assert said == [told]
    assert noted == {"unread": unread}


@pytest.mark.parametrize("how", [DIED, WELL, Ended(3, None)])
def test_external_clients_may_end_in_any_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: Ended) -> None:
    ended = {"producer1": how, "consumer1": how}
    assert clients(tmp_path, monkeypatch, ended, [], ["my-client"]).raise_if_one_died() == ended


def in_two_tables(tmp_path: Path, **more: Any) -> Clients:
    """Return a scenario with a producer, and another that starts after it."""
    scenario = Scenario(
        name="two",
        section="X",
        title="Two",
        summary="One after the other.",
        topics=[TopicPlan("orders")],
        producers=[ProducerPlan("orders", 10), ProducerPlan("orders", 10, after=1)],
        **more,
    )
    names = [SimpleNamespace(name=f"producer{number + 1}", id=number, topic=0) for number in range(2)]
    record: Any = SimpleNamespace(producers=names, consumers=[], run=1, topics=["orders"])
    made = Clients(scenario, record, tmp_path, "no-lab")
    made.configs = cast(ClientConfigs, SimpleNamespace(client=lambda *_: None))
    made._lives["producer1"] = 1
    made._disturbed.add("producer1")
    return made


@pytest.mark.parametrize(("exits", "starts"), [({}, []), ({"producer1": DIED}, ["producer2"])])
def test_a_producer_that_was_killed_has_ended_for_those_that_come_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exits: dict[str, Any], starts: list[str]
) -> None:
    made = in_two_tables(tmp_path)
    Progress(tmp_path / "clients" / "producer1.progress", create=True).write(1, 5, 5, 0, 0, 0)
    monkeypatch.setattr(ClientProcesses, "exits", lambda _: exits)
    started: list[str] = []
    monkeypatch.setattr(Clients, "start_client", lambda _, name: started.append(name))
    made.start_next()
    assert started == starts


def test_a_producer_that_is_started_again_has_not_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = in_two_tables(tmp_path)
    made._lives["producer2"] = 1
    monkeypatch.setattr(ClientProcesses, "exits", lambda _: {"producer1": DIED, "producer2": WELL})
    monkeypatch.setattr(ClientProcesses, "start", lambda *_: None)
    assert made.all_ended()
    made.start_client("producer1")
    assert not made.all_ended()


@pytest.mark.parametrize(("exits", "lives"), [({}, True), ({"consumer1": DIED}, False)], ids=["it lives", "it is dead"])
def test_only_living_consumers_report_how_far_they_have_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exits: dict[str, Any], lives: bool
) -> None:
    made = clients(tmp_path, monkeypatch, exits, [])
    made.processes.started.add("consumer1")
    Progress(tmp_path / "clients" / "consumer1.progress", create=True).write(1, 5, 0, 0, 0, 0, 2, 1)
    orders = frozenset({"orders"})
    told = Member("consumer1", "readers", orders, foreign=False, ready=True, read=5, owned=2, read_whole=1)
    assert made._members() == ([told] if lives else [])


@pytest.mark.parametrize("read_whole", [0, 1])
def test_consumers_are_told_where_the_logs_end_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_whole: int
) -> None:
    """When the run stops waiting, it says what a group lacked, also to the judge. A mirror's topic has an end too."""
    made = clients(tmp_path, monkeypatch, {}, [])
    made.processes.started.add("consumer1")
    for topic, table in enumerate(("ends", "mirror_ends")):
        ends = Writer(tmp_path, table, 1, "final-read")
        place = {"topic": topic, "partition": 0, "log_start": 2, "high_watermark": 7, "log_end": 7, "read_to": 7}
        ends.add(**place, replicas=[1], isr=[1], min_isr=1, compacted=False, transactional=False, at_ns=1)
        ends.close(seal=False)
    Progress(tmp_path / "clients" / "consumer1.progress", create=True).write(1, 5, 0, 0, 0, 0, 1, read_whole)
    monkeypatch.setattr(run_reading, "PATIENCE_S", dict.fromkeys(run_reading.PATIENCE_S, 0.0))
    told: list[str] = []
    unread = made._wait_until_read(told.append)
    said = msgspec.json.decode(made.files.over.read_bytes(), type=list[LogEnd])
    assert said == [LogEnd(0, 0, 2, 7), LogEnd(1, 0, 2, 7)]
    words = "consumer1 did not say that it had read all of its partitions"
    assert unread == ({} if read_whole else {0: words})
    assert told == [f"the consumers end before they have read everything: {words}"] * len(unread)
