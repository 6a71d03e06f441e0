"""The verbs that change a node's process: kill, stop, start, restart, pause, resume, add, and reset for all at once.

kill, stop      proved by the process's own end as its parent sees it, and by its port: the node's kernel refuses,
                so the node is reached and nobody serves there; and that again every second until it is started
start           proved by its answer; a broker's own metadata lists it
pause, resume   proved by the state of every thread, and by silence, or an answer, to a question
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ackproof.core.errors import CannotHere, NotProved, UsageProblem
from ackproof.core.sites import RELAY
from ackproof.host.memory import check_memory
from ackproof.host.own_program import own_program
from ackproof.host.processes import wait_until
from ackproof.lab import node_config as config
from ackproof.lab.cluster import START_S
from ackproof.lab.faults.network import Held
from ackproof.lab.network import probes
from ackproof.lab.spec import Node

if TYPE_CHECKING:
    from ackproof.lab.faults.active import Lab, Standing
    from ackproof.lab.server.commands import Request, Server

KILL_S = 10.0
STOP_S = 30.0
PAUSE_S = 5.0
_SILENCE_S = 0.1  # a node that answered in less than this before does not answer now

Result = dict[str, Any]


def _nodes(server: Server, request: Request, allowed: tuple[str, ...], verb: str) -> list[Node]:
    """The nodes meant, all of them in a state that the verb can start from; else nothing is touched."""
    names = [name for text in request.get("nodes") for name in server.lab_names(text)]
    nodes = [server.lab.cluster.nodes[name] for name in dict.fromkeys(names)]
    for node in nodes:
        if node.role == "client":
            raise UsageProblem(f"client is a namespace for your programs, not a server: there is nothing to {verb}")
        state = server.lab.processes.state(node.name)
        if state not in allowed:
            raise UsageProblem(f"{node.name} is {state}: {verb} takes a node that is {' or '.join(allowed)}")
    return nodes


def kill(server: Server, request: Request) -> Result:
    with server.lab.turn:
        nodes = _nodes(server, request, ("running", "paused"), "kill")
        for node in nodes:
            server.lab.processes.send(node.name, signal.SIGKILL, ends=True)
    said = [_gone(server.lab, node, KILL_S, "SIGKILL") for node in nodes]
    return {"nodes": [node.name for node in nodes], "said": said}


def stop(server: Server, request: Request) -> Result:
    with server.lab.turn:
        nodes = _nodes(server, request, ("running",), "stop")
        for node in nodes:
            server.lab.processes.send(node.name, signal.SIGTERM, ends=True)
    said = [_gone(server.lab, node, request.get("timeout_s") or STOP_S, "SIGTERM") for node in nodes]
    return {"nodes": [node.name for node in nodes], "said": said}


def _gone(lab: Lab, node: Node, timeout_s: float, how: str) -> str:
    if not lab.processes.wait_for_exit(node.name, time.monotonic() + timeout_s):
        raise NotProved(
            f"{node.name} is still there {timeout_s:.0f} s after {how} (a broker that reaches no controller hangs in "
            f"its controlled shutdown): `ackproof kill {node.name}` ends it"
        )
    _prove_refused(lab, node)
    lab.keep_down(node.name)
    end_pause(lab, node.name)
    proof = f"{node.name}: {lab.processes.last_exit(node.name)}, and its port {node.port} refuses"
    lab.events.add("proved", kind="kill" if how == "SIGKILL" else "stop", targets=[node.name], proof=proof)
    return proof


def _prove_refused(lab: Lab, node: Node) -> None:
    """A node without a process is reached, and nobody serves there."""
    try:
        with lab.network.lock:  # a proof of ours may listen there in the node's place
            socket.create_connection((node.address, node.port), timeout=1).close()
    except ConnectionRefusedError:
        return
    except OSError as problem:
        raise NotProved(f"{node.name} is gone, but so is its network: {problem}") from problem
    raise NotProved(f"{node.name} is gone, and yet somebody serves on its port {node.port}")


def start(server: Server, request: Request) -> Result:
    with server.lab.turn:
        if request.get("nodes"):
            nodes = _nodes(server, request, ("down",), "start")
        else:
            nodes = [node for node in server.lab.cluster.servers if server.lab.processes.state(node.name) == "down"]
    if not nodes:
        return {"nodes": [], "said": ["no node is down"]}
    return _launch(server, request, nodes)


def _launch(server: Server, request: Request, nodes: list[Node]) -> Result:
    for node in nodes:
        _prove_refused(server.lab, node)  # else an answer would prove nothing
    if request.get("wait", True):
        for node in nodes:
            server.lab.cluster.wait_until_forgotten(node, request.progress)
    with server.lab.turn:
        for node in nodes:
            if server.lab.processes.get(node.name) is not None:
                raise NotProved(f"{node.name} was started by somebody else meanwhile")
            server.lab.launch(node)
    return _started(server, request, nodes)


def _started(server: Server, request: Request, nodes: list[Node]) -> Result:
    names = [node.name for node in nodes]
    if request.get("wait", True):
        timeout_s = request.get("timeout_s") or START_S
        try:
            server.lab.cluster.wait_until_serving(names, request.progress, timeout_s, everyone=False)
        except CannotHere:
            for name in names:
                server.lab.processes.send(name, signal.SIGKILL, ends=True)
            raise
    said = [f"{name}: {'serves' if request.get('wait', True) else 'started, not waited for'}" for name in names]
    server.lab.events.add("proved", kind="start", targets=names, proof="; ".join(said))
    return {"nodes": names, "said": said}


def restart(server: Server, request: Request) -> Result:
    asked = _nodes(server, request, ("running",), "restart")
    if request.get("add_log_dir") and (others := [node.name for node in asked if node.role != "broker"]):
        raise UsageProblem(f"{', '.join(others)}: only a broker has log directories to add to")
    ended = kill(server, request) if request.get("kill") else stop(server, request)
    nodes = [server.lab.cluster.nodes[name] for name in ended["nodes"]]
    if request.get("wipe"):
        for node in nodes:
            server.lab.cluster.wipe(node)
            ended["said"].append(f"{node.name}: its disk is empty")
    if request.get("add_log_dir"):
        for node in nodes:
            server.lab.cluster.add_log_dir(node)
    begun = _launch(server, request, nodes)
    return {"nodes": ended["nodes"], "said": [*ended["said"], *begun["said"]]}


# -- pause -----------------------------------------------------------------------------------------------------------


def pause(server: Server, request: Request) -> Result:
    lab, for_s = server.lab, request.get("for_s")
    with lab.turn:
        nodes = _nodes(server, request, ("running",), "pause")
        answered = {node.name: lab.cluster.state.answers(node) for node in nodes}
        for node in nodes:  # all at one moment; proved one after the other
            lab.processes.send(node.name, signal.SIGSTOP)
        standing: list[Standing] = []
        try:
            for node in nodes:
                held = _paused(lab, node, answered[node.name])
                standing.append(lab.begin(lab.next_name(), "pause", [node.name], held, for_s=for_s))
        except BaseException:  # none of them, if not all of them
            for each in standing:
                lab.mend(each.name)
            for node in nodes:
                lab.processes.send(node.name, signal.SIGCONT)
            raise
        for each in standing:
            wake_in_time(server, each)
    return {
        "nodes": [node.name for node in nodes],
        "faults": [each.name for each in standing],
        "said": [f"{each.name}: pause {each.targets[0]}: {each.held.proved}" for each in standing],
    }


@contextmanager
def _paused(lab: Lab, node: Node, answered: bool) -> Iterator[Held]:
    with lab.processes.frozen(node.name) as (prove_stopped, prove_over):

        def prove() -> str:
            stopped = prove_stopped()
            if node.name not in probes.observer_reaches(lab.network, [node.name]):
                raise NotProved(f"the observer does not reach {node.name}, so its silence proves nothing")
            return f"{stopped}; its node is reached"

        stopped = prove()
        # Asked once: each question that nobody takes stays in the paused program's queue, and would fill it.
        if lab.cluster.state.answers(node, _SILENCE_S):
            raise NotProved(f"{node.name} is stopped and answers all the same")
        before = "it answered before and does not now" if answered else "it did not answer before either"
        yield Held(f"{stopped}; {before}", prove, prove_over)


def resume(server: Server, request: Request) -> Result:
    """The nodes that are named, or whatever is paused."""
    lab, said = server.lab, []
    with lab.turn:
        if request.get("nodes"):
            nodes = _nodes(server, request, ("paused",), "resume")
        else:
            nodes = [node for node in lab.cluster.nodes.values() if lab.processes.state(node.name) == "paused"]
        for node in nodes:
            if not end_pause(lab, node.name):
                lab.processes.send(node.name, signal.SIGCONT)
    for node in nodes:
        if not wait_until(lambda node=node: lab.processes.state(node.name) == "running", PAUSE_S):  # type: ignore[misc]
            raise NotProved(f"{node.name} is still {lab.processes.state(node.name)} after SIGCONT")
        answers = wait_until(lambda node=node: lab.cluster.state.answers(node), PAUSE_S)  # type: ignore[misc]
        said.append(f"{node.name}: runs again" + (" and answers" if answers else ", but does not answer yet"))
    return {"nodes": [node.name for node in nodes], "said": said or ["no node is paused"]}


def end_pause(lab: Lab, node: str) -> bool:
    """Close the pause that stands on a node, if one does: it was resumed, or its process is gone."""
    with lab.turn:
        names = [name for name, fault in lab.standing.items() if fault.kind == "pause" and fault.targets == [node]]
    for name in names:
        lab.end(name, by="resume" if lab.processes.get(node) else "the end of its process")
    return bool(names)


def wake_in_time(server: Server, standing: Standing, *, heard: bool = False) -> None:
    """Of a pause with a time. `heard`: what a listener started, in its place."""
    processes = server.lab.processes
    if standing.until is not None:
        with processes.handles(standing.targets[0], heard=heard) as handles:
            descriptors = dict(enumerate(handles, start=200))
            start_watchdog(server, standing, ["resume", *map(str, descriptors)], descriptors)


def start_watchdog(server: Server, standing: Standing, action: list[str], descriptors: dict[int, int]) -> None:
    """A small process that ends the fault on time even if we are stopped."""
    server.lab.processes.spawn(
        f"watchdog-{standing.name}",
        own_program(
            "ackproof.lab.server.fault_timer", str(standing.until), str(server.directory.events), standing.name, *action
        ),
        namespace=server.lab.network.router_namespace,
        output=server.directory.supervisor_log,
        environment=os.environ,
        descriptors=descriptors,
    )


# -- the lab as a whole ----------------------------------------------------------------------------------------------


def add(server: Server, request: Request) -> Result:
    """One more broker; where it will not start, it is as if it had never been."""
    lab = server.lab
    with lab.turn:
        if blind := [name for name, fault in lab.standing.items() if fault.kind in ("partition", "flaky")]:
            raise UsageProblem(f"{', '.join(blind)} would not know the new broker: heal first, then add")
        check_memory(config.MEMORY_MB["broker"])
        node = lab.cluster.next_broker()
        lab.cluster.adopt(node)
        server.start_relay(node.name)
        lab.launch(node)
    try:
        result = _started(server, request, [node])
    except CannotHere:
        lab.processes.wait_for_exit(node.name, time.monotonic() + KILL_S)
        lab.processes.send(f"{RELAY}{node.name}", signal.SIGKILL, ends=True)
        lab.cluster.forget(node)
        raise
    return result


def reset(server: Server, request: Request) -> Result:
    """The same nodes with empty disks, and no fault."""
    lab = server.lab
    with lab.turn:
        for name in list(lab.standing):
            with suppress(NotProved):  # told in the trail; what was mended is mended
                lab.end(name, by="reset")
        servers = lab.cluster.servers
        for node in servers:
            lab.processes.send(node.name, signal.SIGKILL, ends=True)
        deadline = time.monotonic() + KILL_S
        if left := [node.name for node in servers if not lab.processes.wait_for_exit(node.name, deadline)]:
            raise NotProved(f"{', '.join(left)} did not end")
        for node in servers:
            lab.cluster.wipe(node)
            lab.launch(node)
    names = [node.name for node in servers]
    lab.cluster.wait_until_serving(names, request.progress, everyone=True)
    lab.events.add("reset", nodes=names)
    return {"nodes": names, "said": [f"{len(names)} nodes serve, with empty disks"]}
