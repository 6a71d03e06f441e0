"""The commands at nodes that are more than a fault: they have options of their own, or concern the whole lab."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ackproof.core.errors import CannotHere, NotProved, UsageProblem
from ackproof.core.sites import RELAY
from ackproof.host.memory import check_memory
from ackproof.lab import node_config as config
from ackproof.lab.faults import nodes
from ackproof.lab.faults.injection import Injection
from ackproof.model.faults import SPAN_LAB, Start, Stop

if TYPE_CHECKING:
    from ackproof.lab.server.commands import Request, Server

Result = dict[str, Any]


def _how(server: Server, request: Request) -> Injection:
    return server.injection(request, timeout_s=request.get("timeout_s"), wait=request.get("wait", True))


def stop(server: Server, request: Request) -> Result:
    return nodes.stop(_how(server, request), Stop(request.get("nodes"))).answer()


def start(server: Server, request: Request) -> Result:
    """Start the nodes that are named, or all that are down."""
    lab, how = server.lab, _how(server, request)
    if request.get("nodes"):
        return nodes.start(how, Start(request.get("nodes"))).answer()
    with lab.turn:
        down = [node for node in lab.cluster.servers if lab.processes.state(node.name) == "down"]
    return nodes.launch(how, down).answer() if down else {"nodes": [], "said": ["no node is down"]}


def restart(server: Server, request: Request) -> Result:
    options = {"kills": request.get("kill", False), "wipe": request.get("wipe", False)}
    options["add_log_dir"] = request.get("add_log_dir", False)
    return nodes.restart_with(_how(server, request), request.get("nodes"), **options).answer()


def resume(server: Server, request: Request) -> Result:
    """Resume the nodes that are named, or all that are paused."""
    lab, how = server.lab, _how(server, request)
    with lab.turn:
        if request.get("nodes"):
            paused = how.nodes(request.get("nodes"), ("paused",), "resume")
        else:
            paused = [node for node in lab.cluster.nodes.values() if lab.processes.state(node.name) == "paused"]
    done = nodes.resume(lab, paused)
    return {"nodes": done.nodes, "said": done.said or ["no node is paused"]}


# -- the lab as a whole ----------------------------------------------------------------------------------------------


def add(server: Server, request: Request) -> Result:
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


def reset(server: Server, request: Request) -> Result:
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
    return {"nodes": names, "said": [f"{len(names)} nodes serve, with empty disks"]}
