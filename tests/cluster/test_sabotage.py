"""A run is no evidence if an outsider removes its fault or adds another one: it is unknown, with exit code 3."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ackproof.lab.network.nftables import TABLE
from ackproof.lab.network.router import NOT_ONLY_OURS
from ackproof.lab.spec import EXPOSED_PORT
from ackproof.model.run_record import read_record
from ackproof.model.verdict import read_verdict
from tests.support.real_lab import User, mentioning, ourselves

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

Told = Callable[[str, object], None]
SMALL = {
    "producer.count": 16_000,  # long enough for an outsider to act during the fault
    "producer.rate": 1000,
    "faults.0.at_messages": 2000,
    "faults.0.not_before_max_s": 1,  # partitions that are not isolated do not fail over
    "cluster.quorum": 1,
}
REMOVE = f"""
from pyroute2.nftables.main import NFTables
with NFTables(nfgen_family=2) as nft:
    nft.table("del", name={TABLE!r})
"""
TESTS_CAN_BE_IMPORTED = f"PYTHONPATH={Path(__file__).parents[2]}"
LET_CONNECTIONS_THROUGH = """
from tests.support.lab_network import let_connections_through
let_connections_through(None)
"""


@pytest.fixture(scope="module")
def us() -> Iterator[User]:
    with ourselves() as user:
        yield user


@contextmanager
def begun(us: User, out: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    run = us.start("run", *words, "--out", str(out))
    try:
        yield run
    finally:
        run.kill()
        run.communicate()


def until(run: subprocess.Popen[str], said: str) -> None:
    assert run.stderr is not None
    assert any(said in line for line in run.stderr), f"it never said {said!r}"


def of_its_lab(us: User, verb: str, *words: str) -> tuple[str, ...]:
    (lab,) = us.labs()
    return verb, "--name", lab.name, *words


def process_of(us: User, node: str) -> int:
    ((pid, _),) = us.processes() & mentioning(f"/{node}/server.properties")
    return pid


def assert_found_out(
    run: subprocess.Popen[str], out: Path, why: str, told_meanwhile: str | None = " no longer holds: "
) -> str:
    _, err = run.communicate(timeout=500)
    assert run.returncode == 3, err
    (directory,) = out.iterdir()
    verdict = read_verdict(directory)
    assert verdict.result == "unknown"
    assert why in verdict.sentence
    assert told_meanwhile is None or err.count(told_meanwhile) == 1, "it is reported during the run, and once"
    return f"exit 3. {verdict.sentence}"


def small(**more: object) -> list[str]:
    return [word for name, value in (SMALL | more).items() for word in ("--set", f"{name}={value}")]


@pytest.mark.proves("D1")
def test_a_run_whose_rules_somebody_removes_is_unknown_and_says_why(
    us: User, tmp_path: Path, record_property: Told
) -> None:
    with begun(us, tmp_path, "acks1-leader-isolated", *small()) as run:
        until(run, "severed")
        done = us.run(*of_its_lab(us, "exec", "observer", "--", us.python, "-c", REMOVE))
        assert done.returncode == 0, done.stderr
        told = assert_found_out(run, tmp_path, "did not hold all the time")
    record_property("figure", f"rules removed while a run went on: {told}")


@pytest.mark.long
@pytest.mark.proves("D1")
def test_a_run_whose_isolated_broker_somebody_lets_connect_is_unknown_and_says_why(
    us: User, tmp_path: Path, record_property: Told
) -> None:
    """The lab's probes are datagrams, which still do not get through."""
    with begun(us, tmp_path, "acks1-leader-isolated", *small()) as run:
        until(run, "severed")
        program = ("env", TESTS_CAN_BE_IMPORTED, us.python, "-c", LET_CONNECTIONS_THROUGH)
        done = us.run(*of_its_lab(us, "exec", "observer", "--", *program))
        assert done.returncode == 0, done.stderr
        told = assert_found_out(run, tmp_path, NOT_ONLY_OURS)
    record_property("figure", f"a rule that lets connections through while a run went on: {told}")


@pytest.mark.long
@pytest.mark.proves("D1")
def test_a_run_whose_pause_somebody_ends_is_unknown_and_says_why(
    us: User, tmp_path: Path, record_property: Told
) -> None:
    paused = {"faults.0.kind": "pause", "faults.0.targets": '["kafka1"]'}
    with begun(us, tmp_path, "acks1-leader-isolated", *small(**paused)) as run:
        until(run, "every thread of kafka1 is stopped")
        os.kill(process_of(us, "kafka1"), signal.SIGCONT)
        told = assert_found_out(run, tmp_path, "did not hold all the time")
    record_property("figure", f"a pause ended while a run went on: {told}")


@pytest.mark.long
@pytest.mark.proves("D1")
def test_a_run_in_whose_lab_somebody_pauses_a_node_is_unknown_and_says_why(
    us: User, tmp_path: Path, record_property: Told
) -> None:
    """Our own command pauses it and proves the pause, but the scenario does not ask for it."""
    with begun(us, tmp_path, "acks1-leader-isolated", *small()) as run:
        until(run, "severed")
        done = us.run(*of_its_lab(us, "pause", "zk1", "--for", "2s"))
        assert done.returncode == 0, done.stderr
        told = assert_found_out(
            run, tmp_path, "zk1 --for 2s (", "a command that is not part of this run reaches its lab: "
        )
    record_property("figure", f"a node paused by hand while a run went on: {told}")


@pytest.mark.long
@pytest.mark.proves("D2")
def test_a_run_in_which_a_broker_dies_without_a_fault_is_unknown_and_names_the_broker(
    us: User, tmp_path: Path, record_property: Told
) -> None:
    """No command kills it, as when the kernel is out of memory."""
    cut = {"faults.0.kind": "cut", "faults.0.targets": '["kafka1"]', "faults.0.apart_from": '["kafka2"]'}
    with begun(us, tmp_path, "acks1-leader-isolated", *small(**cut)) as run:
        until(run, "severed")  # enough was acknowledged before, although it was the leader
        os.kill(process_of(us, "kafka3"), signal.SIGKILL)
        _, err = run.communicate(timeout=500)
    assert run.returncode == 3, err
    (directory,) = tmp_path.iterdir()
    verdict = read_verdict(directory)
    assert verdict.result == "unknown"
    assert "kafka3 died by itself (signal 9)" in verdict.sentence
    assert [line.text for line in verdict.fitness if "died" in line.text] == ["kafka3 died by itself (signal 9)."]
    record_property("figure", f"a broker killed from outside while a run went on: exit 3. {verdict.sentence}")


@pytest.mark.proves("D2")
def test_a_run_in_which_somebody_freezes_a_broker_is_unknown_and_names_the_broker(
    us: User, tmp_path: Path, record_property: Told
) -> None:
    """No command freezes it, and no fault is about it. Its priority is lowered too."""
    cut = {"faults.0.kind": "cut", "faults.0.targets": '["kafka1"]', "faults.0.apart_from": '["kafka2"]'}
    with begun(us, tmp_path, "acks1-leader-isolated", *small(**cut)) as run:
        until(run, "severed")
        broker = process_of(us, "kafka3")
        os.kill(broker, signal.SIGSTOP)
        until(run, "kafka3 is stopped, and no fault of the lab stops it")
        os.kill(broker, signal.SIGCONT)
        until(run, "kafka3 goes on")
        os.setpriority(os.PRIO_PGRP, broker, 19)
        told = assert_found_out(run, tmp_path, "n outsider disturbed kafka3", "kafka3 was reniced from 0 to 19")
    record_property("figure", f"a broker frozen from outside while a run went on: {told}")


DELETE = """
from confluent_kafka.admin import AdminClient
admin = AdminClient({"bootstrap.servers": "kafka1:9092,kafka2:9092,kafka3:9092", "broker.address.family": "v4"})
[deleted.result() for deleted in admin.delete_topics(["orders"], operation_timeout=20).values()]
"""


@pytest.mark.proves("C7")
def test_a_run_whose_topic_somebody_deletes_is_unknown_and_says_why(
    us: User, tmp_path: Path, record_property: Told
) -> None:
    """The producer's next request creates it again. The final log then lacks everything acknowledged before."""
    with begun(us, tmp_path, "acksall-leader-isolated", "--mode", "kraft", *small()) as run:
        until(run, "severed")
        done = us.run(*of_its_lab(us, "exec", "client", "--", us.python, "-c", DELETE))
        assert done.returncode == 0, done.stderr
        told = assert_found_out(run, tmp_path, "he topic orders was deleted and created again during the run", None)
    record_property("figure", f"a topic deleted while a run went on: {told}")


CHANGE = """
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
admin = AdminClient({"bootstrap.servers": "kafka1:9092,kafka2:9092,kafka3:9092", "broker.address.family": "v4"})
day = ConfigEntry("retention.ms", "86400000", incremental_operation=AlterConfigOpType.SET)
orders = ConfigResource(ResourceType.TOPIC, "orders", incremental_configs=[day])
[changed.result() for changed in admin.incremental_alter_configs([orders]).values()]
"""


@pytest.mark.long
@pytest.mark.proves("C7")
@pytest.mark.parametrize("mode", ["zookeeper", "kraft"])
def test_a_run_in_which_somebody_changes_a_setting_that_decides_about_loss_is_unknown_and_names_it(
    us: User, tmp_path: Path, mode: str, record_property: Told
) -> None:
    with begun(us, tmp_path, "acksall-leader-isolated", "--mode", mode, *small()) as run:
        until(run, "severed")
        done = us.run(*of_its_lab(us, "exec", "client", "--", us.python, "-c", CHANGE))
        assert done.returncode == 0, done.stderr
        told = assert_found_out(run, tmp_path, "n outsider changed retention.ms of orders from ", None)
    record_property("figure", f"a setting changed while a run went on: {told}")


WRITE_AND_JOIN = """
import sys, time
from confluent_kafka import Consumer, Producer
cluster = {"bootstrap.servers": "kafka1:9092,kafka2:9092,kafka3:9092", "broker.address.family": "v4"}
producer = Producer(cluster)
producer.produce("orders", b"none of yours")
assert producer.flush(30) == 0
member = Consumer(cluster | {"group.id": sys.argv[1], "client.id": "stranger", "enable.auto.commit": False})
member.subscribe(["orders"])
until = time.monotonic() + 60
while not member.assignment() and time.monotonic() < until:
    member.poll(0.1)
until = time.monotonic() + 3  # it is looked at every second
while time.monotonic() < until:
    member.poll(0.1)
member.close()
"""


@pytest.mark.long
@pytest.mark.proves("C7")
@pytest.mark.parametrize("mode", ["zookeeper", "kraft"])
def test_a_run_in_which_a_stranger_writes_and_joins_a_group_is_unknown_and_names_both(
    us: User, tmp_path: Path, mode: str, record_property: Told
) -> None:
    fewer = ("--set", "producer.count=4000", "--set", "cluster.quorum=1")
    with begun(us, tmp_path, "publish-subscribe", "--mode", mode, *fewer) as run:
        until(run, "consumer3: started")
        group = "billing"
        done = us.run(*of_its_lab(us, "exec", "client", "--", us.python, "-c", WRITE_AND_JOIN, group))
        assert done.returncode == 0, done.stderr
        told = assert_found_out(run, tmp_path, f"'stranger', is a member of the group {group}", None)
    (directory,) = tmp_path.iterdir()
    (phantom,) = [check for check in read_verdict(directory).checks if check.name == "phantom"]
    assert phantom.found
    assert phantom.result == "unknown"
    record_property("figure", f"a stranger who writes to a topic of the run and joins a group: {told}")


@pytest.mark.long
@pytest.mark.proves("D2")
def test_a_run_whose_port_relays_somebody_stops_and_kills_is_unknown_and_names_them(
    us: User, tmp_path: Path, record_property: Told
) -> None:
    """Clients on the host reach the brokers only by these relays, so Kafka is not to blame for what they miss."""
    page = (Path(__file__).parents[2] / "docs" / "your-client.md").read_text()
    (code,), (scenario,) = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("python", "toml"))
    client = tmp_path / "my_client.py"
    client.write_text(code)
    words = json.dumps([sys.executable, str(client)])[1:-1]
    longer = scenario.replace('"python3", "my_client.py"', words).replace("count = 1_500", "count = 10_000")
    (tmp_path / "my-client.toml").write_text(longer)
    with begun(us, tmp_path / "runs", str(tmp_path / "my-client.toml")) as run:
        until(run, "its port 9092 refuses")
        for node in ("kafka2", "kafka3"):
            ((relay, _),) = us.processes() & mentioning(f"=198.18.1.{node[-1]}:{EXPOSED_PORT}")
            os.kill(relay, signal.SIGSTOP)
            until(run, f"relay-{node} is stopped, and no fault of the lab stops it")
            os.kill(relay, signal.SIGCONT if node == "kafka2" else signal.SIGKILL)
        told = assert_found_out(run, tmp_path / "runs", "relay-kafka2", "relay-kafka3 ended by itself (signal 9)")
    (directory,) = (tmp_path / "runs").iterdir()
    unfit = [line.text for line in read_verdict(directory).fitness if not line.fit]
    assert "relay-kafka3 died by itself (signal 9)." in unfit
    assert any(text.startswith("An outsider disturbed relay-kafka2 ") for text in unfit)
    record_property("figure", f"relays stopped and killed from outside while a run went on: {told}")


# A killed broker does not close its ZooKeeper session, and cannot start again until the session has expired.
KILLED_AND_STARTED = """
name = "killed-and-started"
section = "A"
title = "A broker is killed and started again"
summary = "It is down in between."

[cluster]
quorum = 1

[[topics]]
name = "orders"
replication = 3

[[producers]]
topic = "orders"
count = 25_000
rate = 1_000

[[faults]]
kind = "kill"
targets = ["kafka2"]
at_messages = 1_000

[[faults]]
kind = "start"
targets = ["kafka2"]
at_messages = 22_000

[expect]
lost = "allowed"
"""
UNTIL_IT_STARTS = 'while :; do "$@" >/dev/null 2>&1; done'


@pytest.mark.long
@pytest.mark.proves("D1")
def test_a_run_whose_dead_broker_somebody_starts_ends_and_says_why(
    us: User, tmp_path: Path, record_property: Told
) -> None:
    scenario, out = tmp_path / "killed-and-started.toml", tmp_path / "runs"
    scenario.write_text(KILLED_AND_STARTED)
    with begun(us, out, str(scenario)) as run:
        until(run, "kafka2 serves")
        command = Path(f"/proc/{process_of(us, 'kafka2')}/cmdline").read_bytes().decode().split("\0")[:-1]
        until(run, "its port 9092 refuses")
        started = us.start(*of_its_lab(us, "exec", "kafka2", "--", "sh", "-c", UNTIL_IT_STARTS, "sh", *command))
        try:
            _, err = run.communicate(timeout=500)
        finally:
            started.kill()
            started.communicate()
    (said,) = [line for line in err.splitlines() if line.startswith("ackproof: ")]
    assert (run.returncode, "another process serves on its port 9092" in said) == (3, True), err
    (directory,) = out.iterdir()
    assert read_record(directory).ended != "complete", "it is no evidence, judged or not"
    record_property("figure", f"a dead broker started while a run went on: exit 3. {said.removeprefix('ackproof: ')}")


SERVE_FOR_3_S = "import socket, time; s = socket.create_server(('', 9092)); time.sleep(3)"


@pytest.mark.long
@pytest.mark.proves("D1")
def test_a_run_in_which_somebody_serves_for_a_while_on_a_dead_brokers_port_is_unknown_and_says_why(
    us: User, tmp_path: Path, record_property: Told
) -> None:
    """The other program ends before the broker starts, so the start finds the port free."""
    scenario, out = tmp_path / "killed-and-started.toml", tmp_path / "runs"
    scenario.write_text(KILLED_AND_STARTED)
    with begun(us, out, str(scenario)) as run:
        until(run, "its port 9092 refuses")
        done = us.run(*of_its_lab(us, "exec", "kafka2", "--", us.python, "-c", SERVE_FOR_3_S))
        assert done.returncode == 0, done.stderr
        told = assert_found_out(run, out, "but another process serves on its port 9092")
    (directory,) = out.iterdir()
    assert read_record(directory).ended == "complete", "the broker started, and everything was read"
    record_property("figure", f"another program on a dead broker's port while a run went on: {told}")
