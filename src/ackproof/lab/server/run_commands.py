"""What a run asks of its lab: where the cluster is, programs of its own where a node stands, who leads."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackproof.core.errors import NotProved, UsageProblem
from ackproof.core.sites import FIRST_SITE, SITES
from ackproof.host.processes import KILL_CLIENT
from ackproof.lab.faults.network import Held
from ackproof.lab.network.router import OBSERVER
from ackproof.lab.server.node_commands import wake_in_time
from ackproof.lab.spec import USERS_PORT

if TYPE_CHECKING:
    from ackproof.lab.faults.active import Lab
    from ackproof.lab.server.commands import Request, Server

END_S = 30.0

Result = dict[str, Any]


def bootstrap(server: Server, _: Request) -> Result:
    cluster, mode = server.lab.cluster, server.started.spec.mode
    ensemble = [f"{node.name}:{node.port}" for node in server.started.spec.quorum_nodes]
    sites = {
        site: ",".join(f"{node.name}:{node.port}" for node in cluster.brokers if node.site == site) for site in SITES
    }
    return {
        "bootstrap": sites[FIRST_SITE],
        "sites": sites,
        "users": ",".join(f"{node.name}:{USERS_PORT}" for node in cluster.brokers) if cluster.spec.users else None,
        "zookeeper": ",".join(ensemble) if mode == "zookeeper" else None,
        "controllers": ",".join(ensemble) if mode == "kraft" else None,
    }


def spawn(server: Server, request: Request) -> Result:
    """Start a program of a run's where a node stands; it ends with the lab at the latest."""
    lab, node = server.lab, request.get("node")
    lab.clients.add(request.get("process"))
    lab.processes.spawn(
        request.get("process"),
        request.get("argv"),
        namespace=lab.network.router_namespace if node == OBSERVER else lab.network.endpoints[node].namespace,
        output=Path(request.get("output")),
        environment=os.environ,
    )
    return {"process": request.get("process")}


def processes(server: Server, request: Request) -> Result:
    """How each of these programs ended; those that still run are left out."""
    lab = server.lab
    exits = {name: lab.processes.last_exit(name) for name in request.get("names") if lab.processes.get(name) is None}
    return {"exits": {name: None if how is None else [how.code, how.signal] for name, how in exits.items()}}


def signal_process(server: Server, request: Request) -> Result:
    number = signal.Signals[request.get("signal")]
    return {"sent": server.lab.processes.send(request.get("process"), number, ends=True)}


def disturb(server: Server, request: Request) -> Result:
    """Kill, stop or pause programs of a run's, of those in `heard` the client that they hear."""
    lab, names, kind, heard = server.lab, *(request.get(each) for each in ("processes", "kind", "heard"))
    for_s = request.get("for_s")
    for name in names:
        if lab.processes.get(name) is None:
            raise UsageProblem(f"{name} does not run: there is nothing to {kind}")
    if kind == "pause":
        standing = []
        try:
            for name in names:
                held = _stopped(lab, name, name in heard)
                standing.append(lab.begin(lab.next_name(), kind, [name], held, for_s=for_s))
                wake_in_time(server, standing[-1], heard=name in heard)
        except BaseException:  # none of them, if not all of them
            for each in standing:
                lab.mend(each.name)
            raise
        said = [f"{each.name}: pause {each.targets[0]}: {each.held.proved}" for each in standing]
        return {"nodes": names, "faults": [each.name for each in standing], "said": said}
    for name in names:
        kill = KILL_CLIENT if name in heard else signal.SIGKILL
        lab.processes.send(name, kill if kind == "kill" else signal.SIGTERM, ends=True)
    for name in names:
        if not lab.processes.wait_for_exit(name, time.monotonic() + END_S):
            raise NotProved(f"{name} is still there after {END_S:.0f} s")
    return {"nodes": names, "said": [f"{name}: {lab.processes.last_exit(name)}" for name in names]}


@contextmanager
def _stopped(lab: Lab, name: str, heard: bool) -> Iterator[Held]:
    with lab.processes.frozen(name, heard=heard) as (prove, prove_over):
        yield Held(prove(), prove, prove_over)


def nodes(server: Server, _: Request) -> Result:
    """Every node with its place in the network and its id in Kafka."""
    known = server.lab.cluster.nodes.values()
    ports = {node.name: None if node.role == "client" else node.port for node in known}
    return {
        "nodes": [
            {
                "name": node.name,
                "role": node.role,
                "kafka_id": node.kafka_id,
                "address": node.address,
                "port": ports[node.name],
                "site": node.site,
            }
            for node in known
        ]
    }


def leaders(server: Server, _: Request) -> Result:
    return {"topic_partitions": server.lab.cluster.state.partitions()}
