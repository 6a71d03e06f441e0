"""Resolve roles, such as `leader:orders/0`, to the nodes that have them at this moment."""

from __future__ import annotations

from ackproof.core.errors import UsageProblem
from ackproof.core.sites import SITES
from ackproof.lab.cluster_state import ClusterState, PartitionState
from ackproof.lab.targets import Resolver, topic_partition


def resolvers(state: ClusterState) -> dict[str, Resolver]:
    """For each role, the function that resolves it."""
    return {
        **({site: _of_site(state, site) for site in SITES} if state.spec.second else {}),
        "all-brokers": lambda _: [node.name for node in state.nodes.values() if node.role == "broker"],
        "quorum": lambda number: _quorum(state, number),
        "controller": lambda _: [_known(state, state.controller(), "controller")],
        "zookeeper-leader": lambda _: [_known(state, state.zookeeper_leader(), "zookeeper-leader")],
        "leader": lambda what: [_known(state, _partition(state, "leader", what).leader, f"leader:{what}")],
        "follower": lambda what: _followers(state, "follower", what)[:1],
        "followers": lambda what: _followers(state, "followers", what),
        "coordinator": lambda what: [_known(state, state.coordinator(what), f"coordinator:{what}")],
    }


def _of_site(state: ClusterState, site: str) -> Resolver:
    return lambda _: [node.name for node in state.nodes.values() if node.role != "client" and node.site == site]


def _quorum(state: ClusterState, number: str) -> list[str]:
    names = [node.name for node in state.spec.quorum_nodes]
    if not number:
        return names
    if not number.isdigit() or not 1 <= int(number) <= len(names):
        raise UsageProblem(f"quorum:{number}: there is no such node; the quorum has quorum:1 to quorum:{len(names)}")
    return [names[int(number) - 1]]


def _known(state: ClusterState, name: str | None, role: str) -> str:
    if name is None:
        raise UsageProblem(f"{role}: no node has this role at the moment; `ackproof status` shows the cluster")
    if name in state.nodes and state.is_down(name):
        raise UsageProblem(
            f"{role}: the cluster still names {name}, which is down: no other node is elected yet, try again"
        )
    return name


def _partition(state: ClusterState, role: str, what: str) -> PartitionState:
    topic, number = topic_partition(what, role)
    partitions = state.partitions()
    for partition in partitions:
        if (partition.topic, partition.partition) == (topic, number):
            return partition
    topics = sorted({partition.topic for partition in partitions if not partition.topic.startswith("__")})
    raise UsageProblem(
        f"{role}:{what}: no such partition; "
        + (f"the topics are {', '.join(topics)}" if topics else "there is no topic yet: `ackproof topic create`")
    )


def _followers(state: ClusterState, role: str, what: str) -> list[str]:
    """The followers of a partition. First those in sync, and of these the controller last.

    A fault at an in-sync follower shows the most. A fault at the controller would disturb the other nodes too.
    """
    partition = _partition(state, role, what)
    followers = [name for name in partition.replicas if name != partition.leader]
    if not followers:
        raise UsageProblem(f"{role}:{what}: the partition has no follower")
    controller = state.controller() if state.spec.mode == "zookeeper" else None
    return sorted(followers, key=lambda name: (name not in partition.isr, name == controller))
