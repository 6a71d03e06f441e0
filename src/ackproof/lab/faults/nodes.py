"""The faults of the nodes' processes: kill, stop, start, restart, replace, add a directory, pause; and resume.

kill, stop      proved by the process's own end as its parent sees it, and by its port: the node's kernel refuses,
                so the node is reached and nothing serves there; and that again every second until it is started
start           proved by its answer; a broker's own metadata lists it
pause, resume   proved by the state of every thread, and by silence, or an answer, to a question
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ackproof.core.errors import CannotHere, NotProved, UsageProblem
from ackproof.host.processes import wait_until
from ackproof.lab.cluster import START_S
from ackproof.lab.faults.active import ActiveFault, Lab
from ackproof.lab.faults.injection import FaultResult, Injection
from ackproof.lab.faults.proof import FaultProof
from ackproof.lab.network import probes
from ackproof.lab.spec import Node
from ackproof.model import faults

KILL_S = 10.0
STOP_S = 30.0
PAUSE_S = 5.0
_SILENCE_S = 0.1  # a node that answered in less than this before does not answer now


def kill(how: Injection, fault: faults.Kill) -> FaultResult:
    return _end(how, fault.targets, fault.kind)


def stop(how: Injection, fault: faults.Stop) -> FaultResult:
    return _end(how, fault.targets, fault.kind)


def _end(how: Injection, targets: Sequence[str], kind: str) -> FaultResult:
    lab, kills = how.lab, kind == "kill"
    with lab.turn:
        nodes = how.nodes(targets, ("running", "paused") if kills else ("running",), kind)
        for node in nodes:
            lab.processes.send(node.name, signal.SIGKILL if kills else signal.SIGTERM, ends=True)
    timeout_s = KILL_S if kills else how.timeout_s or STOP_S
    return FaultResult([node.name for node in nodes], [_prove_gone(lab, node, timeout_s, kind) for node in nodes])


def _prove_gone(lab: Lab, node: Node, timeout_s: float, kind: str) -> str:
    if not lab.processes.wait_for_exit(node.name, time.monotonic() + timeout_s):
        sent = "SIGKILL" if kind == "kill" else "SIGTERM"
        raise NotProved(
            f"{node.name} is still there {timeout_s:.0f} s after {sent} (a broker that reaches no controller hangs in "
            f"its controlled shutdown): `ackproof kill {node.name}` ends it"
        )
    _prove_refused(lab, node)
    lab.keep_down(node.name)
    end_pause(lab, node.name)
    proof = f"{node.name}: {lab.processes.last_exit(node.name)}, and its port {node.port} refuses"
    lab.events.add("proved", kind=kind, targets=[node.name], proof=proof)
    return proof


def _prove_refused(lab: Lab, node: Node) -> None:
    """Prove that a node without a process is reached, and that nothing serves there."""
    try:
        with lab.network.lock:  # a proof of ours may listen there in the node's place
            socket.create_connection((node.address, node.port), timeout=1).close()
    except ConnectionRefusedError:
        return
    except OSError as problem:
        raise NotProved(f"{node.name} is gone, but so is its network: {problem}") from problem
    raise NotProved(f"{node.name} is gone, but another process serves on its port {node.port}")


# -- start -----------------------------------------------------------------------------------------------------------


def start(how: Injection, fault: faults.Start) -> FaultResult:
    with how.lab.turn:
        nodes = how.nodes(fault.targets, ("down",), fault.kind)
    return launch(how, nodes)


def launch(how: Injection, nodes: Sequence[Node]) -> FaultResult:
    """Start nodes that are down, and prove that they serve."""
    lab = how.lab
    for node in nodes:
        _prove_refused(lab, node)  # else an answer would prove nothing
    if how.wait:
        for node in nodes:
            lab.cluster.wait_until_forgotten(node, how.progress)
    with lab.turn:
        for node in nodes:
            if lab.processes.get(node.name) is not None:
                raise NotProved(f"{node.name} was started by another command meanwhile")
            lab.launch(node)
    return prove_started(how, nodes)


def prove_started(how: Injection, nodes: Sequence[Node]) -> FaultResult:
    """Prove that nodes serve which were just started; if they do not in time, end them."""
    lab, names = how.lab, [node.name for node in nodes]
    if how.wait:
        try:
            lab.cluster.wait_until_serving(names, how.progress, how.timeout_s or START_S, everyone=False)
        except CannotHere:
            for name in names:
                lab.processes.send(name, signal.SIGKILL, ends=True)
            raise
    said = [f"{name}: {'serves' if how.wait else 'started, not waited for'}" for name in names]
    lab.events.add("proved", kind="start", targets=names, proof="; ".join(said))
    return FaultResult(names, said)


def restart(how: Injection, fault: faults.Restart) -> FaultResult:
    return restart_with(how, fault.targets)


def replace(how: Injection, fault: faults.Replace) -> FaultResult:
    return restart_with(how, fault.targets, kills=True, wipe=True)


def add_directory(how: Injection, fault: faults.AddDirectory) -> FaultResult:
    return restart_with(how, fault.targets, add_log_dir=True)


def restart_with(
    how: Injection, targets: Sequence[str], *, kills: bool = False, wipe: bool = False, add_log_dir: bool = False
) -> FaultResult:
    cluster = how.lab.cluster
    asked = how.nodes(targets, ("running",), "restart")
    if add_log_dir and (others := [node.name for node in asked if node.role != "broker"]):
        raise UsageProblem(f"{', '.join(others)}: only a broker has log directories to add to")
    ended = _end(how, targets, "kill" if kills else "stop")
    nodes = [cluster.nodes[name] for name in ended.nodes]
    if wipe:
        for node in nodes:
            cluster.wipe(node)
            ended.said.append(f"{node.name}: its disk is empty")
    if add_log_dir:
        for node in nodes:
            cluster.add_log_dir(node)
    return FaultResult(ended.nodes, [*ended.said, *launch(how, nodes).said])


# -- pause -----------------------------------------------------------------------------------------------------------


def pause(how: Injection, fault: faults.Pause) -> FaultResult:
    lab = how.lab
    with lab.turn:
        nodes = how.nodes(fault.targets, ("running",), fault.kind)
        answered = {node.name: lab.cluster.state.answers(node) for node in nodes}
        for node in nodes:  # all at one moment; proved one after the other
            lab.processes.send(node.name, signal.SIGSTOP)
        active: list[ActiveFault] = []
        try:
            for node in nodes:
                held = paused(lab, node, answered[node.name])
                active.append(lab.begin(lab.next_name(), fault.kind, [node.name], held, for_s=how.for_s))
        except BaseException:  # if one of them cannot be paused, none stays paused
            for each in active:
                lab.mend(each.name)
            for node in nodes:
                lab.processes.send(node.name, signal.SIGCONT)
            raise
        for each in active:
            wake_in_time(how, each)
    said = [f"{each.name}: pause {each.targets[0]}: {each.proof.proved}" for each in active]
    return FaultResult([node.name for node in nodes], said, active)


@contextmanager
def paused(lab: Lab, node: Node, answered: bool) -> Iterator[FaultProof]:
    """Stop a node's process. `answered` says whether it answered before."""
    with lab.processes.frozen(node.name) as (prove_stopped, prove_over):

        def prove() -> str:
            stopped = prove_stopped()
            if node.name not in probes.observer_reaches(lab.network, [node.name]):
                raise NotProved(f"the observer does not reach {node.name}, so its silence proves nothing")
            return f"{stopped}; its node is reached"

        stopped = prove()
        # Asked once: each unread question stays in the paused program's queue, and many of them would fill it.
        if lab.cluster.state.answers(node, _SILENCE_S):
            raise NotProved(f"{node.name} is stopped, but still answers")
        before = "it answered before and does not now" if answered else "it did not answer before either"
        yield FaultProof(f"{stopped}; {before}", prove, prove_over)


def resume(lab: Lab, nodes: Sequence[Node]) -> FaultResult:
    """Let paused nodes go on, and prove that they run."""
    said = []
    with lab.turn:
        for node in nodes:
            if not end_pause(lab, node.name):
                lab.processes.send(node.name, signal.SIGCONT)
    for node in nodes:
        if not wait_until(lambda node=node: lab.processes.state(node.name) == "running", PAUSE_S):  # type: ignore[misc]
            raise NotProved(f"{node.name} is still {lab.processes.state(node.name)} after SIGCONT")
        answers = wait_until(lambda node=node: lab.cluster.state.answers(node), PAUSE_S)  # type: ignore[misc]
        said.append(f"{node.name}: runs again" + (" and answers" if answers else ", but does not answer yet"))
    return FaultResult([node.name for node in nodes], said)


def end_pause(lab: Lab, node: str) -> bool:
    """End the pause that stands on a node, if one does: it was resumed, or its process is gone."""
    with lab.turn:
        names = [name for name, each in lab.active.items() if each.kind in faults.FREEZE and each.targets == [node]]
    for name in names:
        lab.end(name, by="resume" if lab.processes.get(node) else "the end of its process")
    return bool(names)


def wake_in_time(how: Injection, active: ActiveFault, *, heard: bool = False) -> None:
    """Start the timer of a pause that has a time. `heard`: of what a listener started, in the listener's place."""
    if active.until is not None:
        with how.lab.processes.handles(active.targets[0], heard=heard) as handles:
            descriptors = dict(enumerate(handles, start=200))
            how.start_timer(active, ["resume", *map(str, descriptors)], descriptors)
