"""Faults that stand in a lab: proved again, told when they no longer hold, ended on time. With stand-ins for nodes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from ackproof import faults
from ackproof.errors import NotProved, UsageProblem
from ackproof.faults import Held
from ackproof.lab import kernel, node_verbs
from ackproof.lab import lab as lab_module
from ackproof.lab.cluster import Cluster
from ackproof.lab.events import Events
from ackproof.lab.lab import Lab
from ackproof.lab.network import Network
from ackproof.lab.rules import Match
from ackproof.lab.spec import LabSpec, Node
from ackproof.lab.topology import severed_between
from lab_network import NODES, in_a_lab_network, remove_rules, rule_set, wait_until

ECHO = (
    "import socket; s = socket.create_server(('{}', 9092))\nwhile True: c, _ = s.accept(); c.send(c.recv(9)); c.close()"
)
SPEC = LabSpec(kafka="3.9.2")
LINKS = severed_between(["kafka1"], ["kafka2"])


class StandInCluster:
    """Nodes whose program is an echo."""

    def __init__(self) -> None:
        self.nodes = {name: SPEC.broker(number) for number, name in enumerate(NODES[:3], start=1)}

    def answers(self, node: Node, timeout_s: float = 1.0) -> bool:
        try:
            with socket.create_connection((node.address, node.port), timeout=timeout_s) as connection:
                connection.send(b"hello")
                return connection.recv(9) == b"hello"
        except OSError:
            return False


@contextmanager
def a_lab(network: Network) -> Iterator[Lab]:
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(network, Events(Path(folder) / "events.jsonl"))
        lab.cluster = cast(Cluster, StandInCluster())
        for node in list(lab.cluster.nodes.values())[:2]:
            namespace = network.endpoints[node.name].namespace
            argv = [sys.executable, "-c", ECHO.format(node.address)]
            lab.processes.spawn(node.name, argv, namespace=namespace, output=Path("/dev/null"), environment={})
            wait_until(lambda node=node: lab.cluster.answers(node), f"{node.name} answers")  # type: ignore[misc]
        try:
            yield lab
        finally:
            for name in lab.cluster.nodes:
                lab.processes.send(name, signal.SIGKILL, ends=True)
            wait_until(lambda: reaped(lab, *lab.cluster.nodes), "all have ended")


def reaped(lab: Lab, *names: str) -> bool:
    lab.processes.reap()
    return all(lab.processes.state(name) == "down" for name in names)


def in_a_lab(work: Callable[[Lab], None]) -> None:
    def inside(network: Network) -> None:
        with a_lab(network) as lab:
            work(lab)

    in_a_lab_network(inside)


def paused(lab: Lab, name: str = "kafka1") -> lab_module.Standing:
    return lab.begin(lab.next_name(), "pause", [name], node_verbs._paused(lab, lab.cluster.nodes[name], True))


def cut(lab: Lab, for_s: float | None = None) -> lab_module.Standing:
    name = lab.next_name()
    fault = faults.severed(lab.network, name, sorted(LINKS), Match(), for_s)
    return lab.begin(name, "cut", ["kafka1", "kafka2"], fault, links=LINKS, for_s=for_s)


def told(lab: Lab, event: str) -> list[dict[str, Any]]:
    return [each for each in lab.events.read() if each["event"] == event]


def keep_proving(lab: Lab) -> None:
    lab_module.PROVE_EVERY_S = 0.2
    threading.Thread(target=lab.keep_proving, daemon=True).start()


def test_a_pause_stops_every_thread_and_leaves_the_others_alone() -> None:
    def work(lab: Lab) -> None:
        standing = paused(lab)
        assert lab.processes.state("kafka1") == "paused"
        assert lab.processes.state("kafka2") == "running"
        assert not lab.cluster.answers(lab.cluster.nodes["kafka1"], 0.1)
        assert lab.cluster.answers(lab.cluster.nodes["kafka2"])
        standing.held.prove()
        lab.end(standing.name)
        assert lab.processes.state("kafka1") == "running"
        assert lab.cluster.answers(lab.cluster.nodes["kafka1"])

    in_a_lab(work)


@pytest.mark.proves("D1")
def test_a_pause_that_somebody_else_ended_is_found_out() -> None:
    def work(lab: Lab) -> None:
        standing = paused(lab)
        process = lab.processes.get("kafka1")
        assert process is not None
        os.kill(process.pid, signal.SIGCONT)
        with pytest.raises(NotProved, match="not every thread is stopped"):
            standing.held.prove()

    in_a_lab(work)


@pytest.mark.proves("D1")
def test_a_pause_of_a_process_that_died_is_found_out() -> None:
    def work(lab: Lab) -> None:
        standing = paused(lab)
        process = lab.processes.get("kafka1")
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: reaped(lab, "kafka1"), "it is reaped")
        with pytest.raises(NotProved):
            standing.held.prove()
        assert told(lab, "exited")[0]["by_itself"] is True

    in_a_lab(work)


@pytest.mark.proves("D1")
@pytest.mark.parametrize("fault", [paused, cut])
def test_a_node_that_is_restarted_behind_a_fault_is_found_out(fault: Callable[[Lab], lab_module.Standing]) -> None:
    def work(lab: Lab) -> None:
        standing = fault(lab)
        keep_proving(lab)
        process, node = lab.processes.get("kafka1"), lab.cluster.nodes["kafka1"]
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        with kernel.inside(lab.network.endpoints[node.name].namespace):
            other = subprocess.Popen([sys.executable, "-c", ECHO.format(node.address)])
        try:
            wait_until(lambda: reaped(lab, "kafka1"), "its process is reaped")
            wait_until(lambda: lab.cluster.answers(node), "another answers")
            assert [each["by_itself"] for each in told(lab, "exited")] == [True]
            if standing.kind == "pause":
                wait_until(lambda: bool(told(lab, "no longer holds")), "the pause is found out")
            else:
                standing.held.prove()  # the network's fault holds for whoever stands there
        finally:
            other.kill()
            other.wait()

    in_a_lab(work)


@pytest.mark.proves("D1")
def test_a_fault_that_no_longer_holds_is_told_in_the_status_and_in_the_trail() -> None:
    def work(lab: Lab) -> None:
        standing = cut(lab)
        keep_proving(lab)
        remove_rules(lab.network)
        wait_until(lambda: standing.told()["broken"] is not None, "the broken fault is found out")
        assert "still reachable" in told(lab, "no longer holds")[0]["problem"]

    in_a_lab(work)


def test_a_proof_that_breaks_in_an_unforeseen_way_does_not_end_the_proving_of_others() -> None:
    def work(lab: Lab) -> None:
        def breaks() -> str:
            raise KeyError("198.18.1.9")

        @contextmanager
        def fault() -> Iterator[Held]:
            yield Held("held", breaks)

        standing = lab.begin("f0", "odd", ["kafka1"], fault())
        lab._look_after(standing)
        assert standing.broken is not None

    in_a_lab(work)


@pytest.mark.proves("A4")
def test_a_fault_with_a_time_ends_in_the_kernel_and_the_trail_says_so() -> None:
    def work(lab: Lab) -> None:
        before = rule_set(lab.network)
        keep_proving(lab)
        standing = cut(lab, for_s=0.5)
        assert standing.told()["left_s"] > 0
        wait_until(lambda: bool(told(lab, "healed")), "the fault has ended")
        assert [each["by"] for each in told(lab, "healed")] == ["the kernel"]
        assert not told(lab, "no longer holds")
        assert rule_set(lab.network) == before

    in_a_lab(work)


def test_healing_is_proved_and_told_and_a_second_time_does_no_harm() -> None:
    def work(lab: Lab) -> None:
        first, second = cut(lab), cut(lab)
        assert "other faults still stand" in lab.end(first.name)
        assert "open again" in lab.end(second.name)
        assert "over already" in lab.end(second.name)
        assert len(told(lab, "healed")) == 2

    in_a_lab(work)


def test_a_fault_that_nobody_knows_cannot_be_healed() -> None:
    def work(lab: Lab) -> None:
        standing = cut(lab)
        with pytest.raises(UsageProblem, match=rf"no fault f99 stands; standing: {standing.name}"):
            lab.find(["f99"])
        assert lab.find([]) == [standing.name]

    in_a_lab(work)


def test_a_link_that_stays_shut_after_healing_is_told_as_not_healed() -> None:
    def work(lab: Lab) -> None:
        standing = cut(lab)
        lab.network.rules.add("stray", Match(), [lab.network._addresses(link) for link in LINKS])
        with pytest.raises(NotProved, match="nothing gets through"):
            lab.end(standing.name)
        assert told(lab, "not healed")

    in_a_lab(work)


@pytest.mark.proves("D2")
def test_a_node_that_dies_by_itself_is_named_as_that_and_one_that_was_killed_is_not() -> None:
    def work(lab: Lab) -> None:
        lab.processes.send("kafka1", signal.SIGKILL, ends=True)
        process = lab.processes.get("kafka2")
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: reaped(lab, *lab.cluster.nodes), "both have ended")
        assert {each["node"]: each["by_itself"] for each in told(lab, "exited")} == {"kafka1": False, "kafka2": True}
        assert lab.processes.wait_for_exit("kafka2", time.monotonic())

    in_a_lab(work)


@pytest.mark.proves("A8")
def test_fifty_cuts_leave_as_many_open_descriptors_as_before() -> None:
    def work(lab: Lab) -> None:
        def one() -> None:
            lab.end(cut(lab).name)

        def descriptors() -> int:
            return len(list(Path("/proc/self/fd").iterdir()))

        one()
        before = descriptors()
        for _ in range(50):  # each in a thread of its own, as every verb is
            thread = threading.Thread(target=one)
            thread.start()
            thread.join()
        assert descriptors() == before

    in_a_lab(work)


def test_a_cut_upon_a_cut_of_new_connections_breaks_neither() -> None:
    def work(lab: Lab) -> None:
        name, match = lab.next_name(), Match(new_connections=True)
        fault = faults.severed(lab.network, name, sorted(LINKS), match)
        first = lab.begin(name, "cut", ["kafka1", "kafka2"], fault, links=LINKS, match=match)
        second = cut(lab)
        first.held.prove()
        lab.end(second.name)
        first.held.prove()

    in_a_lab(work)
