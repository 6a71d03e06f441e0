"""Every command and scenario that is aimed at a cluster outside our labs is refused, before anything is done."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ackproof.cli import main as cli
from ackproof.core.cluster_guard import is_elsewhere, refuse_arguments
from ackproof.core.errors import Refused
from tests.support.scenarios import GOOD

Told = Callable[[str, object], None]
THEIRS = "kafka.example:9092"
COMMANDS = [
    ["kill", THEIRS],
    ["kill", "kafka1", "10.1.2.3"],
    ["stop", THEIRS],
    ["start", THEIRS],
    ["restart", THEIRS],
    ["pause", f"kafka1,{THEIRS}"],
    ["resume", THEIRS],
    ["partition", "kafka1", f"kafka2,{THEIRS}"],
    ["cut", "kafka1", THEIRS],
    ["cut", "[2001:db8::1]:9092", "kafka1"],
    ["flaky", THEIRS, "--loss", "5%"],
    ["slow", THEIRS, "--delay", "50ms"],
    ["heal", "--name", THEIRS],
    ["down", "--name", THEIRS],
    ["up", "--name", THEIRS],
    ["topic", "create", "orders", "--name", THEIRS],
    ["topic", "resize", "orders", "4", "--name", THEIRS],
    ["produce", "orders", "one", "--name", THEIRS],
    ["produce", "orders", "one", "--set", f"bootstrap.servers={THEIRS}"],
    ["consume", "orders", "--set", f"metadata.broker.list={THEIRS}"],
    ["kafka", "--name", THEIRS, "topics", "--list"],
    ["exec", "--name", THEIRS, "client", "--", "true"],
    ["exec", THEIRS, "--", "true"],
    ["kafka", "--on", THEIRS, "topics", "--list"],
    ["health", "orders", "--name", THEIRS],
]
SCENARIOS = {
    "a fault": ('targets = ["leader:orders/1"]', f'targets = ["{THEIRS}"]'),
    "a client's setting": (
        'topic = "orders"\n',
        f'topic = "orders"\nsettings = {{ "bootstrap.servers" = "{THEIRS}" }}\n',
    ),
    "its other name": (
        'topic = "orders"\n',
        f'topic = "orders"\nsettings = {{ "metadata.broker.list" = "{THEIRS}" }}\n',
    ),
    "a client's bootstrap address": ('topic = "orders"\n', f'topic = "orders"\nbootstrap = ["{THEIRS}"]\n'),
}


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.mark.proves("F6")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_that_is_aimed_at_another_cluster_is_refused(
    words: list[str], nowhere: Path, capsys: pytest.CaptureFixture[str], record_property: Told
) -> None:
    assert ended_with(words) == 5
    assert "Ackproof breaks and writes to its own labs only" in capsys.readouterr().err
    assert [*nowhere.iterdir()] == []
    record_property(
        "figure", f"{len(COMMANDS)} commands and {len(SCENARIOS)} scenarios aimed at another cluster: exit 5"
    )


@pytest.mark.proves("F6")
@pytest.mark.parametrize("case", SCENARIOS)
def test_a_scenario_that_is_aimed_at_another_cluster_is_refused(
    case: str, nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = SCENARIOS[case]
    assert old in GOOD
    (nowhere / "theirs.toml").write_text(GOOD.replace(old, new, 1))
    assert ended_with(["run", str(nowhere / "theirs.toml"), "--out", str(nowhere / "runs")]) == 5
    assert "theirs.toml:" in capsys.readouterr().err
    assert not (nowhere / "runs").exists()


def ended_with(words: list[str]) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["ackproof", *words])
        return cli._run()


@pytest.mark.proves("F6")
@pytest.mark.parametrize(
    "words",
    [
        ["--bootstrap-server", THEIRS, "--delete", "--topic", "orders"],
        ["--bootstrap-server=kafka1:9092," + THEIRS],
        ["--bootstrap-controller", THEIRS],
        ["--bootstrap-server", "kafka1:9092", "--bootstrap-serve", THEIRS],
        ["--boot", THEIRS, "--topic", "orders"],
        [f"--b={THEIRS}", "abort"],
        ["-bootstrap-server", THEIRS],
        ["unregister", "-b", THEIRS, "--id", "1"],
        ["unregister", "-C", THEIRS, "--id", "1"],
        ["-server", "zk.example:2181", "deleteall", "/"],
        ["-server", "134744072", "deleteall", "/"],
        ["--topic", "t", "--producer-props", f"bootstrap.servers={THEIRS}"],
        ["--topic", "t", f"--producer-props=bootstrap.servers={THEIRS}"],
        [THEIRS, "orders", "100", "all", "10"],
    ],
    ids=" ".join,
)
def test_a_kafka_tool_that_is_aimed_at_another_cluster_is_refused(words: list[str]) -> None:
    with pytest.raises(Refused):
        refuse_arguments(words, {"kafka1", "zk1", "198.18.1.1"})


@pytest.mark.proves("F6")
@pytest.mark.parametrize(
    "line",
    [
        "bootstrap.servers={}",
        "  bootstrap.servers : kafka1:9092, {}",
        "metadata.broker.list {}",
        "bootstrap.servers = kafka1:9092, \\\n  {}",
        "boot\\u0073trap.servers={}",
    ],
)
def test_addresses_in_a_file_of_settings_are_checked(line: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"# bootstrap.servers={THEIRS}\nclient.id=me\n{line.format('198.18.1.1:9092')}\n")
    for words in (["--command-config", str(file)], [f"--command-config={file}"]):
        refuse_arguments(words, {"kafka1", "198.18.1.1"})
    file.write_text(f"client.id=me\n{line.format(THEIRS)}\n")
    for words in (["--command-config", str(file)], [f"--command-config={file}"]):
        with pytest.raises(Refused):
            refuse_arguments(words, {"kafka1", "198.18.1.1"})


@pytest.mark.parametrize(
    "words",
    [
        ["--bootstrap-server", "kafka1:9092,198.18.1.1:9092", "--topic-partitions", "orders:0"],
        ["-server", "zk1:2181/chroot", "ls", "/"],
        ["kafka1:9092", "orders", "100", "all", "10"],
        ["--boot", "kafka1:9092", "--bootstrap-timeout", "5", "--topic", "orders"],
        ["--generate", "--broker-list", "1,2"],
        ["-s", "snapshot", "--", "-", "orders"],
        ["--topic", "t", "--producer-props=acks=all", "--producer-props=bootstrap.servers=kafka1:9092"],
    ],
    ids=" ".join,
)
def test_a_tool_that_stays_in_the_lab_is_accepted(words: list[str]) -> None:
    refuse_arguments(words, {"kafka1", "zk1", "198.18.1.1"})


@pytest.mark.parametrize(
    "text",
    ["kafka1", "kafka*", "leader:orders/0", "quorum:12", "target:3", "producer:10", "coordinator:1234", "dc2.kafka1"],
)
def test_names_and_roles_are_not_addresses(text: str) -> None:
    assert not is_elsewhere(text)
