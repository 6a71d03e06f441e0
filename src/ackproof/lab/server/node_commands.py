"""The commands at nodes that are more than a fault: they have options of their own, or concern the whole lab."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from ackproof.core.errors import CannotHere, NotProved, UsageProblem
from ackproof.core.sites import RELAY
from ackproof.host.memory import check_memory
from ackproof.lab import node_config as config
from ackproof.lab.answers import Done
from ackproof.lab.faults import nodes
from ackproof.lab.faults.injection import Injection
from ackproof.lab.requests import AtNodes, RestartNodes
from ackproof.model.faults import SPAN_LAB, Start, Stop

if TYPE_CHECKING:
    from ackproof.lab.server.commands import Request, Server


def _how(server: Server, request: Request) -> Injection:
    asked = request.as_struct(AtNodes)
    return server.injection(request, timeout_s=asked.timeout_s, wait=asked.wait)


def stop(server: Server, request: Request) -> msgspec.Struct:
    return nodes.stop(_how(server, request), Stop(request.as_struct(AtNodes).nodes)).answer()


def start(server: Server, request: Request) -> msgspec.Struct:
    """Start the nodes that are named, or all that are down."""
    lab, how = server.lab, _how(server, request)
    if named := request.as_struct(AtNodes).nodes:
        return nodes.start(how, Start(named)).answer()
    with lab.turn:
        down = [node for node in lab.cluster.servers if lab.processes.state(node.name) == "down"]
    return nodes.launch(how, down).answer() if down else Done([], ["no node is down"])


def restart(server: Server, request: Request) -> msgspec.Struct:
    asked = request.as_struct(RestartNodes)
    options = {"kills": asked.kill, "wipe": asked.wipe, "add_log_dir": asked.add_log_dir}
    return nodes.restart_with(_how(server, request), asked.nodes, **options).answer()


def resume(server: Server, request: Request) -> Done:
    """Resume the nodes that are named, or all that are paused."""
    lab, how = server.lab, _how(server, request)
    with lab.turn:
        if named := request.as_struct(AtNodes).nodes:
            paused = how.nodes(named, ("paused",), "resume")
        else:
            paused = [node for node in lab.cluster.nodes.values() if lab.processes.state(node.name) == "paused"]
    done = nodes.resume(lab, paused)
    return Done(done.nodes, done.said or ["no node is paused"])


# -- the lab as a whole ----------------------------------------------------------------------------------------------


def add(server: Server, request: Request) -> msgspec.Struct:
    """Add a broker. If it does not start, the lab is as it was before."""
    lab = server.lab
    with lab.turn:
        if blind := [name for name, each in lab.active.items() if each.kind in SPAN_LAB]:
            raise UsageProblem(f"{', '.join(blind)} would not know the new broker: heal first, then add")
        check_memory(config.MEMORY_MB["broker"])
        node = lab.cluster.next_broker()
        lab.cluster.adopt(node)
        server.start_relay(node.name)
        lab.launch(node)
    try:
        done = nodes.prove_started(_how(server, request), [node])
    except CannotHere:
        lab.processes.wait_for_exit(node.name, time.monotonic() + nodes.KILL_S)
        lab.processes.send(f"{RELAY}{node.name}", signal.SIGKILL, ends=True)
        lab.cluster.forget(node)
        raise
    return done.answer()


def reset(server: Server, request: Request) -> Done:
    """Give the same nodes empty disks, and end every fault."""
    lab = server.lab
    with lab.turn:
        for name in list(lab.active):
            with suppress(NotProved):  # the trail has it; what was mended is mended
                lab.end(name, by="reset")
        servers = lab.cluster.servers
        for node in servers:
            lab.processes.send(node.name, signal.SIGKILL, ends=True)
        deadline = time.monotonic() + nodes.KILL_S
        if left := [node.name for node in servers if not lab.processes.wait_for_exit(node.name, deadline)]:
            raise NotProved(f"{', '.join(left)} did not end")
        for node in servers:
            lab.cluster.wipe(node)
            lab.launch(node)
    names = [node.name for node in servers]
    lab.cluster.wait_until_serving(names, request.progress, everyone=True)
    lab.events.add("reset", nodes=names)
    return Done(names, [f"{len(names)} nodes serve, with empty disks"])
