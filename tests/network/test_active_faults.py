"""Active faults of a lab are proved again and again, reported when they no longer hold, and ended on time."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from ackproof.api.run_directory import new_record
from ackproof.api.run_request import RunRequest
from ackproof.core.errors import CannotHere, NotProved, Problem, Refused, UsageProblem
from ackproof.host import namespaces as kernel
from ackproof.host import processes
from ackproof.judge.evidence import faults as fault_fitness
from ackproof.judge.evidence import interference
from ackproof.judge.evidence.facts import Evidence
from ackproof.judge.run_source import opened
from ackproof.lab import client as control
from ackproof.lab.audit_log import Events
from ackproof.lab.cluster import Cluster
from ackproof.lab.faults import active as lab_module
from ackproof.lab.faults import clients as client_faults
from ackproof.lab.faults import links
from ackproof.lab.faults import nodes as node_faults
from ackproof.lab.faults.active import Lab
from ackproof.lab.faults.injection import Injection
from ackproof.lab.faults.proof import FaultProof
from ackproof.lab.network import probes
from ackproof.lab.network.nftables import Match
from ackproof.lab.network.router import NOT_ONLY_OURS, Network
from ackproof.lab.requests import AtNodes
from ackproof.lab.server import commands as verbs
from ackproof.lab.server import node_commands as node_verbs
from ackproof.lab.server import run_commands as run_verbs
from ackproof.lab.server.commands import Request
from ackproof.lab.spec import LabSpec, Node
from ackproof.lab.topology import severed_between
from ackproof.model.faults import Fault, Kill
from ackproof.model.run_record import write_record
from ackproof.run.execution import RunExecution
from ackproof.run.lab_trail import LabTrail
from ackproof.scenario.load import load
from ackproof.scenario.source import find
from tests.support.lab_network import (
    NODES,
    in_a_lab_network,
    let_connections_through_for_a_moment,
    remove_rules,
    rule_set,
    wait_until,
)

ECHO = (
    "import socket; s = socket.create_server(('{}', 9092))\nwhile True: c, _ = s.accept(); c.send(c.recv(9)); c.close()"
)
SPEC = LabSpec(kafka="3.9.2")
LINKS = severed_between(["kafka1"], ["kafka2"])


class StandInCluster:
    """Nodes whose program is an echo."""

    def __init__(self) -> None:
        self.state = self
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
            launch(lab, node)
        try:
            yield lab
        finally:
            for name in lab.cluster.nodes:
                lab.processes.send(name, signal.SIGKILL, ends=True)
            wait_until(lambda: reaped(lab, *lab.cluster.nodes), "all have ended")


def launch(lab: Lab, node: Node) -> None:
    namespace = lab.network.endpoints[node.name].namespace
    argv = [sys.executable, "-c", ECHO.format(node.address)]
    lab.processes.spawn(node.name, argv, namespace=namespace, output=Path("/dev/null"), environment={})
    wait_until(lambda: lab.cluster.state.answers(node), f"{node.name} answers")


def reaped(lab: Lab, *names: str) -> bool:
    lab.processes.reap()
    return all(lab.processes.state(name) == "down" for name in names)


def in_a_lab(work: Callable[[Lab], None]) -> None:
    def inside(network: Network) -> None:
        with a_lab(network) as lab:
            work(lab)

    in_a_lab_network(inside)


def paused(lab: Lab, name: str = "kafka1") -> lab_module.ActiveFault:
    return lab.begin(lab.next_name(), "pause", [name], node_faults.paused(lab, lab.cluster.nodes[name], True))


def cut(lab: Lab, for_s: float | None = None) -> lab_module.ActiveFault:
    name = lab.next_name()
    fault = links.severed(lab.network, name, sorted(LINKS), Match(), for_s)
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
        assert not lab.cluster.state.answers(lab.cluster.nodes["kafka1"], 0.1)
        assert lab.cluster.state.answers(lab.cluster.nodes["kafka2"])
        standing.proof.prove()
        lab.end(standing.name)
        assert lab.processes.state("kafka1") == "running"
        assert lab.cluster.state.answers(lab.cluster.nodes["kafka1"])

    in_a_lab(work)


@pytest.mark.proves("D1")
def test_a_pause_that_an_outsider_ended_is_reported() -> None:
    def work(lab: Lab) -> None:
        standing = paused(lab)
        process = lab.processes.get("kafka1")
        assert process is not None
        os.kill(process.pid, signal.SIGCONT)
        with pytest.raises(NotProved, match="not every thread is stopped"):
            standing.proof.prove()

    in_a_lab(work)


@pytest.mark.proves("D1")
def test_a_pause_of_a_process_that_died_is_reported() -> None:
    def work(lab: Lab) -> None:
        standing = paused(lab)
        process = lab.processes.get("kafka1")
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: reaped(lab, "kafka1"), "it is reaped")
        with pytest.raises(NotProved):
            standing.proof.prove()
        assert told(lab, "exited")[0]["by_itself"] is True

    in_a_lab(work)


@pytest.mark.proves("D1")
@pytest.mark.parametrize("fault", [paused, cut])
def test_a_node_that_an_outsider_restarts_under_a_fault_is_reported(
    fault: Callable[[Lab], lab_module.ActiveFault],
) -> None:
    def work(lab: Lab) -> None:
        standing = fault(lab)
        keep_proving(lab)
        process, node = lab.processes.get("kafka1"), lab.cluster.nodes["kafka1"]
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: reaped(lab, "kafka1"), "its process is reaped")  # and its port free
        with started_by_an_outsider(lab, node):
            wait_until(lambda: lab.cluster.state.answers(node), "another answers")
            assert [each["by_itself"] for each in told(lab, "exited")] == [True]
            if standing.kind == "pause":
                wait_until(lambda: bool(told(lab, "no longer holds")), "the end of the pause is reported")
            else:
                standing.proof.prove()  # a network fault holds for any process of the node

    in_a_lab(work)


@contextmanager
def started_by_an_outsider(lab: Lab, node: Node) -> Iterator[None]:
    with kernel.inside(lab.network.endpoints[node.name].namespace):
        other = subprocess.Popen([sys.executable, "-c", ECHO.format(node.address)])
    try:
        yield
    finally:
        other.kill()
        other.wait()


@pytest.mark.proves("D1")
def test_a_fault_that_no_longer_holds_is_reported_in_the_status_and_in_the_audit_log() -> None:
    def work(lab: Lab) -> None:
        standing = cut(lab)
        remove_rules(lab.network)  # not between the probes of a proof and its look at the rules
        keep_proving(lab)
        wait_until(lambda: standing.told().broken is not None, "the broken fault is reported")
        assert "still reachable" in told(lab, "no longer holds")[0]["problem"]

    in_a_lab(work)


@pytest.mark.proves("D1")
@pytest.mark.parametrize("sabotaged", [True, False])
def test_a_fault_is_proved_once_more_right_before_it_is_healed(sabotaged: bool) -> None:
    def work(lab: Lab) -> None:
        standing = cut(lab)  # nothing proves it again until it is healed
        if sabotaged:
            remove_rules(lab.network)
        with suppress(NotProved):  # rules that an outsider changed prove nothing afterwards
            asked(lab, verbs.heal, faults=[standing.name])
        assert lab.active == {}
        assert [len(told(lab, event)) for event in ("held", "no longer holds")] == [not sabotaged, sabotaged]

    in_a_lab(work)


@pytest.mark.proves("D1")
def test_rules_changed_by_an_outsider_are_reported_once_for_each_fault_and_again_when_it_is_healed() -> None:
    def work(lab: Lab) -> None:
        standing = [cut(lab), cut(lab)]
        let_connections_through_for_a_moment(lab.network)
        for fault in standing * 2:
            lab._look_after(fault)
        broken = [(each["fault"], each["problem"]) for each in told(lab, "no longer holds")]
        assert broken == [(fault.name, NOT_ONLY_OURS) for fault in standing]
        with pytest.raises(NotProved, match=NOT_ONLY_OURS):
            lab.end(standing[0].name)
        assert [each["problem"] for each in told(lab, "not healed")] == [NOT_ONLY_OURS]

    in_a_lab(work)


# -- signals that do nothing -----------------------------------------------------------------------------------------


@contextmanager
def deaf(lab: Lab) -> Iterator[None]:
    """Signals are sent and have no effect, and the lab waits only briefly for their effect."""
    send, lab.processes.send = lab.processes.send, lambda *_, **__: True  # type: ignore[method-assign]
    node_faults.KILL_S = client_faults.END_S = processes.FREEZE_S = 0.2
    try:
        yield
    finally:
        lab.processes.send = send  # type: ignore[method-assign]


def asked(lab: Lab, verb: Callable[[Any, Request], Any], directory: object = None, **arguments: Any) -> Any:
    server = SimpleNamespace(lab=lab, injection=lambda _, **how: NamesAsTheyAre(lab, cast(Any, directory), **how))
    return msgspec.to_builtins(verb(server, Request(arguments, print)))


class NamesAsTheyAre(Injection):
    """In a lab whose nodes have no roles."""

    def named(self, names: Sequence[str]) -> list[str]:
        return list(names)


def kill(server: Any, request: Request) -> Any:
    return verbs.inject(
        server, Request({"fault": {"kind": "kill", "targets": request.as_struct(AtNodes).nodes}}, print)
    )


def pause(server: Any, request: Request) -> Any:
    return verbs.inject(
        server, Request({"fault": {"kind": "pause", "targets": request.as_struct(AtNodes).nodes}}, print)
    )


def disturb(lab: Lab, kind: str, *, heard: bool = False, directory: object = None, for_s: float | None = None) -> Any:
    """A fault at the client of `a_client`."""
    fault = {"kind": kind, "targets": ["producer:1"]}
    clients = {"processes": ["producer1"], "heard": ["producer1"] * heard}
    return asked(lab, run_verbs.disturb, directory, fault=fault, for_s=for_s, **clients)


@pytest.mark.proves("D1")
@pytest.mark.parametrize(
    ("verb", "said"),
    [(kill, "still there"), (node_verbs.stop, "still there"), (pause, "not every thread")],
)
def test_a_signal_without_effect_on_a_node_is_reported(verb: Callable[[Any, Request], Any], said: str) -> None:
    def work(lab: Lab) -> None:
        with deaf(lab), pytest.raises(NotProved, match=said):
            asked(lab, verb, nodes=["kafka1"], timeout_s=0.2)
        assert (told(lab, "proved"), lab.active) == ([], {})
        assert lab.processes.state("kafka1") == "running"

    in_a_lab(work)


@pytest.mark.proves("D1")
@pytest.mark.parametrize("there", [True, False], ids=["its child serves on", "its network is gone"])
def test_a_killed_node_is_proved_dead_only_if_it_can_be_reached_and_refuses(there: bool) -> None:
    def work(lab: Lab) -> None:
        node, program = lab.cluster.nodes["kafka3"], ECHO.replace("\n", "\nimport os; os.fork()\n" if there else "\n")
        argv = [sys.executable, "-c", program.format(node.address)]
        namespace = lab.network.endpoints[node.name].namespace
        lab.processes.spawn(node.name, argv, namespace=namespace, output=Path("/dev/null"), environment={})
        process = lab.processes.get(node.name)
        assert process is not None
        wait_until(lambda: lab.cluster.state.answers(node) and len(processes.below(process.pid)) == there, "it serves")
        if not there:
            lab.network.detach(node.name)
        keep_reaping(lab)
        with pytest.raises(NotProved, match="another process serves on its port" if there else "so is its network"):
            asked(lab, kill, nodes=[node.name])
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    in_a_lab(work)


def ended(lab: Lab, verb: Callable[[Any, Request], Any]) -> processes.Exit:
    asked(lab, verb, nodes=["kafka1"])
    return lab.down["kafka1"]


@pytest.mark.proves("D1")
@pytest.mark.parametrize("verb", [kill, node_verbs.stop])
def test_a_program_that_serves_on_the_port_of_a_dead_node_is_reported_once(verb: Callable[[Any, Request], Any]) -> None:
    def work(lab: Lab) -> None:
        keep_reaping(lab)
        how, node = ended(lab, verb), lab.cluster.nodes["kafka1"]
        lab._knock("kafka1", how)
        assert told(lab, "no longer holds") == []
        keep_proving(lab)
        with started_by_an_outsider(lab, node):
            wait_until(lambda: bool(told(lab, "no longer holds")), "the other program is reported")
            lab._knock("kafka1", how)
        ((name, problem),) = [(each["node"], each["problem"]) for each in told(lab, "no longer holds")]
        assert (name, problem) == ("kafka1", f"kafka1 is down ({how}), but another process serves on its port 9092")
        assert lab.down == {}

    in_a_lab(work)


@pytest.mark.proves("D1")
def test_a_dead_node_that_the_lab_starts_again_is_no_other_program() -> None:
    """Also if the lab asked before the start and got the answer after it, or if the node was killed again meanwhile."""

    def work(lab: Lab) -> None:
        lab.cluster.launch = lambda node: launch(lab, node)  # type: ignore[method-assign]
        keep_reaping(lab)
        before = ended(lab, kill)
        asked(lab, node_verbs.start, nodes=["kafka1"], wait=False)
        assert lab.down == {}
        lab._knock("kafka1", before)
        asked(lab, node_verbs.restart, nodes=["kafka1"], kill=True, wait=False)
        assert lab.down == {}
        ended(lab, kill)
        with started_by_an_outsider(lab, lab.cluster.nodes["kafka1"]):
            wait_until(lambda: lab.cluster.state.answers(lab.cluster.nodes["kafka1"]), "it answers")
            lab._knock("kafka1", before)
        assert told(lab, "no longer holds") == []

    in_a_lab(work)


def test_the_port_of_a_node_that_started_before_its_death_was_proved_is_not_asked() -> None:
    def work(lab: Lab) -> None:
        lab.keep_down("kafka1")
        assert lab.down == {}

    in_a_lab(work)


def test_our_own_stand_in_for_a_dead_node_is_no_other_program() -> None:
    def work(lab: Lab) -> None:
        keep_reaping(lab)
        how = ended(lab, kill)
        looking = threading.Thread(target=lab._knock, args=("kafka1", how))
        with probes.served(lab.network, "kafka1", 9092) as stand_in:
            assert stand_in is not None
            looking.start()
            looking.join(0.3)
        looking.join()
        assert told(lab, "no longer holds") == []
        assert lab.down == {"kafka1": how}

    in_a_lab(work)


@pytest.mark.proves("D1")
def test_a_disk_that_was_not_emptied_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = SPEC.broker(1)
    (tmp_path / node.name).mkdir()
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    with pytest.raises(CannotHere, match="could not be emptied"):
        Cluster.wipe(cast(Cluster, SimpleNamespace(_directory=SimpleNamespace(data=tmp_path))), node)


def keep_reaping(lab: Lab) -> None:
    """Reap children as the lab's first process does."""

    def reap() -> None:
        while True:
            lab.processes.reap()
            time.sleep(0.01)

    threading.Thread(target=reap, daemon=True).start()


def a_client(lab: Lab, argv: list[str]) -> int:
    asked(lab, run_verbs.spawn, process="producer1", node="client", argv=argv, output="/dev/null")
    process = lab.processes.get("producer1")
    assert process is not None
    return process.pid


@contextmanager
def ended_afterwards(lab: Lab, pid: int) -> Iterator[None]:
    """Yield the client, which leads a process group, and end all processes of that group afterwards."""
    try:
        yield
    finally:
        os.killpg(pid, signal.SIGKILL)
        wait_until(lambda: reaped(lab, "producer1"), "the client has ended")


@pytest.mark.proves("D1")
@pytest.mark.parametrize(
    ("kind", "said"), [("kill", "still there"), ("stop", "still there"), ("pause", "not every thread")]
)
def test_a_signal_without_effect_on_a_client_is_reported(kind: str, said: str) -> None:
    def work(lab: Lab) -> None:
        pid = a_client(lab, ["/bin/sleep", "60"])
        with ended_afterwards(lab, pid):
            with deaf(lab), pytest.raises(NotProved, match=said):
                disturb(lab, kind)
            assert (told(lab, "proved"), lab.active) == ([], {})

    in_a_lab(work)


@pytest.mark.proves("D1")
@pytest.mark.parametrize("heard", [False, True], ids=["ours", "of others"])
def test_a_pause_of_a_client_that_an_outsider_ended_is_reported(heard: bool) -> None:
    """For an external client, the process that its listener started is paused."""

    def work(lab: Lab) -> None:
        pid = a_client(lab, ["/bin/sh", "-c", "sleep 60; true"])
        with ended_afterwards(lab, pid):
            wait_until(lambda: bool(processes.below(pid)), "it has started its child")
            disturb(lab, "pause", heard=heard)
            keep_proving(lab)
            wait_until(lambda: bool(told(lab, "held")), "it is proved again")
            os.kill(processes.below(pid)[0] if heard else pid, signal.SIGCONT)
            wait_until(lambda: bool(told(lab, "no longer holds")), "the end of the pause is reported")
            assert "not every thread is stopped" in told(lab, "no longer holds")[0]["problem"]

    in_a_lab(work)


@pytest.mark.proves("D1")
@pytest.mark.parametrize("heard", [False, True], ids=["ours", "of others"])
def test_a_client_that_is_still_stopped_after_its_pause_was_healed_is_reported(heard: bool) -> None:
    def work(lab: Lab) -> None:
        pid = a_client(lab, ["/bin/sh", "-c", "sleep 60 & sleep 60; true"])
        with ended_afterwards(lab, pid):
            wait_until(lambda: len(processes.below(pid)) == 2, "it has started its child")
            those = processes.below(pid) if heard else [pid]
            disturb(lab, "pause", heard=heard)
            (name,) = lab.active
            standing = lab.mend(name)
            assert standing is not None
            for each in those:
                os.kill(each, signal.SIGSTOP)
            wait_until(lambda: all(map(processes.stopped_threads, those)), "they are stopped")
            processes.FREEZE_S = 0.2
            with pytest.raises(NotProved, match="producer1 is still stopped"):
                lab.prove_over(standing, "heal")
            for each in those:
                os.kill(each, signal.SIGCONT)
            assert lab.prove_over(standing, "heal") == "producer1 is running"

    in_a_lab(work)


@pytest.mark.proves("D1")
def test_if_one_of_several_clients_cannot_be_paused_none_stays_paused() -> None:
    def work(lab: Lab) -> None:
        def fails(*_: Any, **__: Any) -> None:
            raise NotProved("the next one is not stopped")

        pid = a_client(lab, ["/bin/sleep", "60"])
        with ended_afterwards(lab, pid):
            client_faults.wake_in_time = fails  # type: ignore[attr-defined]
            with pytest.raises(NotProved):
                disturb(lab, "pause", for_s=60.0)
            assert lab.active == {}
            wait_until(lambda: not processes.stopped_threads(pid), "it is awake")

    in_a_lab(work)


@pytest.mark.proves("A4")
@pytest.mark.parametrize("heard", [False, True], ids=["ours", "of others"])
def test_a_client_that_is_paused_for_a_time_wakes_by_itself(heard: bool, tmp_path: Path) -> None:
    def work(lab: Lab) -> None:
        pid = a_client(lab, ["/bin/sh", "-c", "sleep 60 & sleep 60; true"])
        directory = SimpleNamespace(events=tmp_path / "events.jsonl", supervisor_log=tmp_path / "supervisor.log")
        with ended_afterwards(lab, pid):
            wait_until(lambda: len(processes.below(pid)) == 2, "it has started its child")
            disturb(lab, "pause", heard=heard, directory=directory, for_s=1.0)
            those = processes.below(pid) if heard else [pid]
            assert [processes.stopped_threads(each) for each in those] == [True] * len(those)
            wait_until(lambda: not any(map(processes.stopped_threads, those)), "all of them are awake")
            wait_until(lambda: '"watchdog"' in text_of(directory.events), "the watchdog says so")

    in_a_lab(work)


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


# -- from the lab's trail to the judge -------------------------------------------------------------------------------


@contextmanager
def a_run(lab: Lab, *faults_of_run: Fault) -> Iterator[RunExecution]:
    """Return a run of a scenario with one fault, in this lab."""
    scenario = load(find("acks1-leader-isolated"))
    scenario = replace(scenario, faults=[*faults_of_run] or scenario.faults)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        wanted = RunRequest(
            given=scenario.name, scenario=scenario, mode="zookeeper", shape="base", seed=1, out=directory, keep=False,
            judged=False, kafka=None, settings=[],
        )  # fmt: skip
        record = new_record(wanted, SPEC, directory)
        write_record(directory, record)
        ongoing = RunExecution(scenario, record, directory, "none", lambda _: None)
        ongoing._trail = LabTrail(lab.events)
        yield ongoing


def what_the_judge_says(ongoing: RunExecution) -> tuple[list[str], bool, str]:
    """Return what the journal says of the fault, whether the run is evidence, and the sentence about it."""
    ongoing.close()
    with opened(ongoing.directory) as source:
        (line,) = fault_fitness.faults(Evidence(source, [], {}, {}, {}))
        return [row["event"] for row in source.small["faults"]], line.fit, line.text.partition(") ")[2]


@pytest.mark.proves("D1")
@pytest.mark.parametrize("sabotaged", [True, False])
def test_a_fault_that_no_longer_holds_reaches_the_judge_by_the_runs_journal(sabotaged: bool) -> None:
    def work(lab: Lab) -> None:
        with a_run(lab) as ongoing:
            other, standing, (fault,) = cut(lab), cut(lab), ongoing.faults
            control.call = lambda *_, **__: {"faults": [standing.name], "nodes": ["kafka1"], "said": ["severed"]}
            fault.begin()
            lab._look_after(standing)
            ongoing.follow_lab()
            lab.end(other.name)
            if sabotaged:
                remove_rules(lab.network)
            lab._look_after(standing)
            control.call = lambda *_, **__: {"said": ["open again"]}
            fault.end()
            events, fit, text = what_the_judge_says(ongoing)
            assert events == ["asked", "proved", *["broken"] * sabotaged, "healing", "healed"]
            assert fit is not sabotaged
            if sabotaged:
                when_and_what = r"did not hold all the time: \d+\.\d s after its proof, still reachable: kafka1 →"
                assert re.match(when_and_what, text)
            else:
                assert text == "was proved and healed."

    in_a_lab(work)


@pytest.mark.proves("D1")
@pytest.mark.parametrize("sabotaged", [True, False])
def test_a_program_that_served_for_a_dead_node_for_a_while_reaches_the_judge_by_the_runs_journal(
    sabotaged: bool,
) -> None:
    def work(lab: Lab) -> None:
        with a_run(lab, Kill(["kafka1"], at_messages=1)) as ongoing:
            keep_reaping(lab)
            control.call = lambda *_, **__: asked(lab, kill, nodes=["kafka1"])
            ongoing.faults[0].begin()
            keep_proving(lab)
            if sabotaged:
                with started_by_an_outsider(lab, lab.cluster.nodes["kafka1"]):
                    wait_until(lambda: bool(told(lab, "no longer holds")), "the other program is reported")
            else:
                time.sleep(0.5)
            events, fit, text = what_the_judge_says(ongoing)
            assert events == ["asked", "proved", "healed", *["broken"] * sabotaged]
            assert (fit, ongoing.doubts() == ["fault 1 did not hold"]) == (not sabotaged, sabotaged)
            assert ("but another process serves on its port 9092" in text) is sabotaged

    in_a_lab(work)


@pytest.mark.proves("D1")
def test_a_fault_without_a_proof_reaches_the_judge_by_the_runs_journal() -> None:
    def work(lab: Lab) -> None:
        def refused(*_: Any, **__: Any) -> dict[str, Any]:
            raise NotProved("kafka1 is still there")

        with a_run(lab) as ongoing:
            control.call = refused
            ongoing.faults[0].begin()
            assert ongoing.faults[0].over
            assert what_the_judge_says(ongoing) == (
                ["asked", "not proved"],
                False,
                "was not proved: kafka1 is still there.",
            )

    in_a_lab(work)


@pytest.mark.proves("D1")
@pytest.mark.parametrize(
    ("ours", "came", "fit"),
    [(False, None, False), (False, "refused", True), (False, "failed", False), (True, None, True)],
)
def test_a_command_of_an_outsider_reaches_the_judge_by_the_runs_record(ours: bool, came: str | None, fit: bool) -> None:
    def work(lab: Lab) -> None:
        with a_run(lab) as ongoing:
            by = f"root, pid {os.getpid() if ours else os.getppid()}"
            who = {"verb": "start", "asked": "ackproof start kafka1", "by": by}
            lab.events.add("asked", **who)
            if came:
                lab.events.add(came, **who, problem="kafka1 runs")
            ongoing.close()
            assert ongoing.doubts() == ([] if fit else ["a command that is not part of the run changed the lab"])
            with opened(ongoing.directory) as source:
                lines = interference.others(Evidence(source, [], {}, {}, {}))
            told = f"A command that is not part of the run changed the lab: ackproof start kafka1 ({by})."
            assert [(line.fit, line.text) for line in lines] == [(False, told)] * (not fit)

    in_a_lab(work)


@pytest.mark.proves("D1")
@pytest.mark.parametrize(
    ("problem", "event"),
    [(UsageProblem, "refused"), (Refused, "refused"), (NotProved, "failed"), (CannotHere, "failed")],
)
def test_a_command_that_never_began_differs_from_one_that_failed(
    problem: type[Problem], event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`stop --timeout 1s` of a broker that takes longer has sent its signal before it fails."""

    def work(lab: Lab) -> None:
        def fails(*_: Any) -> Any:
            raise problem("kafka3 is still there")

        monkeypatch.setitem(verbs.VERBS, "stop", fails)
        server: Any = SimpleNamespace(lab=lab)
        with pytest.raises(problem):
            verbs.Server._do(server, "stop", {"asked": "stop kafka3", "by": "root"}, None, None)  # type: ignore[arg-type]
        assert [each["event"] for each in lab.events.read()] == ["asked", event]

    in_a_lab(work)


def test_a_proof_that_breaks_in_an_unforeseen_way_does_not_end_the_proving_of_others() -> None:
    def work(lab: Lab) -> None:
        def breaks() -> str:
            raise KeyError("198.18.1.9")

        @contextmanager
        def fault() -> Iterator[FaultProof]:
            yield FaultProof("held", breaks, breaks)

        standing = lab.begin("f0", "odd", ["kafka1"], fault())
        lab._look_after(standing)
        assert standing.broken is not None

    in_a_lab(work)


@pytest.mark.proves("A4")
def test_a_fault_with_a_duration_ends_in_the_kernel_and_the_audit_log_says_so() -> None:
    def work(lab: Lab) -> None:
        before = rule_set(lab.network)
        keep_proving(lab)
        standing = cut(lab, for_s=0.5)
        assert (standing.told().left_s or 0) > 0
        wait_until(lambda: bool(told(lab, "healed")), "the fault has ended")
        assert standing.until is not None
        over_ns = int(standing.until * 1e9)
        assert [(each["by"], each["over_ns"]) for each in told(lab, "healed")] == [("the kernel", over_ns)]
        assert not told(lab, "no longer holds")
        assert rule_set(lab.network) == before

    in_a_lab(work)


def test_healing_is_proved_and_reported_and_healing_twice_does_no_harm() -> None:
    def work(lab: Lab) -> None:
        first, second = cut(lab), cut(lab)
        assert "other faults still stand" in lab.end(first.name)
        assert "open again" in lab.end(second.name)
        assert "over already" in lab.end(second.name)
        assert len(told(lab, "healed")) == 2

    in_a_lab(work)


def test_an_unknown_fault_cannot_be_healed() -> None:
    def work(lab: Lab) -> None:
        standing = cut(lab)
        with pytest.raises(UsageProblem, match=rf"no fault f99 is active; active are: {standing.name}"):
            lab.find(["f99"])
        assert lab.find([]) == [standing.name]

    in_a_lab(work)


def test_a_link_that_stays_cut_after_healing_is_reported_as_not_healed() -> None:
    def work(lab: Lab) -> None:
        standing = cut(lab)
        lab.network.rules.add("stray", Match(), [lab.network._addresses(link) for link in LINKS])
        with pytest.raises(NotProved, match="nothing gets through"):
            lab.end(standing.name)
        assert told(lab, "not healed")

    in_a_lab(work)


@pytest.mark.proves("D2")
def test_a_node_that_dies_by_itself_is_reported_and_a_killed_one_is_not() -> None:
    def work(lab: Lab) -> None:
        lab.processes.send("kafka1", signal.SIGKILL, ends=True)
        process = lab.processes.get("kafka2")
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: reaped(lab, *lab.cluster.nodes), "both have ended")
        assert {each["node"]: each["by_itself"] for each in told(lab, "exited")} == {"kafka1": False, "kafka2": True}
        assert lab.processes.wait_for_exit("kafka2", time.monotonic())

    in_a_lab(work)


@pytest.mark.proves("D2")
def test_a_port_relay_that_dies_by_itself_is_reported_and_one_that_the_lab_ended_is_not() -> None:
    """Without its relay a broker cannot be reached from the host. The end of other helpers does not matter to a run."""

    def work(lab: Lab) -> None:
        namespace = lab.network.endpoints["kafka1"].namespace
        names = ("relay-kafka1", "relay-kafka2", "watchdog-f1")
        for name in names:
            argv = ["/bin/sleep", "600"]
            lab.processes.spawn(name, argv, namespace=namespace, output=Path("/dev/null"), environment={})
        for name in ("relay-kafka1", "watchdog-f1"):
            process = lab.processes.get(name)
            assert process is not None
            os.kill(process.pid, signal.SIGKILL)
        lab.processes.send("relay-kafka2", signal.SIGKILL, ends=True)
        wait_until(lambda: reaped(lab, *names), "all have ended")
        assert [(each["node"], each["by_itself"]) for each in told(lab, "exited")] == [("relay-kafka1", True)]
        assert [each["helper"] for each in told(lab, "helper failed")] == ["watchdog-f1"]

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
        for _ in range(50):  # each in a thread of its own, like every command
            thread = threading.Thread(target=one)
            thread.start()
            thread.join()
        assert descriptors() == before

    in_a_lab(work)


def test_a_full_cut_on_top_of_a_cut_of_new_connections_breaks_neither() -> None:
    def work(lab: Lab) -> None:
        name, match = lab.next_name(), Match(new_connections=True)
        fault = links.severed(lab.network, name, sorted(LINKS), match)
        first = lab.begin(name, "cut", ["kafka1", "kafka2"], fault, links=LINKS, match=match)
        second = cut(lab)
        first.proof.prove()
        lab.end(second.name)
        first.proof.prove()

    in_a_lab(work)
