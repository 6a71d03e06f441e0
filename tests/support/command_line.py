"""Run the command line in this process; and lines that are wrong, or that need a lab."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from ackproof.cli import main as cli

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder where labs would keep their files. A test of bad input leaves nothing there."""
    folder = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield folder
    assert not [*folder.rglob("*")]


@pytest.fixture
def run(state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in this process, and return exit code, standard output and standard error."""

    def run_(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ackproof", *arguments])
        code = cli._run()
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_


def commands() -> dict[str, Any]:
    """Return every command by the words that call it."""
    found: dict[str, Any] = {}

    def walk(command: Any, words: str) -> None:
        for name, each in getattr(command, "commands", {}).items():
            found[f"{words} {name}".strip()] = each
            walk(each, f"{words} {name}".strip())

    walk(typer.main.get_command(cli.app), "")
    return found


LEAVES = sorted(words for words, command in commands().items() if not hasattr(command, "commands"))


BAD_LINES = [
    (["judge", "runs/any", "--master", "foo"], "write it as spark://HOST:7077, sc://HOST:PORT or local[*]"),
    (["judge", "runs/any", "--from-kafka", "kafka1:9092,nonsense"], "--from-kafka nonsense: write it as HOST:PORT"),
    (["nosuchverb"], "nosuchverb"),
    (["status", "--nosuchoption"], "--nosuchoption"),
    (["up", "--mode", "docker"], "docker"),
    (["up", "--brokers", "many"], "integer"),
    (["up", "--brokers", "0"], "1 to 9 brokers"),
    (["up", "--quorum", "2"], "1, 3 or 5"),
    (["up", "--kafka", "banana"], "full version"),
    (["up", "--kafka", "4.3.1"], "no ZooKeeper mode"),
    (["up", "--kafka", "3.0.0", "--mode", "kraft"], "3.3 or newer"),
    (["up", "--name", "../x"], "cannot be named"),
    (["up", "--name", "A"], "cannot be named"),
    (["up", "--set", "x"], "SCOPE.KEY=VALUE"),
    (["up", "--set", "broker.log.dirs=/x"], "sets log.dirs itself"),
    (["up", "--set", "kafka7.x=1"], "no such scope"),
    (["up", "--set", "controller.x=1"], "no controller nodes"),
    (["kill"], "NODES"),
    (["cut", "kafka1"], "RIGHT"),
    (["cut", "kafka1", "kafka2", "--port", "0"], "port"),
    (["cut", "kafka1", "kafka2", "--port", "70000"], "port"),
    (["cut", "kafka1", "kafka2", "--for", "soon"], "no duration"),
    (["pause", "kafka1", "--for", "0"], "no duration"),
    (["pause", "kafka1", "--for", "-3s"], "no duration"),
    (["stop", "kafka1", "--timeout", "1 day"], "no duration"),
    (["flaky", "kafka1"], "--loss"),
    (["flaky", "kafka1", "--loss", "0%"], "share"),
    (["flaky", "kafka1", "--loss", "101%"], "share"),
    (["flaky", "kafka1", "--loss", "5"], "share"),
    (["slow", "kafka1", "--delay", "2m"], "out of range"),
    (["topic", "create"], "NAMES"),
    (["topic", "create", "x", "-p", "0"], "partitions"),
    (["topic", "create", "x", "--set", "y"], "KEY=VALUE"),
    (["topic", "nosuchverb"], "nosuchverb"),
    (["exec", "client"], "name the program"),
    (["exec", "client", "--"], "name the program"),
    (["watch", "--every", "0"], "every"),
    (["logs"], "NODE"),
]
AIMED_AT_A_LAB = [
    ["status"],
    ["status", "--json"],
    ["down"],
    ["kill", "kafka1"],
    ["stop", "kafka1"],
    ["start", "kafka1"],
    ["restart", "kafka1"],
    ["pause", "kafka1"],
    ["resume", "kafka1"],
    ["add"],
    ["partition", "kafka1"],
    ["join"],
    ["cut", "kafka1", "kafka2"],
    ["flaky", "kafka1", "--loss", "5%"],
    ["slow", "kafka1", "--delay", "50ms"],
    ["heal"],
    ["reset"],
    ["logs", "kafka1"],
    ["logs", "../../../etc/passwd"],
    ["events"],
    ["exec", "--name", "nosuchlab", "client", "--", "true"],
    ["kafka", "--name", "nosuchlab"],
    ["kafka", "--name", "nosuchlab", "topics", "--list"],
    ["topic", "create", "x"],
    ["topic", "describe"],
    ["topic", "watermarks"],
    ["topic", "resize", "x", "3"],
]
