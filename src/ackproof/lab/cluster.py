"""The cluster: the files and processes of its nodes, and the wait until they serve."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ackproof.core.errors import CannotHere, UsageProblem
from ackproof.core.sites import FIRST_SITE
from ackproof.host.processes import Processes
from ackproof.lab import node_config as config
from ackproof.lab.cluster_state import ClusterState
from ackproof.lab.directory import LabDirectory
from ackproof.lab.network.router import Network, network_here
from ackproof.lab.spec import BROKERS_MAX, LabSpec, Node

START_S = 90.0
FORGET_S = 60.0
_POLL_S = 0.05
_LOG_TAIL_LINES = 12

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Program:
    """What the nodes execute. It was fetched and verified before the lab started."""

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
        self.state = ClusterState(spec, self.nodes, processes)
        self.cluster_id = config.kafka_uuid(f"{directory.path} {time.time_ns()}")
        self._directory = directory
        self._program = program
        self._network = network
        self._processes = processes
        self._exposed = exposed
        self._passwords = {user: secrets.token_urlsafe(18) for user in spec.users}
        if spec.users:
            directory.users.write_bytes(msgspec.json.encode(self._passwords))
        self._log_dirs: dict[str, int] = {}  # of brokers that got additional ones

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
            raise UsageProblem(f"this lab already has {BROKERS_MAX} brokers, the most that a lab can have")
        return self.spec.broker(number)

    def adopt(self, node: Node) -> None:
        """Add a node to the network, and its name to the hosts file of the lab."""
        with network_here():
            self._network.attach(node.name, node.address)
        self.nodes[node.name] = node
        self.write_hosts()

    def forget(self, node: Node) -> None:
        self.nodes.pop(node.name)
        self._network.detach(node.name)
        self.write_hosts()

    def write_hosts(self) -> None:
        """Write the names of all nodes in place, because the file is mounted over /etc/hosts."""
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

    def add_log_dir(self, node: Node) -> None:
        """Give a broker that is down one more log directory, empty."""
        self._log_dirs[node.name] = self._log_dirs.get(node.name, self.spec.log_dirs) + 1

    def wipe(self, node: Node) -> None:
        """Empty the disk of a node that is down."""
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

    # -- readiness -------------------------------------------------------------------------------------------------

    def wait_until_serving(
        self, names: Collection[str], progress: Progress, timeout_s: float = START_S, *, everyone: bool
    ) -> None:
        """Wait until each node answers, and each broker knows itself or, with `everyone`, every running broker."""
        deadline = time.monotonic() + timeout_s
        waiting = list(names)
        while waiting:
            for name in [name for name in waiting if self.state.serves(self.nodes[name], knows_all=everyone)]:
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

    def wait_until_forgotten(self, node: Node, progress: Progress) -> None:
        """Wait until ZooKeeper gives up the broker's former session. Before that, the broker would start and exit."""
        deadline = time.monotonic() + FORGET_S
        told = False
        while self.spec.mode == "zookeeper" and node.role == "broker" and time.monotonic() < deadline:
            if node.kafka_id not in self.state.registered(node.site):
                return
            if not told:
                progress(f"waiting until ZooKeeper gives up the old session of {node.name}")
                told = True
            time.sleep(_POLL_S)
