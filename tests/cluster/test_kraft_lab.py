"""A KRaft lab of an ordinary user, without root: cuts, roles, one more broker, an empty disk, the end."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import pytest

from tests.support.real_lab import (
    DAEMON,
    GONE_S,
    RealLab,
    alive,
    an_ordinary_user,
    daemons,
    host,
    lab,
    processes_of,
    stopped,
    wait_until,
)

pytestmark = [pytest.mark.cluster, pytest.mark.in_one_process, pytest.mark.timeout(180)]

NODES = ["kafka1", "kafka2", "controller1", "client"]
LINKS = set(permutations(NODES, 2))


@pytest.fixture(scope="module")
def before() -> dict[str, Any]:
    return host()


@pytest.fixture(scope="module")
def kraft(before: dict[str, Any]) -> Iterator[RealLab]:
    with an_ordinary_user() as user, lab(user, "kraft", "--mode", "kraft", "--brokers", "2", "--expose") as made:
        yield made


def reaches(bootstrap: str, timeout_s: float = 10) -> bool:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=timeout_s)
    except KafkaException:
        return False
    return True


def test_an_ordinary_user_has_a_cluster_of_its_own(kraft: RealLab) -> None:
    told = kraft.status()
    assert (told["mode"], told["kafka"]) == ("kraft", "4.3.1")
    owners = {os.stat(f"/proc/{node['pid']}").st_uid for node in told["nodes"] if node["pid"]}  # noqa: PTH116
    assert owners == {kraft.user.uid if kraft.user.uid is not None else os.getuid()}
    assert owners != {0}
    assert len([node for node in told["nodes"] if node["state"] == "running"]) == 5


def test_a_cut_severs_its_pair_and_nothing_else(kraft: RealLab) -> None:
    assert kraft.heard(NODES, LINKS) == LINKS
    kraft.do("cut", "kafka1", "kafka2")
    severed = {("kafka1", "kafka2"), ("kafka2", "kafka1")}
    assert kraft.heard(NODES, LINKS - severed) == LINKS - severed
    assert kraft.connect("kafka1", "kafka2", 9092) == "silent"
    assert kraft.connect("kafka1", "controller1", 9093) == "connected"
    assert reaches(kraft.status()["exposed"].split(",")[1])
    kraft.do("heal")
    assert kraft.heard(NODES, LINKS) == LINKS


def test_a_cut_of_the_client_cuts_clients_on_the_host_too(kraft: RealLab) -> None:
    first, second = kraft.status()["exposed"].split(",")
    kraft.do("cut", "client", "kafka2", "--for", "30s")
    assert not reaches(second, 2)
    assert reaches(first)
    kraft.do("heal")
    assert reaches(second)


def test_a_pause_holds_and_ends_without_root(kraft: RealLab) -> None:
    kraft.do("pause", "kafka2")
    assert kraft.node("kafka2")["state"] == "paused"
    kraft.do("heal")
    assert kraft.node("kafka2")["state"] == "running"


def test_an_added_broker_serves_inside_the_lab_and_on_the_host(kraft: RealLab) -> None:
    kraft.do("add")
    assert kraft.connect("client", "kafka3", 9092) == "connected"
    assert kraft.tell("kafka1", "resolve", to="kafka3") == kraft.node("kafka3")["address"]
    told = kraft.status()
    assert len(told["exposed"].split(",")) == 3
    assert reaches(told["exposed"].split(",")[2])
    kraft.do("cut", "kafka3", "kafka1")
    assert kraft.connect("kafka3", "kafka1", 9092) == "silent"
    kraft.do("heal")
    assert kraft.connect("kafka3", "kafka1", 9092) == "connected"


def test_after_the_controller_is_killed_another_one_leads(kraft: RealLab) -> None:
    first = kraft.status()["controller"]
    assert first.startswith("controller")
    assert json.loads(kraft.do("kill", "controller", "--json"))["nodes"] == [first]
    assert kraft.connect("client", first, 9093) == "refused"
    wait_until(lambda: kraft.status()["controller"] not in (None, "?", first), "another one leads", 30)
    kraft.do("start", first)
    assert kraft.connect("client", first, 9093) == "connected"
    assert "no ZooKeeper" in kraft.refused(2, "kill", "zookeeper-leader")


def test_a_restart_with_an_empty_disk_serves_again(kraft: RealLab) -> None:
    marker = kraft.folder / "data" / "kafka2" / "log1" / "marker"
    kraft.do("exec", "kafka2", "--", "touch", str(marker))
    kraft.do("restart", "kafka2", "--wipe", "--kill")
    assert kraft.run("exec", "kafka2", "--", "ls", str(marker)).returncode != 0
    assert kraft.connect("client", "kafka2", 9092) == "connected"


@pytest.mark.proves("A1", "A3")
def test_killing_the_supervisor_leaves_nothing(kraft: RealLab, before: dict[str, Any]) -> None:
    kraft.do("pause", "kafka1")
    kraft.do("pause", "controller1")
    kraft.do("exec", "kafka2", "--", "sh", "-c", DAEMON)
    told = kraft.status()
    supervisor = told["supervisor_pid"]
    processes = processes_of(supervisor)
    assert len(processes) >= 7
    assert len(processes & daemons()) == 1, "it is a process of the lab, and no child of the command"
    assert [stopped(node["pid"]) for node in told["nodes"] if node["state"] == "paused"] == [True, True]
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: not alive(processes), "every process is gone", GONE_S)
    wait_until(lambda: host() == before, "links, addresses, routes, mounts and rules are as before")
    assert "its supervisor has ended" in kraft.refused(2, "status")
    kraft.do("down")
    assert not kraft.folder.exists()
