"""A lab as data: its nodes and settings. Pure: everything else is computed from it and never stored.

Addresses come from 198.18.0.0/15, the range reserved for network tests, so that a stray packet could not reach a real
host: brokers are 198.18.1.N, ZooKeeper nodes or controllers 198.18.2.N, clients 198.18.3.N. Those of a second site are
198.19.1.N and 198.19.2.N, and the mirror, which is at the second site, is 198.19.4.1.

Nodes of the first site have plain names, those of the second are named like `dc2.kafka1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from ackproof.core.cluster_guard import refuse_elsewhere
from ackproof.core.errors import UsageProblem
from ackproof.core.sites import FIRST_SITE, SECOND_SITE, Mirror

Mode = Literal["zookeeper", "kraft"]
Role = Literal["broker", "zookeeper", "controller", "mirror", "client"]

BROKERS_MAX = 9
LOG_DIRS_MAX = 9
QUORUM_SIZES = (1, 3, 5)
DEFAULT_NAME = "lab"

BROKER_PORT = 9092
EXPOSED_PORT = 19092
USERS_PORT = 9094
ZOOKEEPER_PORT = 2181
CONTROLLER_PORT = 9093
MIRROR_PORT = 8083
CONTROLLER_ID_BASE = 100  # in KRaft, brokers (1..9) and controllers (101..105) share one range of ids
SECOND_ID_BASE = 200  # both sites share the range too, so that an id names one node

_NETWORKS = {FIRST_SITE: "198.18", SECOND_SITE: "198.19"}
_SUBNETS: dict[Role, int] = {"broker": 1, "zookeeper": 2, "controller": 2, "client": 3, "mirror": 4}
_PORTS: dict[Role, int] = {
    "broker": BROKER_PORT,
    "zookeeper": ZOOKEEPER_PORT,
    "controller": CONTROLLER_PORT,
    "mirror": MIRROR_PORT,
}
OBSERVER_ADDRESS = "198.18.255.254"

# Settings that the lab itself decides: overriding them would break it.
OWN_KEYS = frozenset(
    {
        "broker.id",
        "node.id",
        "process.roles",
        "listeners",
        "advertised.listeners",
        "zookeeper.connect",
        "controller.quorum.voters",
        "controller.listener.names",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "clientPort",
        "dataDir",
        "clusters",
    }
)
SCOPES = ("broker", "zookeeper", "controller", "mirror", "all")


class Setting(msgspec.Struct, frozen=True):
    """`scope.key=value`: the scope is a role, the name of a node, or `all`. The key `jvm` adds options of the JVM."""

    scope: str
    key: str
    value: str

    @staticmethod
    def parse(text: str) -> Setting:
        name, separator, value = text.partition("=")
        scope, dot, key = name.strip().partition(".")
        if not (separator and dot and scope and key):
            raise UsageProblem(
                f"--set {text}: write it as SCOPE.KEY=VALUE, for example broker.min.insync.replicas=2, "
                "kafka2.jvm=-Xmx512m or zookeeper.tickTime=1000"
            )
        return Setting(scope, key, value)


class Node(msgspec.Struct, frozen=True):
    name: str
    role: Role
    number: int
    rack: str | None = None
    site: str = FIRST_SITE

    @property
    def address(self) -> str:
        return f"{_NETWORKS[self.site]}.{_SUBNETS[self.role]}.{self.number}"

    @property
    def port(self) -> int:
        """The port on which it serves. A client has none."""
        return _PORTS[self.role]

    @property
    def kafka_id(self) -> int:
        of_role = CONTROLLER_ID_BASE if self.role == "controller" else 0
        return self.number + of_role + (SECOND_ID_BASE if self.site == SECOND_SITE else 0)


CLIENT = Node("client", "client", 1)
CLIENTS_MAX = 9
MIRROR = Node("mirror", "mirror", 1, site=SECOND_SITE)


def client(number: int) -> Node:
    """A node for clients: a namespace with an address and without a server."""
    return CLIENT if number == 1 else Node(f"client{number}", "client", number)


class LabSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kafka: str
    name: str = DEFAULT_NAME
    mode: Mode = "zookeeper"
    brokers: int = 3
    quorum: int = 3
    racks: tuple[str, ...] = ()
    log_dirs: int = 1
    settings: tuple[Setting, ...] = ()
    expose: bool = False
    users: tuple[str, ...] = ()  # if there are any, brokers authenticate and authorize them
    clients: int = 1  # nodes for clients
    second: int = 0  # brokers of a second cluster, which has a quorum of one
    mirror: Mirror = "none"
    site: str = FIRST_SITE

    def of(self, site: str) -> LabSpec:
        """The spec of one of the two clusters, as if it were alone."""
        if site == FIRST_SITE:
            return self
        return msgspec.structs.replace(self, site=site, brokers=self.second, quorum=1, racks=(), second=0)

    def _node(self, name: str, role: Role, number: int, rack: str | None = None) -> Node:
        return Node(name if self.site == FIRST_SITE else f"{self.site}.{name}", role, number, rack, self.site)

    def broker(self, number: int) -> Node:
        rack = self.racks[(number - 1) % len(self.racks)] if self.racks else None
        return self._node(f"kafka{number}", "broker", number, rack)

    @property
    def quorum_nodes(self) -> tuple[Node, ...]:
        if self.mode == "zookeeper":
            return tuple(self._node(f"zk{number}", "zookeeper", number) for number in range(1, self.quorum + 1))
        return tuple(self._node(f"controller{number}", "controller", number) for number in range(1, self.quorum + 1))

    @property
    def broker_nodes(self) -> tuple[Node, ...]:
        return tuple(self.broker(number) for number in range(1, self.brokers + 1))

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Every node at the start of the lab, in the order in which they are started."""
        second = self.of(SECOND_SITE)
        of_second = (*second.quorum_nodes, *second.broker_nodes) if self.second else ()
        mirror = () if self.mirror == "none" else (MIRROR,)
        clients = (client(number) for number in range(1, self.clients + 1))
        return (*self.quorum_nodes, *self.broker_nodes, *of_second, *mirror, *clients)

    def jvm(self, node: Node) -> list[str]:
        """The options for this node's JVM, of all scopes; those of the narrower scope come last, so that they win."""
        scopes = ("all", node.role, node.name)
        return [each.value for scope in scopes for each in self.settings if (each.scope, each.key) == (scope, "jvm")]

    def overrides(self, node: Node) -> dict[str, str]:
        """The settings for this node. The narrower scope wins, then the later setting."""
        return {
            setting.key: setting.value
            for scope in ("all", node.role, node.name)
            for setting in self.settings
            if setting.scope == scope
        }


def check_name(name: str) -> str:
    refuse_elsewhere(name)
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,31}", name):
        raise UsageProblem(
            f"a lab cannot be named {name!r}: use up to 32 small letters, digits, - and _, "
            "beginning with a letter or digit"
        )
    return name


def check(spec: LabSpec) -> LabSpec:
    """Return the spec, or raise UsageProblem with all its problems, before anything is started."""
    problems = [*_problem_of(check_name, spec.name), *_problem_of(release, spec.kafka)]
    if not 1 <= spec.brokers <= BROKERS_MAX:
        problems.append(f"--brokers {spec.brokers}: a lab has 1 to {BROKERS_MAX} brokers")
    if spec.quorum not in QUORUM_SIZES:
        problems.append(f"--quorum {spec.quorum}: an ensemble has 1, 3 or 5 nodes")
    if not 1 <= spec.log_dirs <= LOG_DIRS_MAX:
        problems.append(f"--log-dirs {spec.log_dirs}: a broker has 1 to {LOG_DIRS_MAX} log directories")
    if not 0 <= spec.second <= BROKERS_MAX:
        problems.append(f"--second {spec.second}: a second cluster has up to {BROKERS_MAX} brokers")
    if spec.mirror != "none" and not spec.second:
        problems.append(f"--mirror {spec.mirror}: there is no second cluster to mirror to; use --second 1")
    if not _problem_of(release, spec.kafka):
        problems += _version_problems(spec)
    problems += _setting_problems(spec)
    if problems:
        raise UsageProblem(
            problems[0] if len(problems) == 1 else f"{len(problems)} problems:", problems[1:] and problems
        )
    return spec


def _problem_of(look: Callable[[str], object], text: str) -> list[str]:
    try:
        look(text)
    except UsageProblem as problem:
        return [problem.message]
    return []


def _version_problems(spec: LabSpec) -> list[str]:
    major, minor = release(spec.kafka)
    if major not in (3, 4):
        return [f"--kafka {spec.kafka}: only 3.x and 4.x are supported"]
    if spec.mode == "zookeeper" and major >= 4:
        return [f"Kafka {spec.kafka} has no ZooKeeper mode: use --mode kraft, or a 3.x version"]
    if spec.mode == "kraft" and (major, minor) < (3, 3):
        return [f"Kafka {spec.kafka} has KRaft only as a preview: use 3.3 or newer, or --mode zookeeper"]
    return []


def release(version: str) -> tuple[int, int]:
    if not re.fullmatch(r"\d{1,2}\.\d{1,2}\.\d{1,2}", version):
        raise UsageProblem(f"--kafka {version}: write the full version, for example 3.9.2 or 4.3.1")
    major, minor, _ = version.split(".")
    return int(major), int(minor)


def _setting_problems(spec: LabSpec) -> list[str]:
    names = {node.name for node in spec.nodes if node.role != "client"}
    absent = "controller" if spec.mode == "zookeeper" else "zookeeper"
    problems = []
    for setting in spec.settings:
        written = f"--set {setting.scope}.{setting.key}"
        if setting.scope == absent:
            problems.append(f"{written}: a lab in {spec.mode} mode has no {absent} nodes")
        elif setting.scope not in SCOPES and setting.scope not in names:
            known = ", ".join((*SCOPES, *sorted(names)))
            problems.append(f"{written}: no such scope; it is one of {known}")
        elif setting.key in OWN_KEYS:
            problems.append(f"{written}: the lab sets {setting.key} itself")
        elif setting.scope == "all" and setting.key != "jvm":
            problems.append(f"{written}: 'all' takes only jvm; brokers and ZooKeeper have different settings")
        elif {"\n", "\r"} & set(setting.value) or not re.fullmatch(r"[A-Za-z0-9._-]+", setting.key):
            problems.append(f"{written}: write the name of a setting and a value without line breaks")
    return problems
