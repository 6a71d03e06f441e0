"""Commands of external clients: their placeholders, their programs, and clients on the host."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ackproof.core.errors import CannotHere
from ackproof.model.scenario import ConsumerPlan, ProducerPlan, Scenario
from ackproof.run.external_clients import filled, require_programs
from ackproof.run.host_processes import HostExit, HostProcesses
from ackproof.scenario.load import load
from ackproof.scenario.source import find
from tests.support.external_client import until


def test_placeholders_are_filled_in_and_other_braces_stay() -> None:
    command = ["x", "--topic={topic}", '{"name":"record_data","partition":%p}', "{count}{rate}", "{HOME}"]
    assert filled(command, {"topic": "orders", "count": 5, "rate": -1}) == [
        "x", "--topic=orders", '{"name":"record_data","partition":%p}', "5-1", "{HOME}",
    ]  # fmt: skip


def test_a_missing_program_is_reported_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = load(find("foreign-kcat"))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CannotHere, match="foreign-kcat needs the program kcat, and there is none here: install it"):
        require_programs(scenario)


def test_the_first_word_of_a_command_is_a_tool_of_kafka_or_a_program_of_the_host() -> None:
    def scenario(*commands: list[str]) -> Scenario:
        producers = [ProducerPlan("orders", 1, command=command) for command in commands]
        return Scenario("x", "X", "x", "x", producers, [], consumers=[ConsumerPlan("orders", "g")])

    require_programs(scenario(["sh"], ["kafka-verifiable-producer"], []))
    with pytest.raises(CannotHere, match="needs the program no-such-program"):
        require_programs(scenario(["sh"], ["no-such-program"]))


def test_how_processes_on_the_host_ended_is_known(tmp_path: Path) -> None:
    host = HostProcesses()
    host.spawn("producer1", [sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "log")
    host.spawn("consumer1", [sys.executable, "-c", "import time; time.sleep(600)"], tmp_path / "log")
    until(lambda: "producer1" in host.exits(), "the first has ended")
    assert "consumer1" in host
    assert host.exits() == {"producer1": (3, None)}
    assert list(host.newly_ended()) == [HostExit("producer1", 3, None, by_itself=True)]
    host.signal("consumer1", "SIGKILL")
    until(lambda: "consumer1" in host.exits(), "the second has ended")
    assert list(host.newly_ended()) == [HostExit("consumer1", None, 9, by_itself=False)]
