"""A scenario is a program: a run lists what it would execute before it starts, and no check executes anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ackproof.api.run_request import RunRequest
from ackproof.cli import run_command as runner
from ackproof.scenario.executes import OPEN_TO_ALL, what_it_executes
from ackproof.scenario.load import load
from ackproof.scenario.source import bundled, find, read_source

SCENARIO = """name = "theirs"
section = "X"
title = "From a stranger"
summary = "It does more than it says."
{top}
[[topics]]
name = "orders"

[[producers]]
topic = "orders"
count = 100
{producer}

[[faults]]
kind = "kill"
targets = ["leader:orders/0"]
at_messages = 50
"""
CONSUMER = '\n[[consumers]]\ntopic = "orders"\ngroup = "readers"\n'
EXPOSED = f"each broker has a port on 127.0.0.1 while the run lasts: {OPEN_TO_ALL}"
NAMES = "has a setting that may name a program, a library, a file or a host:"


def written(producer: str = "", top: str = "") -> str:
    return SCENARIO.format(producer=producer, top=top)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (written('command = ["sh", "-c", "id >x"]'), "producer 1 runs in the lab, with your files: sh -c 'id >x'"),
        (written('command = ["x"]\ncopies = 3'), "each of producers 1 to 3 runs in the lab, with your files: x"),
        (written('command = ["x"]\nwhere = "host"'), "producer 1 runs on this machine: x"),
        (written('command = ["x"]\nwhere = "host"'), EXPOSED),
        (written('command = ["x"]') + CONSUMER + 'command = ["y"]', "consumer 1 runs in the lab, with your files: y"),
        (written(top='[cluster.settings.kafka2]\njvm = "-XX:OnError=x"'), "kafka2 starts Java with: -XX:OnError=x"),
        (written(top='[cluster.settings.all]\njvm = "-Xlog:gc:file=x"'), "all starts Java with: -Xlog:gc:file=x"),
        (written(top='[cluster.settings.broker]\n"metric.reporters" = "X"'), f"broker {NAMES} metric.reporters=X"),
        (written(top='[cluster.settings.broker]\n"sasl.kerberos.kinit.cmd" = "x"'),
         f"broker {NAMES} sasl.kerberos.kinit.cmd=x"),
        (written(top='[cluster.settings.broker]\nother = "a/b"'), f"broker {NAMES} other=a/b"),
        (written('settings = { "plugin.library.paths" = "x" }'), f"producer 1 {NAMES} plugin.library.paths=x"),
        (written() + CONSUMER + 'settings = { "ssl.key.location" = "x" }', f"consumer 1 {NAMES} ssl.key.location=x"),
        (written(top='[health]\ntopic = "orders"\nwebhook = "http://me:pass@far/x"'), "each alert is sent to http://***@far/x"),
        (written(top='[health]\ntopic = "orders"\nprometheus = 9000'),
         "measures are served on 127.0.0.1:9000 to every user of this machine"),
    ],
)  # fmt: skip
def test_each_way_to_execute_or_to_open_something_is_told(text: str, sentence: str) -> None:
    scenario = load(read_source("theirs.toml", text))
    assert sentence in what_it_executes(scenario)


def test_words_numbers_and_passwords_execute_nothing() -> None:
    plain = written('settings = { "linger.ms" = 5, debug = "broker,topic", "ssl.key.password" = "a/b" }')
    assert what_it_executes(load(read_source("theirs.toml", plain))) == []
    executing = [name for name in bundled() if what_it_executes(load(find(name)))]
    assert executing == ["foreign-kcat", "foreign-verifiable"]


def test_a_setting_on_the_command_line_is_told_too() -> None:
    settings = ["cluster.settings.broker.jvm=-javaagent:x.jar"]
    scenario = load(read_source("theirs.toml", written()), settings=settings)
    assert what_it_executes(scenario) == ["broker starts Java with: -javaagent:x.jar"]


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    path = tmp_path / "theirs.toml"
    path.write_text(written('command = ["sh", "\\u001b[2J", "{topic}"]\nwhere = "host"'))
    return path


def ackproof(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ackproof", *map(str, words)], capture_output=True, text=True, check=False, timeout=100
    )


@pytest.mark.proves("F8")
@pytest.mark.parametrize("words", [["check"], ["show"], ["run", "--dry-run"], ["run", "--dry-run", "--json"]])
def test_whoever_looks_at_a_scenario_sees_what_it_would_execute(words: list[str], theirs: Path) -> None:
    told = ackproof(*words, theirs)
    assert (told.returncode, told.stderr) == (0, "")
    assert "\x1b" not in told.stdout
    if "--json" in words:
        assert json.loads(told.stdout)["executes"] == {
            str(theirs): [
                "producer 1 runs on this machine: sh '\x1b[2J' '{topic}'",
                EXPOSED,
            ]
        }
    else:
        assert "producer 1 runs on this machine: sh '�[2J' '{topic}'" in told.stdout


@pytest.mark.proves("F8")
@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["theirs"], True),
        (["foreign-verifiable"], False),
        (["foreign-verifiable", "--set", "producer.rate=100"], True),
        (["acks1-leader-killed", "--set", "producer.rate=100"], False),
    ],
)
def test_run_tells_what_it_executes_unless_the_scenario_is_bundled_as_it_stands(
    words: list[str], told: bool, as_json: bool, theirs: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    from ackproof.cli import main as cli

    begun: list[str] = []

    def run_one(request: RunRequest, results: runner.CommandResults) -> None:
        begun.append(capsys.readouterr().err)  # what was told before anything started

    monkeypatch.setattr(runner, "run_one", run_one)
    words = [str(theirs) if word == "theirs" else word for word in words]
    monkeypatch.setattr(sys, "argv", ["ackproof", "run", *words, *(["--json"] if as_json else [])])
    assert cli._run() == 0
    (said,) = begun
    assert (f"{words[0]} is a program; it executes, as you:\n  producer 1 runs " in said) == told
    assert "\x1b" not in said
    if as_json:
        assert json.loads(capsys.readouterr().out).get("executes", {}).keys() == ({words[0]} if told else set())


@pytest.mark.proves("F8")
@pytest.mark.parametrize("words", [["check"], ["show"], ["run", "--dry-run"]])
@pytest.mark.parametrize("setting", ["plugin.library.paths", "ssl.engine.location"])
def test_no_library_of_a_scenario_is_loaded_by_looking_at_it(
    words: list[str], setting: str, library: Path, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs.toml"
    theirs.write_text(written(f'settings = {{ "{setting}" = "{library}", "security.protocol" = "ssl" }}'))
    assert ackproof(*words, theirs).returncode == 0
    assert not (tmp_path / "loaded").exists()


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library that leaves a file where it was loaded."""
    source, made = tmp_path / "library.c", tmp_path / "library.so"
    source.write_text(
        "#include <fcntl.h>\n"
        f'__attribute__((constructor)) static void load(void) {{ creat("{tmp_path}/loaded", 0600); }}\n'
    )
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", made, source], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no compiler here")
    return made


def test_no_file_that_a_scenario_names_is_read_by_looking_at_it(tmp_path: Path) -> None:
    pipe, theirs = tmp_path / "pipe", tmp_path / "theirs.toml"
    os.mkfifo(pipe)  # to read it is to wait for a writer
    theirs.write_text(written(f'settings = {{ "ssl.ca.location" = "{pipe}", "security.protocol" = "ssl" }}'))
    assert ackproof("check", theirs).returncode == 0
    theirs.write_text(written('settings = { "ssl.cat.location" = "x" }'))
    assert "ssl.cat.location: No such configuration property" in ackproof("check", theirs).stderr
