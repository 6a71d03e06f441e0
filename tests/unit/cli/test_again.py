"""A run depends on nothing but its command: the same plan, the same messages, the same targets."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal

import msgspec
import pytest

import ackproof
from ackproof.api.run_directory import new_record
from ackproof.api.run_request import RunRequest
from ackproof.model.run_record import write_record
from ackproof.report import write_report
from ackproof.scenario.load import load
from ackproof.scenario.source import find
from tests.support.proving import size
from tests.support.scenarios import GOOD

Told = Callable[[str, object], None]
SOURCE = Path(ackproof.__file__).parents[1]

EVERYTHING_PLANNED = """
import hashlib
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import msgspec
from ackproof.model.message import pack
from ackproof.clients.producer.outbox import OutboxPublisher
from ackproof.clients.producer.main import ProducerLoop
from ackproof.clients.producer.transactional import Transaction, TransactionLoop
from ackproof.lab.node_config import NodeFiles, properties
from ackproof.run.client_configs import ClientConfigs, Entrances
from ackproof.run.client_files import ClientFiles
from ackproof.api.run_directory import new_record
from ackproof.api.run_request import RunRequest
from ackproof.scenario.load import load
from ackproof.scenario.source import bundled, find
from ackproof.core.sites import SITES


ALL_BELOW, EVERY = int(sys.argv[1]), 997


class KafkaClient:
    def __init__(self):
        self.count, self.digest = 0, hashlib.sha256()

    def produce(self, topic, value, key=None, partition=-1, **_):
        self.count += 1
        self.digest.update(b"%d %d %b %b %d;" % (len(value), len(key or b""), value, key or b"", partition))
        self.digest.update(topic.encode())

    def produce_batch(self, topic, batch, partition, **_):
        for each in batch:
            self.produce(topic, each["value"], each.get("key"), partition)


def sent(config):
    # what a producer gives to Kafka's client: all of its first messages, then one of so many, and its last
    first = range(min(ALL_BELOW, config.count))
    rest = range(len(first), config.count, EVERY)
    numbers = [*first, *rest, *{config.count - 1}.difference(first, rest)]
    client = KafkaClient()
    if config.outbox:
        store = SimpleNamespace(accepted=lambda: 0, waiting=lambda most: numbers, give=lambda *_: None)
        OutboxPublisher(config, store, client)._publish()
    elif config.transactions:
        processing = TransactionLoop(config)
        processing._client, processing._open = client, Transaction(1, 0, 0.0)
        for number in numbers:
            processing._seq = number
            value = pack(0, number)
            processing._process(SimpleNamespace(value=lambda: value, partition=lambda: 0, offset=lambda: number))
    else:
        producer = ProducerLoop(config)
        for some in (first, *(range(number, number + 1) for number in numbers[len(first) :])):
            producer._give(client, producer._batch(some.start, some.stop))
    assert client.count == len(numbers)
    return [client.count, client.digest.hexdigest()]


def payloads(asked, spec):
    with TemporaryDirectory() as folder:
        record = new_record(asked, spec, Path(folder))
        entrances = Entrances(dict.fromkeys(SITES, "kafka1:9092"), None, [])
        configs = ClientConfigs(asked.scenario, record, ClientFiles(Path(folder)), "no-lab", entrances)
        ours = [each for each in record.producers if not asked.scenario.each_producer[each.id].command]
        return [sent(configs.producer(each, life=1)) for each in ours]


for seed, name in [(int(seed), name) for seed in sys.argv[2:] for name in bundled()]:
    source = find(name)
    for shape in source.shapes:
        scenario = load(source, shape, seed=seed)
        for mode in scenario.modes:
            asked = RunRequest(name, scenario, mode, shape, seed, Path("runs"), False, True, None, [])
            spec = asked.lab("run")
            servers = {
                node.name: properties(spec, node, NodeFiles(Path("settings"), Path("data")))
                for node in spec.nodes if node.role != "client"
            }
            targets = [fault.asked for fault in scenario.faults]
            told = [seed, name, shape, mode, scenario, servers, payloads(asked, spec), targets]
            print(msgspec.json.encode(told).decode())
"""


ALL_BELOW = size(20, 2_000)  # the messages of each producer that are all compared; of the rest every 997th


def planned(hash_seed: str, *seeds: int) -> dict[int, list[str]]:
    """The plans of each seed."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", EVERYTHING_PLANNED, *map(str, (ALL_BELOW, *seeds))],
        env={"PYTHONPATH": str(SOURCE), "PYTHONHASHSEED": hash_seed, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    lines = [line[1:].split(",", 1) for line in done.stdout.splitlines()]
    return {seed: [plan for of, plan in lines if of == str(seed)] for seed in seeds}


@pytest.mark.proves("G1")
def test_the_same_seed_gives_the_same_plan_payloads_and_targets(record_property: Told) -> None:
    once, other = planned("1", 7, 8).values()
    (again,) = planned("2", 7).values()
    assert once
    assert once == again
    differing = {json.loads(f"[{plan}")[0] for plan, another in zip(once, other, strict=True) if plan != another}
    assert differing == {"soak"}, "another seed is another plan where faults are drawn, and only there"
    of_producers = [producer for plan in once for producer in json.loads(f"[{plan}")[-2]]
    record_property(
        "figure",
        f"{len(once)} plans of all bundled scenarios, shapes and modes equal, with "
        f"{sum(count for count, _ in of_producers):,} messages of their {len(of_producers)} producers: of each the "
        f"first {ALL_BELOW:,}, then every 997th, and the last",
    )


AGAIN: dict[str, tuple[str, str, Literal["zookeeper", "kraft"], str | None, list[str]]] = {
    "as bundled": ("acks1-leader-isolated", "base", "zookeeper", None, []),
    "another mode and shape": ("acks1-leader-isolated", "slow", "kraft", None, []),
    "another release": ("acks1-leader-isolated", "base", "zookeeper", "3.8.1", []),
    "settings that a shell would take apart": (
        "acksall-leader-killed",
        "crowd",
        "kraft",
        None,
        ["producer.settings.client.rack=a b'c\"$HOME`id`;*", "producer.rate=123"],
    ),
    "faults that a seed draws": ("soak", "base", "kraft", None, []),
    "a file with an odd name": ("./it's a (good) $one.toml", "slow", "kraft", None, ["producer.acks=1"]),
}
CASES = [*AGAIN][size(3, 0) :]  # at quick size the odd ones: each is a command that has to load everything


class AgainLine(HTMLParser):
    """Finds the command that a reader copies from the page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.line = ""
        self._inside = [False, False]
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "section":
            self._inside[0] = ("id", "again") in attrs
        self._inside[1] = tag == "pre" and not self.line

    def handle_data(self, data: str) -> None:
        if all(self._inside):
            self.line += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "pre":
            self._inside[1] = False


def asked_for(line: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Split a command line as a shell does: the command, and each option with its value."""
    words = shlex.split(line)
    return words[:3], by_name(zip(words[3::2], words[4::2], strict=True))


def by_name(options: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of one name stay in their order: the last of two settings counts."""
    return sorted(options, key=lambda option: option[0])


def line_of_the_page(asked: RunRequest, directory: Path) -> str:
    directory.mkdir()
    write_record(directory, new_record(asked, asked.lab("run"), directory))
    return AgainLine(write_report(directory).read_text(encoding="utf-8")).line


@pytest.mark.proves("G2")
@pytest.mark.parametrize("case", CASES)
def test_the_line_that_runs_it_again_has_the_same_plan_in_a_clean_shell(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Told
) -> None:
    given, shape, mode, kafka, settings = AGAIN[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "it's a (good) $one.toml").write_text(GOOD)
    scenario = load(find(given), shape, settings, seed=7)
    asked = RunRequest(given, scenario, mode, shape, 7, Path("runs"), False, True, kafka, settings)
    program = tmp_path / "bin" / "ackproof"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH={SOURCE} exec {sys.executable} -P -m ackproof "$@"\n')
    program.chmod(0o755)
    line = line_of_the_page(asked, tmp_path / "page")
    options = [("--mode", mode), ("--shape", shape), ("--seed", "7"), *(("--set", setting) for setting in settings)]
    options += [("--kafka", kafka)] if kafka else []
    assert asked_for(line) == (["ackproof", "run", given], by_name(options))
    done = subprocess.run(
        ["sh", "-c", f"{line} --dry-run --json"],
        env={"PATH": f"{program.parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    (plan,) = json.loads(done.stdout)["plans"]
    assert plan == json.loads(msgspec.json.encode(scenario))
    assert (scenario.faults == load(find(given), shape, settings, seed=8).faults) == (given != "soak")
    record_property("figure", f"{len(CASES)} lines out of their pages, one with drawn faults: the same plan")
    assert [*tmp_path.glob("runs*")] == []
