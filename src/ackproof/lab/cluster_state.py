"""What the running nodes say about the cluster: who leads, who is in sync, where the logs end, who is the controller.

Each question goes to one node, on the observer's own route, which no fault touches, and each has a deadline. If
answers differ, the one with the higher leader epoch is newer; with equal epochs the leader's own answer counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException
from operator import methodcaller

import msgspec

from ackproof.core.errors import UsageProblem
from ackproof.core.sites import FIRST_SITE, named, placed
from ackproof.host.processes import Processes
from ackproof.kafka.protocol import broker as ask
from ackproof.kafka.protocol import zookeeper
from ackproof.lab.spec import LabSpec, Node
from ackproof.lab.targets import TRANSACTION

ASK_S = 1.0


class PartitionState(msgspec.Struct, frozen=True):
    """A partition as the brokers describe it, with the names of nodes in place of Kafka's ids."""

    topic: str
    partition: int
    leader: str | None
    leader_epoch: int | None
    replicas: list[str]
    isr: list[str]
    high_watermark: int | None = None
    log_end: dict[str, int] = msgspec.field(default_factory=dict)
    log_start: int | None = None


class ClusterState:
    """Asks the nodes that run. `nodes` is the cluster's own table, to which it adds brokers."""

    def __init__(self, spec: LabSpec, nodes: Mapping[str, Node], processes: Processes) -> None:
        self.spec = spec
        self.nodes = nodes
        self._processes = processes
        self._connections: dict[str, ask.Broker] = {}

    def is_down(self, name: str) -> bool:
        return self._processes.get(name) is None

    def running(self, role: str, site: str | None = None) -> list[Node]:
        """The nodes of a role that run, at one site or at all."""
        nodes = [node for node in self.nodes.values() if node.role == role and site in (None, node.site)]
        return [node for node in nodes if self._processes.state(node.name) == "running"]

    def broker(self, node: Node) -> ask.Broker:
        """The connection on which a broker or controller is asked; it is kept open."""
        return self._connections.setdefault(node.name, ask.Broker(node.address, node.port, ASK_S))

    def answers(self, node: Node, timeout_s: float = ASK_S) -> bool:
        """Whether the node's program answers. An open port is not enough: a paused process has one too."""
        if node.role == "zookeeper":
            try:
                return zookeeper.mode(node.address, node.port, timeout_s) is not None
            except ask.NoAnswer:
                return False
        if node.role == "mirror":
            return _speaks_http(node, timeout_s)
        with ask.Broker(node.address, node.port, timeout_s) as fresh:
            return fresh.answers()

    def serves(self, node: Node, *, knows_all: bool) -> bool:
        """Whether the node answers and, if it is a broker, knows itself or, with `knows_all`, every running broker."""
        if node.role != "broker":
            return self.answers(node)
        try:
            listed = {broker.id for broker in self.broker(node).metadata([]).brokers}
        except ask.NoAnswer:
            return False
        return {peer.kafka_id for peer in (self.running("broker", node.site) if knows_all else [node])} <= listed

    def registered(self, site: str) -> tuple[int, ...]:
        """The ids of the brokers that are registered in ZooKeeper. Empty if no ZooKeeper node answers."""
        for node in self.running("zookeeper", site):
            try:
                return zookeeper.broker_ids(node.address, node.port, ASK_S)
            except ask.NoAnswer:
                continue
        return ()

    def name_of(self, kafka_id: int) -> str:
        kafka = (node for node in self.nodes.values() if node.role in ("broker", "controller"))
        return next((node.name for node in kafka if node.kafka_id == kafka_id), "?")

    # -- partitions ------------------------------------------------------------------------------------------------

    def partitions(self, offsets: bool = False) -> list[PartitionState]:
        newest: dict[tuple[str, int], tuple[tuple[int, bool], PartitionState]] = {}
        for name, described in self._described():
            rank = (described.leader_epoch or 0, described.leader == name)
            key = (described.topic, described.partition)
            if key not in newest or rank > newest[key][0]:
                newest[key] = (rank, described)
        partitions = [newest[key][1] for key in sorted(newest)]
        return self._with_offsets(partitions) if offsets else partitions

    def _described(self) -> Iterator[tuple[str, PartitionState]]:
        """Each partition as each broker describes it, with the broker's name."""
        asked = {node.name: self.broker(node) for node in self.running("broker")}
        for name, answer in ask.ask_all(asked, lambda broker: broker.metadata(None)).items():
            if isinstance(answer, ask.Metadata):
                for partition in answer.partitions:
                    yield name, self._partition_state(self.nodes[name].site, partition)

    def _partition_state(self, site: str, partition: ask.Partition) -> PartitionState:
        return PartitionState(
            named(site, partition.topic),
            partition.partition,
            self.name_of(partition.leader) if partition.leader is not None else None,
            partition.leader_epoch,
            [self.name_of(replica) for replica in partition.replicas],
            [self.name_of(replica) for replica in partition.isr],
        )

    def _with_offsets(self, partitions: list[PartitionState]) -> list[PartitionState]:
        offsets = self._offsets(partitions)
        result = []
        for partition in partitions:
            key = (partition.topic, partition.partition)
            ends = {name: of[key].log_end for name, of in offsets.items() if key in of and name in partition.replicas}
            leaders = offsets.get(partition.leader or "", {}).get(key)
            result.append(
                msgspec.structs.replace(
                    partition,
                    log_end={name: end for name, end in ends.items() if end is not None},
                    high_watermark=leaders.high_watermark if leaders else None,
                    log_start=leaders.log_start if leaders else None,
                )
            )
        return result

    def _offsets(self, partitions: list[PartitionState]) -> dict[str, dict[tuple[str, int], ask.Offsets]]:
        """The offsets of each broker's own replicas, by the broker's name."""
        places = [(*placed(partition.topic), partition.partition) for partition in partitions]
        found = {}
        for site in {site for site, _, _ in places}:
            wanted = [(topic, number) for where, topic, number in places if where == site]
            asked = {node.name: self.broker(node) for node in self.running("broker", site)}
            for name, answer in ask.ask_all(asked, methodcaller("offsets", wanted)).items():
                if not isinstance(answer, ask.NoAnswer):
                    found[name] = {(named(site, topic), number): own for (topic, number), own in answer.items()}
        return found

    # -- controller, coordinators, groups --------------------------------------------------------------------------

    def controller(self) -> str | None:
        """The active controller: in ZooKeeper mode from ZooKeeper, in KRaft mode the leader with the highest epoch."""
        if self.spec.mode == "kraft":
            asked = {node.name: self.broker(node) for node in self.running("controller", FIRST_SITE)}
            answers = ask.ask_all(asked, lambda broker: broker.quorum())
            known = [quorum for quorum in answers.values() if isinstance(quorum, ask.Quorum)]
            return self.name_of(max(known, key=lambda quorum: quorum.leader_epoch).leader_id) if known else None
        for node in self.running("zookeeper", FIRST_SITE):
            try:
                number = zookeeper.controller_id(node.address, node.port, ASK_S)
            except ask.NoAnswer:
                continue  # the node has no quorum, or still elects
            return None if number is None else self.name_of(number)
        return None

    def zookeeper_leader(self) -> str | None:
        if self.spec.mode == "kraft":
            raise UsageProblem("zookeeper-leader: a lab in kraft mode has no ZooKeeper; use `controller`")
        for node in self.running("zookeeper", FIRST_SITE):
            try:
                if zookeeper.mode(node.address, node.port, ASK_S) in ("leader", "standalone"):
                    return node.name
            except ask.NoAnswer:
                continue
        return None

    def coordinator(self, what: str) -> str | None:
        """The coordinator of a group, or of a producer's transactions."""
        site, own = placed(what)
        producer = own.removeprefix(TRANSACTION)
        key, kind = (own, ask.GROUP) if producer == own else (producer, ask.TRANSACTION)
        for node in self.running("broker", site):
            try:
                number = self.broker(node).coordinator(key, kind)
            except ask.NoAnswer:
                continue
            return self.name_of(number)
        return None

    def groups(self) -> list[ask.Group]:
        """The consumer groups with their members, as their coordinators describe them."""

        def of(broker: ask.Broker) -> list[ask.Group]:
            return [group for listed in broker.groups() if (group := broker.group(listed.id)) is not None]

        answers = ask.ask_all({node.name: self.broker(node) for node in self.running("broker")}, of)
        return [group for answer in answers.values() if not isinstance(answer, ask.NoAnswer) for group in answer]


def _speaks_http(node: Node, timeout_s: float) -> bool:
    connection = HTTPConnection(node.address, node.port, timeout=timeout_s)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status > 0
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
