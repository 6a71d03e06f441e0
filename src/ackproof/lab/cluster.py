"""The cluster itself: its nodes' files and processes, and what the nodes say when they are asked.

Every question goes to one node, over the observer's own way that no fault touches, and has a deadline. Where nodes
disagree, the higher leader epoch is the later truth, and of two equal ones the leader's own word.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from operator import methodcaller
from pathlib import Path

import msgspec

from ackproof.core.errors import CannotHere, UsageProblem
from ackproof.core.sites import FIRST_SITE, SITES, named, placed
from ackproof.host.processes import Processes
from ackproof.kafka.protocol import broker as ask
from ackproof.kafka.protocol import zookeeper
from ackproof.lab import node_config as config
from ackproof.lab.directory import LabDirectory
from ackproof.lab.network.router import Network, network_here
from ackproof.lab.spec import BROKERS_MAX, LabSpec, Node
from ackproof.lab.targets import TRANSACTION, Resolver, topic_partition

ASK_S = 1.0
START_S = 90.0
FORGET_S = 60.0
_POLL_S = 0.05
_LOG_TAIL_LINES = 12

Progress = Callable[[str], None]


class PartitionView(msgspec.Struct, frozen=True):
    """A partition as the brokers tell it: names of nodes, not ids."""

    topic: str
    partition: int
    leader: str | None
    leader_epoch: int | None
    replicas: list[str]
    isr: list[str]
    high_watermark: int | None = None
    log_end: dict[str, int] = msgspec.field(default_factory=dict)
    log_start: int | None = None


@dataclass(frozen=True)
class Program:
    """What the nodes are made of: fetched and checked before the lab began."""

    java: Path
    classpath: str
    checkpoint: Path | None  # KRaft's first metadata, the same for every node


class Cluster:
    def __init__(
        self,
        spec: LabSpec,
        directory: LabDirectory,
        program: Program,
        network: Network,
        processes: Processes,
        exposed: dict[str, int],
    ) -> None:
        self.spec = spec
        self.nodes = {node.name: node for node in spec.nodes}
        self.cluster_id = config.kafka_uuid(f"{directory.path} {time.time_ns()}")
        self._directory = directory
        self._program = program
        self._network = network
        self._processes = processes
        self._exposed = exposed
        self._passwords = {user: secrets.token_urlsafe(18) for user in spec.users}
        if spec.users:
            directory.users.write_bytes(msgspec.json.encode(self._passwords))
        self._log_dirs: dict[str, int] = {}  # of brokers that were given more than the others
        self._questions: dict[str, ask.Broker] = {}

    # -- nodes -----------------------------------------------------------------------------------------------------

    @property
    def servers(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.role != "client"]

    @property
    def brokers(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.role == "broker"]

    def next_broker(self) -> Node:
        number = max(node.number for node in self.brokers if node.site == FIRST_SITE) + 1
        if number > BROKERS_MAX:
            raise UsageProblem(f"a lab has at most {BROKERS_MAX} brokers, and this one has them all")
        return self.spec.broker(number)

    def adopt(self, node: Node) -> None:
        """Give a node its place in the network and its name, in this lab and to all in it."""
        with network_here():
            self._network.attach(node.name, node.address)
        self.nodes[node.name] = node
        self.write_hosts()

    def forget(self, node: Node) -> None:
        self.nodes.pop(node.name)
        self._network.detach(node.name)
        self.write_hosts()

    def write_hosts(self) -> None:
        """In place: the file is mounted over /etc/hosts, and a new one in its stead would not be seen."""
        lines = ["127.0.0.1 localhost", f"127.0.0.1 {os.uname().nodename}"]
        lines += [f"{node.address} {node.name}" for node in self.nodes.values()]
        with self._directory.hosts.open("w") as hosts:
            hosts.write("\n".join(lines) + "\n")

    # -- processes -------------------------------------------------------------------------------------------------

    def launch(self, node: Node) -> None:
        files = config.NodeFiles(self._directory.settings(node.name), self._directory.data / node.name)
        self._write_files(node, files)
        logging = config.logging(self.spec.kafka)
        argv = [
            str(self._program.java),
            *config.jvm_options(self.spec, node, files.data / "tmp"),
            logging.option.format(path=files.settings / logging.file_name),
            "-cp",
            self._program.classpath,
            config.main_class(node),
            str(files.settings / "server.properties"),
        ]
        self._processes.spawn(
            node.name,
            argv,
            namespace=self._network.endpoints[node.name].namespace,
            output=self._directory.log(node.name),
            environment={"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8", "HOME": str(files.data)},
        )

    def _write_files(self, node: Node, files: config.NodeFiles) -> None:
        files.settings.mkdir(parents=True, exist_ok=True)
        (files.data / "tmp").mkdir(parents=True, exist_ok=True)
        log_dirs = self._log_dirs.get(node.name, self.spec.log_dirs) if node.role == "broker" else 1
        spec = msgspec.structs.replace(self.spec, log_dirs=log_dirs)
        properties = config.properties(spec, node, files, self._exposed.get(node.name), self._passwords)
        (files.settings / "server.properties").write_text(config.properties_text(properties))
        logging = config.logging(self.spec.kafka)
        (files.settings / logging.file_name).write_text(logging.text)
        if node.role == "zookeeper":
            (files.data / "myid").write_text(f"{node.number}\n")
        if node.role in ("zookeeper", "mirror"):
            return
        for number, directory in enumerate(files.log_dirs(log_dirs)):
            directory.mkdir(exist_ok=True)
            if self.spec.mode == "kraft" and not (directory / "meta.properties").exists():
                meta = config.meta_properties(node, self._cluster_id(node.site))
                (directory / "meta.properties").write_text(config.properties_text(meta))
                if number == 0 and self._program.checkpoint is not None:
                    shutil.copyfile(self._program.checkpoint, directory / "bootstrap.checkpoint")

    def _cluster_id(self, site: str) -> str:
        return self.cluster_id if site == FIRST_SITE else config.kafka_uuid(f"{self.cluster_id} {site}")

    def wait_until_forgotten(self, node: Node, progress: Progress) -> None:
        """A broker cannot register while ZooKeeper still holds the session of its former life, and gives up at once."""
        deadline = time.monotonic() + FORGET_S
        told = False
        while self.spec.mode == "zookeeper" and node.role == "broker" and time.monotonic() < deadline:
            if node.kafka_id not in self._registered(node.site):
                return
            if not told:
                progress(f"waiting until ZooKeeper gives up the old session of {node.name}")
                told = True
            time.sleep(_POLL_S)

    def _registered(self, site: str) -> tuple[int, ...]:
        for node in self._up("zookeeper", site):
            try:
                return zookeeper.broker_ids(node.address, node.port, ASK_S)
            except ask.NoAnswer:
                continue  # nobody to ask: the broker will say what it meets
        return ()

    def add_log_dir(self, node: Node) -> None:
        """One more, empty, for a broker that is down."""
        self._log_dirs[node.name] = self._log_dirs.get(node.name, self.spec.log_dirs) + 1

    def wipe(self, node: Node) -> None:
        """An empty disk, for a node that is down."""
        disk = self._directory.data / node.name
        shutil.rmtree(disk, ignore_errors=True)
        if disk.exists():
            raise CannotHere(f"the disk of {node.name} could not be emptied")

    def log_tail(self, name: str) -> list[str]:
        try:
            lines = self._directory.log(name).read_text(errors="replace").splitlines()
        except OSError:
            return []
        return lines[-_LOG_TAIL_LINES:]

    # -- questions -------------------------------------------------------------------------------------------------

    def question(self, node: Node) -> ask.Broker:
        return self._questions.setdefault(node.name, ask.Broker(node.address, node.port, ASK_S))

    def answers(self, node: Node, timeout_s: float = ASK_S) -> bool:
        """Whether its program answers; a port that is open is not enough, for a paused process has one."""
        if node.role == "zookeeper":
            try:
                return zookeeper.mode(node.address, node.port, timeout_s) is not None
            except ask.NoAnswer:
                return False
        if node.role == "mirror":
            return _speaks_http(node, timeout_s)
        with ask.Broker(node.address, node.port, timeout_s) as fresh:
            return fresh.answers()

    def running_brokers(self, site: str | None = None) -> list[Node]:
        """Of one site, or of both."""
        brokers = [node for node in self.brokers if site in (None, node.site)]
        return [node for node in brokers if self._processes.state(node.name) == "running"]

    def views(self) -> dict[str, ask.Metadata]:
        """What each broker that answers says of the cluster."""
        asked = {node.name: self.question(node) for node in self.running_brokers()}
        answers = ask.ask_all(asked, lambda broker: broker.metadata(None))
        return {name: answer for name, answer in answers.items() if isinstance(answer, ask.Metadata)}

    def name_of(self, kafka_id: int) -> str:
        return next((node.name for node in self.servers if node.kafka_id == kafka_id and node.role != "zookeeper"), "?")

    def partitions(self, offsets: bool = False) -> list[PartitionView]:
        best: dict[tuple[str, int], tuple[tuple[int, bool], ask.Partition]] = {}
        for name, view in self.views().items():
            for said in _of_site(self.nodes[name].site, view.partitions):
                rank = (said.leader_epoch or 0, said.leader is not None and self.name_of(said.leader) == name)
                key = (said.topic, said.partition)
                if key not in best or rank > best[key][0]:
                    best[key] = (rank, said)
        views = [self._partition_view(said) for _, (_, said) in sorted(best.items())]
        return self._with_offsets(views) if offsets else views

    def _partition_view(self, said: ask.Partition) -> PartitionView:
        return PartitionView(
            said.topic,
            said.partition,
            self.name_of(said.leader) if said.leader is not None else None,
            said.leader_epoch,
            [self.name_of(replica) for replica in said.replicas],
            [self.name_of(replica) for replica in said.isr],
        )

    def _with_offsets(self, views: list[PartitionView]) -> list[PartitionView]:
        places = [(*placed(view.topic), view.partition) for view in views]
        said = {}
        for site in {site for site, _, _ in places}:
            wanted = [(topic, number) for where, topic, number in places if where == site]
            asked = {node.name: self.question(node) for node in self.running_brokers(site)}
            for name, answer in ask.ask_all(asked, methodcaller("offsets", wanted)).items():
                if not isinstance(answer, ask.NoAnswer):
                    said[name] = {(named(site, topic), number): own for (topic, number), own in answer.items()}
        result = []
        for view in views:
            key = (view.topic, view.partition)
            ends = {name: of[key].log_end for name, of in said.items() if key in of and name in view.replicas}
            own = said.get(view.leader or "", {}).get(key)
            result.append(
                msgspec.structs.replace(
                    view,
                    log_end={name: end for name, end in ends.items() if end is not None},
                    high_watermark=own.high_watermark if own else None,
                    log_start=own.log_start if own else None,
                )
            )
        return result

    # -- roles -----------------------------------------------------------------------------------------------------

    def roles(self) -> dict[str, Resolver]:
        return {
            **({site: self._of(site) for site in SITES} if self.spec.second else {}),
            "all-brokers": lambda _: [node.name for node in self.brokers],
            "quorum": self._quorum,
            "controller": lambda _: [self._known(self.controller(), "controller")],
            "zookeeper-leader": lambda _: [self._known(self.zookeeper_leader(), "zookeeper-leader")],
            "leader": lambda what: [self._known(self._partition("leader", what).leader, f"leader:{what}")],
            "follower": lambda what: self._followers("follower", what)[:1],
            "followers": lambda what: self._followers("followers", what),
            "coordinator": lambda what: [self._known(self._coordinator(what), f"coordinator:{what}")],
        }

    def _of(self, site: str) -> Resolver:
        return lambda _: [node.name for node in self.servers if node.site == site]

    def _quorum(self, number: str) -> list[str]:
        names = [node.name for node in self.spec.quorum_nodes]
        if not number:
            return names
        if not number.isdigit() or not 1 <= int(number) <= len(names):
            raise UsageProblem(f"quorum:{number}: the quorum has {len(names)} nodes, quorum:1 to quorum:{len(names)}")
        return [names[int(number) - 1]]

    def _known(self, name: str | None, role: str) -> str:
        if name is None:
            raise UsageProblem(f"{role}: there is none at this moment; `ackproof status` shows how the cluster stands")
        if name in self.nodes and self._processes.get(name) is None:
            raise UsageProblem(
                f"{role}: the cluster still names {name}, which is down: no other is elected yet, try again"
            )
        return name

    def _partition(self, role: str, what: str) -> PartitionView:
        topic, number = topic_partition(what, role)
        views = self.partitions()
        for view in views:
            if (view.topic, view.partition) == (topic, number):
                return view
        topics = sorted({view.topic for view in views if not view.topic.startswith("__")})
        raise UsageProblem(
            f"{role}:{what}: no such partition; "
            + (f"the topics are {', '.join(topics)}" if topics else "there is no topic yet: `ackproof topic create`")
        )

    def _followers(self, role: str, what: str) -> list[str]:
        view = self._partition(role, what)
        followers = [name for name in view.replicas if name != view.leader]
        if not followers:
            raise UsageProblem(f"{role}:{what}: the partition has no follower")
        # One in sync says most; and one that is not the controller besides, whom others would miss too.
        controller = self.controller() if self.spec.mode == "zookeeper" else None
        return sorted(followers, key=lambda name: (name not in view.isr, name == controller))

    def controller(self) -> str | None:
        """The active controller: in ZooKeeper mode what ZooKeeper holds, in KRaft the leader of the highest epoch."""
        if self.spec.mode == "kraft":
            asked = {node.name: self.question(node) for node in self._up("controller", FIRST_SITE)}
            said = ask.ask_all(asked, lambda broker: broker.quorum())
            known = [quorum for quorum in said.values() if isinstance(quorum, ask.Quorum)]
            return self.name_of(max(known, key=lambda quorum: quorum.leader_epoch).leader_id) if known else None
        for node in self._up("zookeeper", FIRST_SITE):
            try:
                number = zookeeper.controller_id(node.address, node.port, ASK_S)
            except ask.NoAnswer:
                continue  # alone, or still electing
            return None if number is None else self.name_of(number)
        return None

    def zookeeper_leader(self) -> str | None:
        if self.spec.mode == "kraft":
            raise UsageProblem("zookeeper-leader: a lab in kraft mode has no ZooKeeper; its like is `controller`")
        for node in self._up("zookeeper", FIRST_SITE):
            try:
                if zookeeper.mode(node.address, node.port, ASK_S) in ("leader", "standalone"):
                    return node.name
            except ask.NoAnswer:
                continue
        return None

    def _coordinator(self, what: str) -> str | None:
        """Of a group, or of the transactions of a producer."""
        site, own = placed(what)
        producer = own.removeprefix(TRANSACTION)
        key, of = (own, ask.GROUP) if producer == own else (producer, ask.TRANSACTION)
        for node in self.running_brokers(site):
            try:
                number = self.question(node).coordinator(key, of)
            except ask.NoAnswer:
                continue
            return self.name_of(number)
        return None

    def _up(self, role: str, site: str) -> list[Node]:
        those = [node for node in self.servers if (node.role, node.site) == (role, site)]
        return [node for node in those if self._processes.state(node.name) == "running"]

    # -- readiness -------------------------------------------------------------------------------------------------

    def wait_until_serving(
        self, names: Collection[str], progress: Progress, timeout_s: float = START_S, *, everyone: bool
    ) -> None:
        """Until each answers, and each broker's own metadata lists itself or, with `everyone`, all that are up."""
        deadline = time.monotonic() + timeout_s
        waiting = list(names)
        while waiting:
            for name in [name for name in waiting if self._serves(self.nodes[name], everyone)]:
                waiting.remove(name)
                progress(f"{name} serves")
            for name in waiting:
                if (how := self._processes.last_exit(name)) is not None and self._processes.get(name) is None:
                    raise CannotHere(f"{name} died while starting ({how}); its log ends:", self.log_tail(name))
            if waiting and time.monotonic() > deadline:
                raise CannotHere(
                    f"{', '.join(waiting)} did not serve within {timeout_s:.0f} s; the log of {waiting[0]} ends:",
                    self.log_tail(waiting[0]),
                )
            if waiting:
                time.sleep(_POLL_S)

    def _serves(self, node: Node, everyone: bool) -> bool:
        if node.role != "broker":
            return self.answers(node)
        try:
            listed = {broker.id for broker in self.question(node).metadata([]).brokers}
        except ask.NoAnswer:
            return False
        return {peer.kafka_id for peer in (self.running_brokers(node.site) if everyone else [node])} <= listed


def _of_site(site: str, partitions: Collection[ask.Partition]) -> list[ask.Partition]:
    return [msgspec.structs.replace(said, topic=named(site, said.topic)) for said in partitions]


def _speaks_http(node: Node, timeout_s: float) -> bool:
    connection = HTTPConnection(node.address, node.port, timeout=timeout_s)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status > 0
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
