"""What a lab is made of: Java, Kafka's jars and memory, found or fetched before anything starts."""

from __future__ import annotations

from collections.abc import Callable

from ackproof.host.java import find_java
from ackproof.host.memory import check_memory
from ackproof.kafka.distribution import jars
from ackproof.lab.launch import Ingredients
from ackproof.lab.node_config import CLIENT_MB, MEMORY_MB
from ackproof.lab.spec import CLIENT, LabSpec

SoFar = Callable[[int, int | None, str], None]


def gather(spec: LabSpec, so_far: SoFar, clients: int = 0) -> Ingredients:
    """Find Java and Kafka's jars, and check that the memory is enough for the nodes and this many more clients.

    Raises CannotHere if something is missing; nothing is started yet.
    """
    java = find_java()
    servers_mb = sum(MEMORY_MB[node.role] for node in spec.nodes if node.role != CLIENT.role)
    check_memory(servers_mb + CLIENT_MB * clients)
    kafka = jars.ensure(spec.kafka, java, so_far)
    checkpoint = jars.bootstrap_checkpoint(kafka, java) if spec.mode == "kraft" else None
    return Ingredients(
        java=str(java.path),
        jars=str(kafka.directory),
        classpath=kafka.classpath,
        checkpoint=str(checkpoint) if checkpoint else None,
    )
