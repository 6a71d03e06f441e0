"""Names that could make a path lead elsewhere are refused, or stay text that never becomes a path."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ackproof.api.run_directory import make_run_directory, new_record
from ackproof.api.run_request import RunRequest
from ackproof.clients.consumer.main import ConsumerConfig, ConsumerLoop
from ackproof.clients.producer.config import ProducerConfig
from ackproof.clients.producer.main import ProducerLoop
from ackproof.core.errors import CannotHere, UsageProblem
from ackproof.core.sites import SITES
from ackproof.lab import client as control
from ackproof.lab.directory import LabDirectory
from ackproof.model.run_record import read_record, write_record
from ackproof.report import write_index, write_report
from ackproof.run.client_configs import ClientConfigs, Entrances
from ackproof.run.execution import RunExecution
from ackproof.scenario.load import load
from ackproof.scenario.source import find
from tests.support.command_line import Run, run, state
from tests.support.made_story import SHAPES
from tests.support.make_run import make_run
from tests.support.scenarios import GOOD, READS

__all__ = ["run", "state"]  # fixtures

Told = Callable[[str, object], None]

NAMES = {
    "above": "../outside",
    "far above": "../../../../../../../../tmp/outside",
    "absolute": "/tmp/outside",  # noqa: S108 - nobody is to make it
    "home": "~",
    "in the home": "~/outside",
    "of root": "~root/outside",
    "NUL": "x\0y",
    "300 bytes": "x" * 300,
    "the parent": "..",
    "itself": ".",
    "below": "a/b",
    "a newline": "x\n",
}
# where a scenario takes a name: how it is written there, and whether no name of the above may be one
PLACES: dict[str, tuple[Callable[[str], str], bool]] = {
    "scenario": (lambda name: GOOD.replace('name = "good"', f"name = {name}", 1), True),
    "topic": (lambda name: GOOD.replace('name = "orders"', f"name = {name}", 1), True),
    "user": (lambda name: f"{GOOD}\n[cluster.access]\nusers = [{name}]\n", True),
    "group": (lambda name: f'{GOOD}\n[[consumers]]\ntopic = "orders"\ngroup = {name}\n', False),
    "client": (lambda name: GOOD.replace("rate = 100", f'rate = 100\nsettings."client.id" = {name}', 1), False),
    "title": (lambda name: GOOD.replace('title = "A good one"', f"title = {name}", 1), False),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put every place that a name might lead to below the folder of the test."""
    for name in ("home", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / "cache"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.proves("F3")
@pytest.mark.parametrize("place", PLACES)
def test_a_name_in_a_scenario_is_refused_or_becomes_no_path(
    place: str, run: Run, home: Path, record_property: Told
) -> None:
    write, never = PLACES[place]
    file = home / "scenario.toml"
    file.touch()
    before = files(home)
    refused = []
    for what, name in NAMES.items():
        file.write_text(write(json.dumps(name)), encoding="utf-8")
        for words in (["check", str(file)], ["run", str(file), "--dry-run", "--out", "runs"]):
            code, _, err = run(*words)
            assert (code == 2) or (code == 0 and not never), (what, words, err)
            assert files(home) == before, what
        refused += [what] * (code == 2)
    record_property("figure", f"{place}: {len(NAMES)} names, {len(refused)} refused, the others text; nothing written")


@pytest.mark.proves("F3")
@pytest.mark.parametrize("place", ["group", "title"])  # the only ones where any is accepted
def test_a_run_with_a_name_that_is_accepted_writes_nothing_outside_its_directory(
    place: str, home: Path, monkeypatch: pytest.MonkeyPatch, record_property: Told
) -> None:
    write, _ = PLACES[place]
    file, runs = home / "scenario.toml", home / "here" / "runs"
    runs.mkdir()
    monkeypatch.setattr(control, "call", lambda *_, **__: {})  # there is no lab
    directories = []
    for what, name in NAMES.items():
        text = write(json.dumps(name))
        file.write_text(text if "[[consumers]]" in text else text + READS, encoding="utf-8")
        before = everything(home)
        directories.append(all_that_a_run_writes(file))
        assert {path for path in everything(home) - before if not path.is_relative_to(directories[-1])} == set(), what
    written = {path.name for directory in directories for path in directory.rglob("*") if path.is_file()}
    assert written >= {"run.json", "report.html", "producer1.json", "consumer1.json", "producer1.arrows"}, written
    record_property("figure", f"{place}: runs with {len(directories)} such names wrote nothing outside")


def everything(home: Path) -> set[Path]:
    """Return all files below the folder of the test, and files elsewhere that a name leads to and that exist."""
    elsewhere = {Path("/tmp/outside"), Path("~root/outside").expanduser()}  # noqa: S108 - nobody is to make it
    return {*home.rglob("*"), *(path for path in elsewhere if path.exists())}


def all_that_a_run_writes(file: Path) -> Path:
    """Write everything that a run writes, except for messages: record, client settings, journals and report."""
    scenario = load(find(str(file)))
    asked = RunRequest(str(file), scenario, "kraft", "base", 7, Path("runs"), False, True, None, [])
    directory = make_run_directory(asked).resolve()
    record = new_record(asked, asked.lab("run"), directory)
    write_record(directory, record)
    ongoing = RunExecution(scenario, record, directory, "no-lab", lambda _: None)
    clients, entrances = ongoing.clients, Entrances(dict.fromkeys(SITES, "kafka1:9092"), None, [])
    clients.configs = ClientConfigs(scenario, record, clients.files, "no-lab", entrances)
    for client in (*clients.producers, *clients.consumers):
        clients.start_client(client)
        settings = (directory / "clients" / f"{client}.json").read_bytes()
        if client in clients.producers:
            producing = ProducerLoop(msgspec.json.decode(settings, type=ProducerConfig))
            writers = [producing._sends, producing._blocks]
        else:
            reading = ConsumerLoop(msgspec.json.decode(settings, type=ConsumerConfig))
            writers = [reading._reads, reading._groups, reading._commits, reading._last_positions]
        for writer in writers:
            writer.close(seal=False)
    ongoing.journal_fault(ongoing.faults[0], "asked")
    ongoing.note(ended="failed", problems=["there was no lab"])
    ongoing.close()
    write_report(directory)
    return directory


@pytest.mark.proves("F3")
@pytest.mark.parametrize("what", NAMES)
def test_a_lab_a_node_or_a_run_of_such_a_name_is_refused(what: str, run: Run, home: Path) -> None:
    before, name = files(home), NAMES[what]
    with pytest.raises(UsageProblem):
        LabDirectory.of(name)
    for words in (
        ["up", "--name", name],
        ["down", "--name", name],
        ["logs", name, "--name", "nosuchlab"],
        ["run", name],
        ["run", "acks1-leader-isolated", "--shape", name],
        ["topic", "create", name, "--name", "nosuchlab"],
    ):
        code, out, err = run(*words)
        assert (code, out) == (2, ""), (words, err)
    assert files(home) == before


@pytest.mark.proves("F3")
def test_no_name_in_a_record_makes_a_report_write_outside(home: Path) -> None:
    directory = make_run(home / "runs", SHAPES["small"])
    record = read_record(directory)
    write_index([directory], home / "runs" / "index.html")
    write_report(directory)
    before = files(home)
    for name in NAMES.values():
        named = msgspec.structs.replace(
            record,
            name=name,
            scenario=name,
            title=name,
            shape=name,
            topics=[name],
            groups=[name],
            producers=[msgspec.structs.replace(each, name=name) for each in record.producers],
            nodes=dict.fromkeys(record.nodes, name),
        )
        write_record(directory, named)
        write_report(directory)
        write_index([directory], home / "runs" / "index.html")
        assert files(home) == before


def new_directory(out: Path) -> Path:
    asked = RunRequest("x", load(find("acks1-leader-isolated")), "kraft", "base", 7, out, False, True, None, [])
    return make_run_directory(asked)


@pytest.mark.proves("F3")
@pytest.mark.parametrize("what", ["home", "in the home", "of root", "below"])
def test_the_folder_for_runs_is_taken_literally(what: str, home: Path) -> None:
    """Only a shell expands `~`: in quotes, `--out '~'` is a folder of this name."""
    before = files(home)
    assert new_directory(Path(NAMES[what])).resolve().is_relative_to(home / "here")
    assert all(path.startswith("here/") for path in files(home) - before)


@pytest.mark.proves("F3")
def test_a_folder_for_runs_that_cannot_be_made_is_reported(home: Path) -> None:
    before = files(home)
    with pytest.raises(CannotHere, match="use --out for another place"):
        new_directory(Path(NAMES["300 bytes"]))
    assert files(home) == before
