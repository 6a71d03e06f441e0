"""The commands that a run needs: where the cluster is, programs in the network of a node, who leads."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ackproof.core.sites import FIRST_SITE, SITES
from ackproof.lab import answers
from ackproof.lab.faults.clients import inject_at_clients
from ackproof.lab.network.router import OBSERVER
from ackproof.lab.requests import InjectAtClients, OfProcesses, SignalProcess, Spawn
from ackproof.lab.server.answers import Partitions
from ackproof.lab.spec import USERS_PORT
from ackproof.model.nodes import NodePlace

if TYPE_CHECKING:
    from ackproof.lab.server.commands import Request, Server


def bootstrap(server: Server, _: Request) -> answers.Where:
    cluster, mode = server.lab.cluster, server.started.spec.mode
    ensemble = [f"{node.name}:{node.port}" for node in server.started.spec.quorum_nodes]
    sites = {
        site: ",".join(f"{node.name}:{node.port}" for node in cluster.brokers if node.site == site) for site in SITES
    }
    return answers.Where(
        bootstrap=sites[FIRST_SITE],
        sites=sites,
        users=",".join(f"{node.name}:{USERS_PORT}" for node in cluster.brokers) if cluster.spec.users else None,
        zookeeper=",".join(ensemble) if mode == "zookeeper" else None,
        controllers=",".join(ensemble) if mode == "kraft" else None,
    )


def spawn(server: Server, request: Request) -> answers.Spawned:
    """Start a program of a run in the network of a node. It ends with the lab at the latest."""
    lab, asked = server.lab, request.as_struct(Spawn)
    at_observer = asked.node == OBSERVER
    lab.clients.add(asked.process)
    lab.processes.spawn(
        asked.process,
        asked.argv,
        namespace=lab.network.router_namespace if at_observer else lab.network.endpoints[asked.node].namespace,
        output=Path(asked.output),
        environment=os.environ,
    )
    return answers.Spawned(asked.process)


def processes(server: Server, request: Request) -> answers.Exits:
    """Return how each of these programs ended. Programs that still run are left out."""
    lab = server.lab
    ended = [name for name in request.as_struct(OfProcesses).names if lab.processes.get(name) is None]
    exits = {name: lab.processes.last_exit(name) for name in ended}
    return answers.Exits({name: None if how is None else (how.code, how.signal) for name, how in exits.items()})


def signal_process(server: Server, request: Request) -> answers.Sent:
    asked = request.as_struct(SignalProcess)
    return answers.Sent(server.lab.processes.send(asked.process, signal.Signals[asked.signal], ends=True))


def disturb(server: Server, request: Request) -> msgspec.Struct:
    """Kill, stop or pause programs of a run."""
    asked = request.as_struct(InjectAtClients)
    return inject_at_clients(server.injection(request, for_s=asked.for_s), asked).answer()


def nodes(server: Server, _: Request) -> answers.NodePlaces:
    """Return every node with its place in the network and its id in Kafka."""
    return answers.NodePlaces(
        [
            NodePlace(
                name=node.name,
                role=node.role,
                kafka_id=node.kafka_id,
                address=node.address,
                port=None if node.role == "client" else node.port,
                site=node.site,
            )
            for node in server.lab.cluster.nodes.values()
        ]
    )


def leaders(server: Server, _: Request) -> Partitions:
    return Partitions(server.lab.cluster.state.partitions())
