"""What can be asked of a running lab, one function a verb, and the server that answers on the control socket.

A request is one line of JSON, `{"verb": ..., "asked": "the command as typed", ...arguments}`; the answer is any number
of `{"progress": ...}` lines and then `{"ok": {...}}` or `{"problem": [exit code, message, details]}`. Each verb proves
its effect before it answers, and `said` tells in words what was proved.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from ackproof.core.errors import CannotHere, NotProved, Problem, Refused, UsageProblem
from ackproof.core.sites import FIRST_SITE
from ackproof.host.processes import resident_mb
from ackproof.lab.directory import LabDirectory, Started
from ackproof.lab.faults import network as faults
from ackproof.lab.faults.active import Lab
from ackproof.lab.network import probes
from ackproof.lab.network.nftables import Match
from ackproof.lab.network.router import OBSERVER
from ackproof.lab.roles import resolvers
from ackproof.lab.server import node_commands as node_verbs
from ackproof.lab.server import run_commands as run_verbs
from ackproof.lab.targets import resolve
from ackproof.lab.topology import Link, groups_of, links_of, severed_between, severed_by_groups

REQUEST_BYTES_MAX = 1 << 20

Result = dict[str, Any]


class Request:
    """One verb under way: its arguments, and the line back to whoever asked."""

    def __init__(self, arguments: dict[str, Any], tell: Callable[[str], None]) -> None:
        self._arguments = arguments
        self.progress = tell

    def get(self, name: str, default: Any = None) -> Any:
        return self._arguments.get(name, default)


class Server:
    def __init__(self, lab: Lab, directory: LabDirectory, started: Started, start_relay: Callable[[str], None]) -> None:
        self.lab = lab
        self.started = started
        self.directory = directory
        self.start_relay = start_relay
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # By way of a descriptor: a socket's path may be no longer than 107 bytes, a folder's may.
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
            with suppress(OSError):  # whoever asked may be gone; what was asked is done all the same
                connection.sendall(msgspec.json.encode(facts) + b"\n")

        with connection:
            try:
                arguments = _receive(connection)
                verb = arguments.pop("verb", "")
                result = self._do(verb, arguments, connection, lambda said: tell(progress=said))
                tell(ok=result)
                if verb == "down":
                    os._exit(0)
            except Problem as problem:
                tell(problem=[problem.exit_code, problem.message, problem.details])
            except Exception as problem:  # noqa: BLE001  # a verb that broke must not take the lab with it
                traceback.print_exc()
                tell(
                    problem=[70, f"the lab's supervisor failed: {problem!r}", traceback.format_exc().splitlines()[-6:]]
                )

    def _do(
        self, verb: str, arguments: dict[str, Any], connection: socket.socket, tell: Callable[[str], None]
    ) -> Result:
        if verb == "enter":
            return self._enter(connection, arguments["node"])
        if verb not in VERBS:
            raise UsageProblem(f"the lab knows no verb {verb!r}")
        who = {"verb": verb, "asked": arguments.get("asked"), "by": arguments.get("by")}
        if verb not in READS:
            self.lab.events.add("asked", **who)
        try:
            return VERBS[verb](self, Request(arguments, tell))
        except Problem as problem:
            if verb not in READS:  # what was refused was not begun; of what failed something may have come
                event = "refused" if isinstance(problem, UsageProblem | Refused) else "failed"
                self.lab.events.add(event, **who, problem=problem.message)
            raise

    def _enter(self, connection: socket.socket, node: str) -> Result:
        """Hand over the namespaces of a node, so that a program of the caller's can stand there."""
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
        return {"node": node}

    def lab_names(self, text: str, one: bool = False) -> list[str]:
        names = resolve(text, self.lab.network.names(), resolvers(self.lab.cluster.state))
        if one and len(names) != 1:
            raise UsageProblem(f"{text} is {len(names)} nodes ({', '.join(names)}): name one")
        return names


def _receive(connection: socket.socket) -> dict[str, Any]:
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


# -- faults of the network -------------------------------------------------------------------------------------------


def _sever(
    server: Server,
    request: Request,
    kind: str,
    targets: list[str],
    links: frozenset[Link],
    match: Match,
    hit: list[str] | None = None,
) -> Result:
    """`hit`: the nodes that were meant, where `targets` names both sides."""
    lab, for_s = server.lab, request.get("for_s")
    name = lab.next_name()
    standing = lab.begin(
        name,
        kind,
        targets,
        faults.severed(lab.network, name, sorted(links), match, for_s),
        links=links,
        match=match,
        for_s=for_s,
    )
    said = f"{name}: {kind} {' '.join(targets)}: {standing.held.proved}"
    return {**standing.told(), "hit": hit or targets, "faults": [name], "said": [said]}


def partition(server: Server, request: Request) -> Result:
    groups = [server.lab_names(group) for group in request.get("groups")]
    links = severed_by_groups(groups, server.lab.network.names())
    if not links:
        raise UsageProblem("these groups cut nothing: every pair of nodes shares one")
    return _sever(server, request, "partition", [",".join(group) for group in groups], links, Match(), groups[0])


def cut(server: Server, request: Request) -> Result:
    left, right = server.lab_names(request.get("left")), server.lab_names(request.get("right"))
    links = severed_between(left, right, request.get("one_way", False))
    if not links:
        raise UsageProblem(
            f"{request.get('left')} and {request.get('right')} are the same node: there is no link to cut"
        )
    match = Match(
        port=request.get("port"),
        new_connections=request.get("new_connections", False),
        reset=request.get("reset", False),
    )
    return _sever(server, request, "cut", [",".join(left), ",".join(right)], links, match, left)


def flaky(server: Server, request: Request) -> Result:
    names = server.lab_names(request.get("nodes"))
    links = links_of(names, server.lab.network.names())
    return _sever(server, request, "flaky", names, links, Match(loss=request.get("loss")))


def slow(server: Server, request: Request) -> Result:
    lab, names, for_s = server.lab, server.lab_names(request.get("nodes")), request.get("for_s")
    if busy := [
        name for fault in lab.standing.values() if fault.kind == "slow" for name in fault.targets if name in names
    ]:
        raise UsageProblem(f"{', '.join(busy)}: slow already; heal that first")
    name = lab.next_name()
    try:
        standing = lab.begin(
            name, "slow", names, faults.delayed(lab.network, names, request.get("delay_ms")), for_s=for_s
        )
    except OSError as problem:
        raise CannotHere(
            f"this kernel cannot delay packets ({problem.strerror}): it needs netem (CONFIG_NET_SCH_NETEM, "
            "module sch_netem); `flaky` and `cut` work without it"
        ) from problem
    if for_s is not None:
        endpoints = [lab.network.endpoints[each] for each in names]
        descriptors = {number: each.namespace for number, each in enumerate(endpoints, start=200)}
        where = [
            text for number, each in zip(descriptors, endpoints, strict=True) for text in (each.interface, str(number))
        ]
        node_verbs.start_watchdog(server, standing, ["undelay", *where], descriptors)
    said = f"{name}: slow {' '.join(names)}: {standing.held.proved}"
    return {**standing.told(), "hit": names, "faults": [name], "said": [said]}


def join(server: Server, _: Request) -> Result:
    names = [name for name, fault in list(server.lab.standing.items()) if fault.kind == "partition"]
    return _end(server, names) if names else {"healed": [], "said": ["no partition stands"]}


def heal(server: Server, request: Request) -> Result:
    names = server.lab.find(request.get("faults", []))
    return _end(server, names) if names else {"healed": [], "said": ["no fault stands"]}


def _end(server: Server, names: list[str]) -> Result:
    """Mend all first, prove afterwards: a link that two of them cut is open only when both are gone."""
    said, problems = [], []
    for name in names:
        server.lab.look_once_more(name)
    mended = {name: server.lab.mend(name) for name in names}
    for name, standing in mended.items():
        try:
            said.append(f"{name}: {server.lab.prove_over(standing, 'heal') if standing else 'is over already'}")
        except NotProved as problem:
            problems.append(problem.message)
    if problems:
        raise NotProved(problems[0], problems[1:])
    return {"healed": names, "said": said}


# -- looking ---------------------------------------------------------------------------------------------------------


def status(server: Server, request: Request) -> Result:
    lab, started = server.lab, server.started
    reachable = probes.reachable(lab.network)
    partitions = lab.cluster.state.partitions(offsets=request.get("offsets", False))
    with lab.turn:
        standing = [fault.told() for fault in lab.standing.values()]
    brokers = [node for node in lab.cluster.brokers if node.site == FIRST_SITE]
    bootstrap = ",".join(f"{node.name}:{node.port}" for node in brokers)
    exposed = ",".join(f"127.0.0.1:{started.exposed[n.name]}" for n in lab.cluster.brokers if n.name in started.exposed)
    return {
        "name": server.directory.name,
        "mode": started.spec.mode,
        "kafka": started.spec.kafka,
        "supervisor_pid": started.supervisor_pid,
        "bootstrap": bootstrap,
        "exposed": exposed or None,
        "controller": lab.cluster.state.controller(),
        "zookeeper_leader": lab.cluster.state.zookeeper_leader() if started.spec.mode == "zookeeper" else None,
        "nodes": [_told(server, name) for name in lab.cluster.nodes],
        "network_groups": groups_of(reachable),
        "faults": standing,
        "topic_partitions": partitions,
        "reachable": reachable,
    }


def _told(server: Server, name: str) -> Result:
    lab, node = server.lab, server.lab.cluster.nodes[name]
    process = lab.processes.get(name)
    how = lab.processes.last_exit(name)
    return {
        "name": name,
        "role": node.role,
        "state": "namespace" if node.role == "client" else lab.processes.state(name),
        "address": node.address,
        "rack": node.rack,
        "pid_inside": process.pid if process else None,  # as the lab counts
        "uptime_s": round(time.monotonic() - process.started, 1) if process else None,
        "memory_mb": round(resident_mb(process.pid), 1) if process else None,
        "last_exit": str(how) if how and process is None else None,
    }


def partitions(server: Server, request: Request) -> Result:
    topics = request.get("topics")
    views = server.lab.cluster.state.partitions(offsets=True)
    if topics:
        known = {view.topic for view in views}
        if unknown := [topic for topic in topics if topic not in known]:
            raise UsageProblem(f"no topic {', '.join(unknown)}; the topics are {', '.join(sorted(known)) or 'none'}")
        views = [view for view in views if view.topic in topics]
    return {"topic_partitions": views}


def groups(server: Server, _: Request) -> Result:
    return {"groups": server.lab.cluster.state.groups()}


def resolve_target(server: Server, request: Request) -> Result:
    return {"nodes": server.lab_names(request.get("target"))}


def down(server: Server, _: Request) -> Result:
    """The answer goes out, then the supervisor ends, and with it everything."""
    for node in server.lab.cluster.servers:
        server.lab.processes.send(node.name, signal.SIGKILL, ends=True)
    return {"said": ["down"]}


READS = frozenset(
    {"spawn", "processes", "signal", "leaders", "nodes", "status", "partitions", "groups", "bootstrap", "resolve"}
)
VERBS: dict[str, Callable[[Server, Request], Result]] = {
    "kill": node_verbs.kill,
    "stop": node_verbs.stop,
    "start": node_verbs.start,
    "restart": node_verbs.restart,
    "pause": node_verbs.pause,
    "resume": node_verbs.resume,
    "add": node_verbs.add,
    "reset": node_verbs.reset,
    "partition": partition,
    "join": join,
    "cut": cut,
    "heal": heal,
    "flaky": flaky,
    "slow": slow,
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
