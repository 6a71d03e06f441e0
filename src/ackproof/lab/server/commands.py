"""The commands that a running lab answers, one function each, and the server that answers on the control socket.

A request is one line of JSON, `{"verb": ..., "asked": "the command as typed", ...arguments}`; the answer is any number
of `{"progress": ...}` lines and then `{"ok": {...}}` or `{"problem": [exit code, message, details]}`. Each command
proves its effect before it answers, and `said` has in words what was proved.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from ackproof.core.errors import Problem, Refused, UsageProblem
from ackproof.core.sites import FIRST_SITE
from ackproof.host.processes import resident_mb
from ackproof.lab import answers
from ackproof.lab.directory import LabDirectory, Started
from ackproof.lab.faults import injection
from ackproof.lab.faults.active import Lab
from ackproof.lab.faults.injection import Injection
from ackproof.lab.network import probes
from ackproof.lab.network.router import OBSERVER
from ackproof.lab.requests import Inject, OfFaults, OfPartitions, OfStatus, OneNode, Target
from ackproof.lab.roles import resolvers
from ackproof.lab.server import node_commands as node_verbs
from ackproof.lab.server import run_commands as run_verbs
from ackproof.lab.server.answers import Groups, NodeState, Partitions, Status
from ackproof.lab.targets import resolve
from ackproof.lab.topology import groups_of
from ackproof.model.fault import kind_of
from ackproof.model.faults import Partition

REQUEST_BYTES_MAX = 1 << 20

Kind = TypeVar("Kind")


class Request:
    """One command that goes on: its arguments, and the line back to the caller."""

    def __init__(self, arguments: Mapping[str, object], tell: Callable[[str], None]) -> None:
        self._arguments = arguments
        self.progress = tell

    def as_struct(self, kind: type[Kind]) -> Kind:
        return msgspec.convert(self._arguments, kind)


class Server:
    def __init__(self, lab: Lab, directory: LabDirectory, started: Started, start_relay: Callable[[str], None]) -> None:
        self.lab = lab
        self.started = started
        self.directory = directory
        self.start_relay = start_relay
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # A socket's path may have at most 107 bytes; through a descriptor the folder's path may be longer.
        folder = os.open(directory.path, os.O_PATH | os.O_DIRECTORY)
        before = os.umask(0o177)
        self._socket.bind(f"/proc/self/fd/{folder}/{directory.socket.name}")
        os.umask(before)
        os.close(folder)
        self._socket.listen(64)

    def serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        def tell(**facts: Any) -> None:
            with suppress(OSError):  # the caller may be gone; the command is done all the same
                connection.sendall(msgspec.json.encode(facts) + b"\n")

        with connection:
            try:
                arguments = _receive(connection)
                verb = str(arguments.pop("verb", ""))
                result = self._do(verb, arguments, connection, lambda said: tell(progress=said))
                tell(ok=result)
                if verb == "down":
                    os._exit(0)
            except Problem as problem:
                tell(problem=[problem.exit_code, problem.message, problem.details])
            except Exception as problem:  # noqa: BLE001  # a command that fails must not end the lab
                traceback.print_exc()
                tell(
                    problem=[70, f"the lab's supervisor failed: {problem!r}", traceback.format_exc().splitlines()[-6:]]
                )

    def _do(
        self, verb: str, arguments: Mapping[str, object], connection: socket.socket, tell: Callable[[str], None]
    ) -> msgspec.Struct:
        if verb == "enter":
            return self._enter(connection, msgspec.convert(arguments, OneNode).node)
        if verb not in VERBS:
            raise UsageProblem(f"the lab knows no verb {verb!r}")
        fault = arguments.get("fault") if verb == "inject" else None
        done = fault.get("kind", verb) if isinstance(fault, dict) else verb
        who = {"verb": done, "asked": arguments.get("asked"), "by": arguments.get("by")}
        if verb not in READS:
            self.lab.events.add("asked", **who)
        try:
            return VERBS[verb](self, Request(arguments, tell))
        except Problem as problem:
            if verb not in READS:  # a refused command had no effect; a failed command may have had some
                event = "refused" if isinstance(problem, UsageProblem | Refused) else "failed"
                self.lab.events.add(event, **who, problem=problem.message)
            raise

    def _enter(self, connection: socket.socket, node: str) -> answers.Entered:
        """Hand over the namespaces of a node, so that the caller can run a program there."""
        endpoints = self.lab.network.endpoints
        if node != OBSERVER:
            (node,) = self.lab_names(node, one=True)
        opened = [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in ("user", "mnt", "pid")]
        network = os.open("/proc/1/ns/net", os.O_RDONLY) if node == OBSERVER else os.dup(endpoints[node].namespace)
        try:
            socket.send_fds(connection, [b"\n"], [*opened, network])
        finally:
            for descriptor in (*opened, network):
                os.close(descriptor)
        return answers.Entered(node)

    def injection(self, request: Request, **how: Any) -> Injection:
        return Injection(self.lab, self.directory, progress=request.progress, **how)

    def lab_names(self, text: str, one: bool = False) -> list[str]:
        names = resolve(text, self.lab.network.names(), resolvers(self.lab.cluster.state))
        if one and len(names) != 1:
            raise UsageProblem(f"{text} is {len(names)} nodes ({', '.join(names)}): name one")
        return names


def _receive(connection: socket.socket) -> dict[str, object]:
    data = b""
    while not data.endswith(b"\n"):
        part = connection.recv(65536)
        if not part or len(data) > REQUEST_BYTES_MAX:
            raise UsageProblem("not a request")
        data += part
    request = msgspec.json.decode(data)
    if not isinstance(request, dict):
        raise UsageProblem("not a request")
    return request


# -- faults ----------------------------------------------------------------------------------------------------------


def inject(server: Server, request: Request) -> msgspec.Struct:
    try:
        asked = request.as_struct(Inject)
    except msgspec.ValidationError as problem:
        raise UsageProblem(f"not a fault: {problem}") from problem
    how = server.injection(request, for_s=asked.for_s)
    return injection.inject(how, asked.fault).answer()


def join(server: Server, _: Request) -> answers.Healed:
    names = [name for name, fault in list(server.lab.active.items()) if fault.kind == kind_of(Partition)]
    return answers.Healed(names, server.lab.heal(names) or ["no partition stands"])


def heal(server: Server, request: Request) -> answers.Healed:
    names = server.lab.find(request.as_struct(OfFaults).faults)
    return answers.Healed(names, server.lab.heal(names) or ["no fault stands"])


# -- looking ---------------------------------------------------------------------------------------------------------


def status(server: Server, request: Request) -> Status:
    lab, started = server.lab, server.started
    reachable = probes.reachable(lab.network)
    partitions = lab.cluster.state.partitions(offsets=request.as_struct(OfStatus).offsets)
    with lab.turn:
        standing = [fault.told() for fault in lab.active.values()]
    brokers = [node for node in lab.cluster.brokers if node.site == FIRST_SITE]
    bootstrap = ",".join(f"{node.name}:{node.port}" for node in brokers)
    exposed = ",".join(f"127.0.0.1:{started.exposed[n.name]}" for n in lab.cluster.brokers if n.name in started.exposed)
    return Status(
        name=server.directory.name,
        mode=started.spec.mode,
        kafka=started.spec.kafka,
        supervisor_pid=started.supervisor_pid,
        bootstrap=bootstrap,
        exposed=exposed or None,
        controller=lab.cluster.state.controller(),
        zookeeper_leader=lab.cluster.state.zookeeper_leader() if started.spec.mode == "zookeeper" else None,
        nodes=[_node_state(server, name) for name in lab.cluster.nodes],
        network_groups=groups_of(reachable),
        faults=standing,
        topic_partitions=partitions,
        reachable=reachable,
    )


def _node_state(server: Server, name: str) -> NodeState:
    lab, node = server.lab, server.lab.cluster.nodes[name]
    process = lab.processes.get(name)
    how = lab.processes.last_exit(name)
    return NodeState(
        name=name,
        role=node.role,
        state="namespace" if node.role == "client" else lab.processes.state(name),
        address=node.address,
        rack=node.rack,
        pid_inside=process.pid if process else None,
        uptime_s=round(time.monotonic() - process.started, 1) if process else None,
        memory_mb=round(resident_mb(process.pid), 1) if process else None,
        last_exit=str(how) if how and process is None else None,
    )


def partitions(server: Server, request: Request) -> Partitions:
    topics = request.as_struct(OfPartitions).topics
    views = server.lab.cluster.state.partitions(offsets=True)
    if topics:
        known = {view.topic for view in views}
        if unknown := [topic for topic in topics if topic not in known]:
            raise UsageProblem(f"no topic {', '.join(unknown)}; the topics are {', '.join(sorted(known)) or 'none'}")
        views = [view for view in views if view.topic in topics]
    return Partitions(views)


def groups(server: Server, _: Request) -> Groups:
    return Groups(server.lab.cluster.state.groups())


def resolve_target(server: Server, request: Request) -> answers.Resolved:
    return answers.Resolved(server.lab_names(request.as_struct(Target).target))


def down(server: Server, _: Request) -> answers.Down:
    """End every node. The supervisor ends after the answer was sent, and with it everything else."""
    for node in server.lab.cluster.servers:
        server.lab.processes.send(node.name, signal.SIGKILL, ends=True)
    return answers.Down(["down"])


READS = frozenset(
    {"spawn", "processes", "signal", "leaders", "nodes", "status", "partitions", "groups", "bootstrap", "resolve"}
)
VERBS: dict[str, Callable[[Server, Request], msgspec.Struct]] = {
    "inject": inject,
    "start": node_verbs.start,
    "stop": node_verbs.stop,
    "restart": node_verbs.restart,
    "resume": node_verbs.resume,
    "add": node_verbs.add,
    "reset": node_verbs.reset,
    "join": join,
    "heal": heal,
    "status": status,
    "partitions": partitions,
    "groups": groups,
    "bootstrap": run_verbs.bootstrap,
    "spawn": run_verbs.spawn,
    "processes": run_verbs.processes,
    "signal": run_verbs.signal_process,
    "disturb": run_verbs.disturb,
    "leaders": run_verbs.leaders,
    "nodes": run_verbs.nodes,
    "resolve": resolve_target,
    "down": down,
}
