"""The commands that a run needs: where the cluster is, programs in the network of a node, who leads."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackproof.core.sites import FIRST_SITE, SITES
from ackproof.lab.faults.clients import inject_at_clients
from ackproof.lab.network.router import OBSERVER
from ackproof.lab.requests import InjectAtClients
from ackproof.lab.spec import USERS_PORT

if TYPE_CHECKING:
    from ackproof.lab.server.commands import Request, Server

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
    """Start a program of a run in the network of a node. It ends with the lab at the latest."""
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
    """Return how each of these programs ended. Programs that still run are left out."""
    lab = server.lab
    exits = {name: lab.processes.last_exit(name) for name in request.get("names") if lab.processes.get(name) is None}
    return {"exits": {name: None if how is None else [how.code, how.signal] for name, how in exits.items()}}


def signal_process(server: Server, request: Request) -> Result:
    number = signal.Signals[request.get("signal")]
    return {"sent": server.lab.processes.send(request.get("process"), number, ends=True)}


def disturb(server: Server, request: Request) -> Result:
    """Kill, stop or pause programs of a run."""
    asked = request.as_struct(InjectAtClients)
    return inject_at_clients(server.injection(request, for_s=asked.for_s), asked).answer()


def nodes(server: Server, _: Request) -> Result:
    """Return every node with its place in the network and its id in Kafka."""
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
