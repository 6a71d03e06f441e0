"""A ZooKeeper lab: every command, checked with traffic of the test's own. At the end its supervisor is killed."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from ackproof.lab.audit_log import Events
from ackproof.lab.directory import LabDirectory
from tests.support.lab_network import in_a_child
from tests.support.listeners import Place, listening, on_loopback
from tests.support.proving import size
from tests.support.real_lab import (
    DAEMON,
    ORDINARY_UID,
    RealLab,
    User,
    alive,
    an_ordinary_user,
    assert_clean,
    daemons,
    host,
    lab,
    left_stubborn,
    on_the_host,
    ourselves,
    processes_of,
    stopped,
    wait_until,
)

pytestmark = [pytest.mark.cluster, pytest.mark.in_one_process, pytest.mark.timeout(180)]

BROKERS = ["kafka1", "kafka2", "kafka3"]
ENSEMBLE = ["zk1", "zk2", "zk3"]
NODES = [*BROKERS, "zk1", "client"]
LINKS = set(permutations(NODES, 2))

Link = tuple[str, str]
Told = Callable[[str, object], None]


@pytest.fixture(scope="module")
def before() -> dict[str, Any]:
    return host()


@pytest.fixture(scope="module")
def others() -> set[Place]:
    """Return the ports in use before the lab starts."""
    return set(listening())


@pytest.fixture(scope="module")
def the_lab(before: dict[str, Any], others: set[Place]) -> Iterator[RealLab]:
    with ourselves() as user, lab(user, "zk", "--expose") as made:
        yield made


@pytest.fixture
def zk(the_lab: RealLab) -> Iterator[RealLab]:
    """Yield the lab without faults and with every node running, and leave it like that for the next test."""
    yield the_lab
    if the_lab.folder.exists() and the_lab.run("heal").returncode == 0:
        down = [node["name"] for node in the_lab.status()["nodes"] if node["state"] == "down"]
        if down:
            the_lab.do("start", *sorted(down, key=lambda name: not name.startswith("zk")))


def between(a: str, b: str) -> set[Link]:
    return {(a, b), (b, a)}


def broker_of(exposed: str, node: str) -> str:
    return exposed.split(",")[int(node.removeprefix("kafka")) - 1]


def metadata(bootstrap: str, timeout_s: float = 10) -> Any:
    """Return a broker's answer to an ordinary client on the host; None if it does not answer."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "socket.timeout.ms": 2000})
    try:
        return client.list_topics(timeout=timeout_s)
    except KafkaException:
        return None


def reaches(bootstrap: str, timeout_s: float = 10) -> bool:
    return metadata(bootstrap, timeout_s) is not None


# -- looking ---------------------------------------------------------------------------------------------------------


def test_the_status_shows_the_lab_as_it_is(zk: RealLab) -> None:
    told = zk.status()
    assert (told["name"], told["mode"], told["kafka"]) == ("zk", "zookeeper", "3.9.2")
    assert told["bootstrap"] == "kafka1:9092,kafka2:9092,kafka3:9092"
    assert [node["name"] for node in told["nodes"]] == [*ENSEMBLE, *BROKERS, "client"]
    assert told["network_groups"] == [sorted([*ENSEMBLE, *BROKERS, "client"])]
    for node in told["nodes"][:-1]:
        assert b"java" in Path(f"/proc/{node['pid']}/cmdline").read_bytes()


def test_names_resolve_inside_the_lab_and_every_node_has_its_own_network(zk: RealLab) -> None:
    addresses = {node["name"]: node["address"] for node in zk.status()["nodes"]}
    assert {name: zk.tell("kafka1", "resolve", to=name) for name in addresses} == addresses
    pids = [node["pid"] for node in zk.status()["nodes"] if node["pid"]]
    assert len({Path(f"/proc/{pid}/ns/net").readlink() for pid in pids}) == len(pids)


@pytest.mark.proves("F4")
def test_only_the_owner_can_open_the_control_socket_and_ports_are_on_loopback_alone(
    others: set[Place], zk: RealLab
) -> None:
    assert (zk.folder / "control.sock").stat().st_mode & 0o777 == 0o600
    assert zk.folder.stat().st_mode & 0o777 == 0o700
    exposed = zk.status()["exposed"].split(",")
    assert len(exposed) == len(BROKERS)
    assert all(each.startswith("127.0.0.1:") for each in exposed)
    new = set(listening()) - others
    assert new >= {("127.0.0.1", int(each.rpartition(":")[2])) for each in exposed}
    assert [place for place in new if not on_loopback(place)] == []


@pytest.mark.proves("F4")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_cannot_use_the_lab(zk: RealLab) -> None:
    assert in_a_child(lambda: connected(zk.folder, 0)) == 0
    assert in_a_child(lambda: connected(zk.folder, ORDINARY_UID)) == errno.EACCES
    zk.folder.chmod(0o711)
    try:
        assert in_a_child(lambda: connected(zk.folder, ORDINARY_UID)) == errno.EACCES, "the socket's own mode is enough"
    finally:
        zk.folder.chmod(0o700)


def connected(folder: Path, uid: int) -> int:
    """Return the result of a connection, tried from within the folder because the folders above belong to the test."""
    os.chdir(folder)
    os.setgroups([])
    os.setresuid(uid, uid, uid)
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex("control.sock")


def test_a_second_lab_of_the_same_name_is_refused(zk: RealLab) -> None:
    assert "up already" in zk.refused(2, "up")
    assert zk.status()["name"] == "zk"


@pytest.mark.parametrize(
    ("verb", "arguments", "said"),
    [
        ("kill", ["kafka9"], "kafka9"),
        ("kill", ["kafka8*"], "matches no node"),
        ("kill", ["client"], "not a server"),
        ("kill", ["leader:nosuchtopic/0"], "no such partition"),
        ("kill", ["leader:nosuchtopic"], "TOPIC/PARTITION"),
        ("start", ["kafka1"], "kafka1 is running"),
        ("resume", ["kafka1"], "kafka1 is running"),
        ("cut", ["kafka1", "kafka1"], "no link to cut"),
        ("partition", ["kafka*,zk*"], "cut nothing"),
        ("heal", ["f99"], "no fault f99"),
        ("exec", ["kafka*", "--", "true"], "name one"),
        ("kafka", ["nosuchtool"], "nosuchtool"),
        ("kafka", ["replay-log-producer"], "replay-log-producer"),
    ],
)
def test_an_impossible_command_is_refused_and_changes_nothing(
    verb: str, arguments: list[str], said: str, zk: RealLab
) -> None:
    assert said in zk.refused(2, verb, *arguments)
    assert zk.status()["faults"] == []


def test_kafkas_own_tools_run_in_the_lab_with_the_bootstrap_servers_filled_in(zk: RealLab) -> None:
    zk.topic("create", "tools")
    assert "tools" in zk.do("kafka", "topics", "--list").split()


def test_exec_returns_the_exit_code_and_the_output_of_a_program(zk: RealLab) -> None:
    done = zk.run("exec", "kafka2", "--", "sh", "-c", "cat /etc/hosts; exit 7")
    assert done.returncode == 7
    assert "198.18.1.3 kafka3" in done.stdout
    assert zk.run("exec", "kafka2", "--", "no-such-program").returncode == 127


# -- the network, pair by pair ---------------------------------------------------------------------------------------


def expect_severed(zk: RealLab, severed: set[Link]) -> None:
    assert zk.heard(NODES, LINKS - severed) == LINKS - severed


def test_a_cut_severs_its_pair_and_nothing_else_until_it_is_healed(zk: RealLab) -> None:
    expect_severed(zk, set())
    zk.do("cut", "kafka1", "kafka2")
    expect_severed(zk, between("kafka1", "kafka2"))
    assert zk.connect("kafka1", "kafka2", 9092) == "silent"
    assert zk.connect("kafka1", "kafka3", 9092) == "connected"
    zk.do("cut", "kafka1", "zk1", "--one-way")
    expect_severed(zk, between("kafka1", "kafka2") | {("kafka1", "zk1")})
    first = zk.status()["faults"][0]["fault"]
    zk.do("heal", first)
    expect_severed(zk, {("kafka1", "zk1")})
    zk.do("heal")
    expect_severed(zk, set())


def test_a_partition_does_not_cut_off_the_client_and_join_ends_it(zk: RealLab) -> None:
    zk.do("partition", "kafka3")
    severed = {link for link in LINKS if "kafka3" in link and "client" not in link}
    expect_severed(zk, severed)
    told = zk.status()
    assert {(a, b) for a, row in told["reachable"].items() for b, hears in row.items() if not hears} >= severed
    assert ["client", "kafka3"] in told["network_groups"]
    zk.do("join")
    expect_severed(zk, set())


def test_a_node_in_two_groups_is_cut_only_from_nodes_in_neither(zk: RealLab) -> None:
    zk.do("partition", "kafka1,kafka2,kafka3", "kafka2,kafka3,zk*")
    expect_severed(zk, between("kafka1", "zk1"))


def test_a_cut_of_a_port_leaves_the_other_ports_of_the_pair(zk: RealLab) -> None:
    zk.do("cut", "kafka1", "kafka2", "--port", "9092")
    expect_severed(zk, set())
    assert zk.connect("kafka1", "kafka2", 9092) == "silent"
    assert zk.connect("kafka2", "kafka1", 9092) == "silent"
    assert zk.connect("kafka1", "kafka2") == "connected"
    assert zk.connect("client", "kafka2", 9092) == "connected"


def test_new_connections_are_dropped_while_old_ones_go_on(zk: RealLab) -> None:
    zk.tell("kafka1", "keep", to="kafka2")
    zk.do("cut", "kafka1", "kafka2", "--new-connections")
    assert zk.connect("kafka1", "kafka2") == "silent"
    assert zk.tell("kafka1", "echo") is True
    expect_severed(zk, set())
    zk.do("heal")
    assert zk.connect("kafka1", "kafka2") == "connected"


def test_a_reset_refuses_connections_of_its_pair_at_once_and_no_others(zk: RealLab) -> None:
    zk.tell("kafka1", "keep", to="kafka2")
    zk.do("cut", "kafka1", "kafka2", "--reset")
    assert zk.connect("kafka1", "kafka2") == "refused"
    assert zk.connect("kafka2", "kafka1", 9092) == "refused"
    assert zk.tell("kafka1", "echo") is False
    assert zk.connect("kafka1", "kafka3") == "connected"


def test_a_lossy_node_loses_about_its_share_and_others_nothing(zk: RealLab) -> None:
    zk.do("flaky", "kafka2", "--loss", "50%")
    copies = 400
    for target, least, most in (("kafka2", 0.3, 0.7), ("kafka3", 1.0, 1.0)):
        what = f"flaky {target}"
        zk.tell(target, "got", what=what)
        zk.tell("kafka1", "send", to=target, what=what, copies=copies)
        wait_until(
            lambda target=target, what=what, least=least: zk.tell(target, "got", what=what) >= copies * least,  # type: ignore[misc]
            f"{target} has got its share",
        )
        assert copies * least <= zk.tell(target, "got", what=what) <= copies * most


def test_a_delay_is_measured_or_refused_with_the_module_that_the_kernel_lacks(zk: RealLab) -> None:
    done = zk.run("slow", "kafka2", "--delay", "400ms")
    if done.returncode == 4:
        assert "netem" in done.stderr
        assert zk.status()["faults"] == []
        return
    assert done.returncode == 0
    begun = time.monotonic()
    assert zk.tell("client", "ask", to="zk1", port=2181, what="ruok") == "imok"
    undelayed_s = time.monotonic() - begun
    begun = time.monotonic()
    zk.connect("kafka1", "kafka2")
    assert time.monotonic() - begun > max(0.2, undelayed_s)


# -- the host --------------------------------------------------------------------------------------------------------


def test_a_client_on_the_host_reaches_every_broker_and_is_cut_only_by_cuts_of_the_client(zk: RealLab) -> None:
    exposed = zk.status()["exposed"]
    told = metadata(exposed)
    assert {f"{broker.host}:{broker.port}" for broker in told.brokers.values()} == set(exposed.split(","))
    zk.do("cut", "kafka1", "kafka2")
    assert all(reaches(broker_of(exposed, name)) for name in BROKERS)
    zk.do("heal")
    zk.do("cut", "client", "kafka2")
    assert not reaches(broker_of(exposed, "kafka2"), 2)
    assert reaches(broker_of(exposed, "kafka1"))
    zk.do("heal")
    assert reaches(broker_of(exposed, "kafka2"))


# -- by itself -------------------------------------------------------------------------------------------------------


@pytest.fixture
def stop_supervisor(zk: RealLab) -> Iterator[int]:
    """Stop the supervisor, and yield its pid. It goes on after the test, also if the test fails."""
    supervisor = int(zk.status()["supervisor_pid"])
    try:
        yield supervisor
    finally:
        os.kill(supervisor, signal.SIGCONT)


FOR_S, STOPPED_S = 10, size(0, 60)


def begun_at(zk: RealLab) -> float:
    """Return when it began, from the audit log's file: a command would use up some of the fault's time."""
    trail = Events(LabDirectory(zk.folder).events).read()
    return float([each["at_ns"] for each in trail if each["event"] == "proved"][-1]) / 1e9


def stop(supervisor: int) -> None:
    os.kill(supervisor, signal.SIGSTOP)
    wait_until(lambda: stopped(supervisor), "the supervisor is stopped")


def go_on(supervisor: int, stopped_at: float) -> None:
    time.sleep(max(0.0, stopped_at + STOPPED_S - time.monotonic()))
    assert stopped(supervisor)
    os.kill(supervisor, signal.SIGCONT)


@pytest.mark.proves("A4")
def test_a_cut_with_a_duration_ends_in_the_kernel_while_the_supervisor_is_stopped(
    zk: RealLab, stop_supervisor: int, record_property: Told
) -> None:
    expect_severed(zk, set())  # the agents are up
    zk.do("cut", "kafka1", "kafka2", "--for", f"{FOR_S}s")
    begun = begun_at(zk)
    stop(stop_supervisor)
    at = time.monotonic()
    expect_severed(zk, between("kafka1", "kafka2"))
    wait_until(
        lambda: zk.heard(["kafka1", "kafka2"], set()) == between("kafka1", "kafka2"), "the cut is over", FOR_S + 5
    )
    took_s = time.monotonic() - begun
    assert abs(took_s - FOR_S) <= 1
    go_on(stop_supervisor, at)
    wait_until(lambda: [each["event"] for each in zk.events()][-1] == "healed", "the audit log says so", 10)
    assert zk.events()[-1]["by"] == "the kernel"
    assert zk.status()["faults"] == []
    record_property("figure", f"a cut of {FOR_S} s ended by the kernel after {took_s:.1f} s")


@pytest.mark.proves("A4")
def test_a_pause_with_a_duration_is_ended_by_its_timer_while_the_supervisor_is_stopped(
    zk: RealLab, stop_supervisor: int, record_property: Told
) -> None:
    pid = zk.node("kafka3")["pid"]
    zk.do("pause", "kafka3", "--for", f"{FOR_S}s")
    begun = begun_at(zk)
    stop(stop_supervisor)
    at = time.monotonic()
    assert stopped(pid)
    wait_until(lambda: not stopped(pid), "the pause is over", FOR_S + 5)
    took_s = time.monotonic() - begun
    assert abs(took_s - FOR_S) <= 1
    go_on(stop_supervisor, at)
    wait_until(lambda: "healed" in [each["event"] for each in zk.events()[-3:]], "the audit log says so", 10)
    assert "watchdog" in [each.get("by") for each in zk.events() if each["event"] == "expired"]
    record_property(
        "figure", f"a pause of {FOR_S} s ended by its watchdog after {took_s:.1f} s, supervisor stopped {STOPPED_S} s"
    )


# -- nodes -----------------------------------------------------------------------------------------------------------


def test_a_paused_node_keeps_its_port_and_does_not_answer_until_it_is_resumed(zk: RealLab) -> None:
    exposed, pid = zk.status()["exposed"], zk.node("kafka2")["pid"]
    zk.do("pause", "kafka2")
    assert stopped(pid)
    assert not stopped(zk.node("kafka1")["pid"])
    assert zk.connect("client", "kafka2", 9092) == "connected"  # the kernel accepts the connection
    assert not reaches(broker_of(exposed, "kafka2"), 2)
    assert reaches(broker_of(exposed, "kafka1"))
    assert "kafka2 is paused" in zk.refused(2, "pause", "kafka2")
    zk.do("resume")
    assert not stopped(pid)
    assert reaches(broker_of(exposed, "kafka2"))
    assert "no node is paused" in zk.do("resume")


def test_killing_the_leader_kills_the_broker_that_an_ordinary_client_sees_as_leader(zk: RealLab) -> None:
    zk.topic("create", "orders", "-p", "1")
    exposed = zk.status()["exposed"]
    leader = f"kafka{metadata(exposed).topics['orders'].partitions[0].leader}"
    pid = zk.node(leader)["pid"]
    assert leader in zk.do("kill", "leader:orders/0")
    assert not Path(f"/proc/{pid}").exists()
    assert zk.connect("client", leader, 9092) == "refused"
    others = [name for name in BROKERS if name != leader]
    assert [zk.connect("client", name, 9092) for name in others] == ["connected", "connected"]
    left = ",".join(broker_of(exposed, name) for name in others)
    wait_until(lambda: f"kafka{metadata(left).topics['orders'].partitions[0].leader}" in others, "another leads", 30)
    assert f"{leader} is down" in zk.refused(2, "kill", leader)
    zk.do("start", leader)
    assert zk.connect("client", leader, 9092) == "connected"
    assert zk.node(leader)["state"] == "running"


def test_the_status_names_the_same_controller_and_ensemble_leader_as_other_tools(zk: RealLab) -> None:
    controller = f"kafka{metadata(zk.status()['exposed']).controller_id}"
    modes = {name: zk.tell("client", "ask", to=name, port=2181, what="srvr") for name in ENSEMBLE}
    (leader,) = [name for name, said in modes.items() if "Mode: leader" in said]
    told = json.loads(zk.do("cut", "controller", "zookeeper-leader", "--json"))
    assert told["targets"] == [controller, leader]
    assert zk.connect(controller, leader, 2181) == "silent"


def test_a_restart_with_an_empty_disk_keeps_no_old_data(zk: RealLab) -> None:
    pid = zk.node("kafka2")["pid"]
    marker = zk.folder / "data" / "kafka2" / "log1" / "marker"
    zk.do("exec", "kafka2", "--", "touch", str(marker))
    assert not marker.exists(), "the nodes' disks are the lab's own"
    zk.do("restart", "kafka2", "--wipe")
    assert zk.node("kafka2")["pid"] != pid
    assert zk.run("exec", "kafka2", "--", "ls", str(marker)).returncode != 0
    assert zk.connect("client", "kafka2", 9092) == "connected"


@pytest.mark.proves("D2")
def test_a_broker_that_dies_by_itself_is_reported_as_dead(zk: RealLab) -> None:
    os.kill(zk.node("kafka3")["pid"], signal.SIGKILL)
    wait_until(lambda: zk.node("kafka3")["state"] == "down", "the status shows it as down", 10)
    assert "by itself" in zk.node("kafka3")["last_exit"]


@pytest.mark.proves("D1")
def test_a_broker_that_an_outsider_started_again_is_reported(zk: RealLab) -> None:
    pid = zk.node("kafka3")["pid"]
    argv = [word.decode() for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]]
    zk.do("stop", "kafka3")
    other = zk.user.start("exec", "--name", zk.name, "kafka3", "--", *argv)
    try:
        wait_until(lambda: zk.connect("client", "kafka3", 9092) == "connected", "it serves", 60)
        assert "another process serves on its port 9092" in zk.refused(3, "start", "kafka3")
    finally:
        other.kill()
        other.communicate()
    wait_until(lambda: zk.connect("client", "kafka3", 9092) == "refused", "it is gone")
    zk.do("start", "kafka3")


@pytest.mark.proves("D1")
def test_stopping_a_broker_without_zookeeper_ends_in_time_with_one_sentence_and_reset_heals_everything(
    zk: RealLab,
) -> None:
    zk.topic("create", "led", "-p", "3")  # kafka3 leads a partition, and cannot hand it over
    zk.do("kill", "zk*")
    assert "still there 4 s after SIGTERM" in zk.refused(3, "stop", "kafka3", "--timeout", "4s", timeout_s=30)
    zk.do("cut", "kafka1", "kafka2")
    zk.do("reset")
    told = zk.status()
    assert {node["state"] for node in told["nodes"]} == {"running", "namespace"}
    assert told["faults"] == []
    assert not {"orders", "led"} & set(metadata(told["exposed"]).topics)
    assert len(metadata(told["exposed"]).brokers) == 3


# -- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.proves("A1", "A3")
def test_killing_the_supervisor_leaves_nothing(zk: RealLab, before: dict[str, Any]) -> None:
    zk.do("cut", "kafka1", "kafka2")
    zk.do("pause", "zk2")
    zk.do("pause", "kafka3")
    zk.do("exec", "kafka1", "--", "sh", "-c", DAEMON)
    told = zk.status()
    processes = processes_of(told["supervisor_pid"])
    assert len(processes) >= 8
    assert len(processes & daemons()) == 1, "it is a process of the lab, and no child of the command"
    paused = [node["pid"] for node in told["nodes"] if node["state"] == "paused"]
    assert [stopped(pid) for pid in paused] == [True, True]
    port = int(told["exposed"].split(",")[0].rpartition(":")[2])
    os.kill(told["supervisor_pid"], signal.SIGKILL)
    wait_until(lambda: not alive(processes), "every process is gone")
    wait_until(lambda: host() == before, "links, addresses, routes, mounts and rules are as before")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1)
    assert "its supervisor has ended" in zk.refused(2, "status")
    zk.do("down")
    assert not zk.folder.exists()


@pytest.mark.proves("A3")
@pytest.mark.long
@pytest.mark.parametrize("mode", ["zookeeper", "kraft"])
@pytest.mark.parametrize("who", [ourselves, an_ordinary_user], ids=["root", "rootless"])
def test_processes_that_ignore_signals_or_are_stopped_end_with_the_lab(
    who: Callable[[], AbstractContextManager[User]], mode: str, record_property: Told
) -> None:
    whole = on_the_host()
    quorum, name = ("zk1", "ZooKeeper") if mode == "zookeeper" else ("controller1", "controller")
    with who() as user, lab(user, "deaf", "--mode", mode, "--brokers", "1", "--quorum", "1") as made:
        with left_stubborn(made, quorum, "kafka1") as processes:
            begun = time.monotonic()
            made.do("down", timeout_s=30)
            took_s = time.monotonic() - begun
        wait_until(lambda: not alive(processes), "every process is gone")
        assert user.labs() == []
        assert_clean(user, whole)
    told = f"`down` of a lab with a deaf daemon, a deaf child, and {name} and broker stopped"
    record_property("figure", f"{told}, {who.__name__.replace('_', ' ')}: clean after {took_s:.1f} s")
