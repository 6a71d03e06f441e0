"""What each node is started with: its properties, its logging, its JVM options. Pure: `cluster` writes the files.

The settings are Kafka's defaults, except for the times on which scenarios rely (sessions of 6 s, a replica may lag
10 s), internal topics with few partitions, so that three brokers on two cores are not busy with themselves, and no
delay before the first rebalance. Each setting can be overridden, for a role or for one node.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ackproof.core.sites import FIRST_SITE, SECOND_SITE, SITES
from ackproof.lab import access_control as access
from ackproof.lab.spec import (
    BROKER_PORT,
    CONTROLLER_PORT,
    EXPOSED_PORT,
    MIRROR_PORT,
    USERS_PORT,
    ZOOKEEPER_PORT,
    LabSpec,
    Node,
    release,
)

JVM_ALWAYS = (
    "-XX:-UsePerfData",  # its file is named after the pid, and two labs can have the same pids
    "-XX:+ExitOnOutOfMemoryError",  # a node without memory must end visibly
    "-XX:+UseSerialGC",  # needs the least memory and, on few cores, starts fastest
    "-XX:TieredStopAtLevel=1",  # starts in a third less time; jvm=-XX:TieredStopAtLevel=4 gives full speed
    "-Djava.net.preferIPv4Stack=true",
    "-Djava.awt.headless=true",
    "-Duser.timezone=UTC",  # the report compares the times of log lines with the journal's
    "-Dsun.net.inetaddr.negative.ttl=0",  # the name of a node added later must resolve at once
)
_HEAP = {
    "broker": ("-Xms64m", "-Xmx256m"),
    "controller": ("-Xms32m", "-Xmx128m"),
    "zookeeper": ("-Xms16m", "-Xmx64m"),
    "mirror": ("-Xms64m", "-Xmx256m"),
}
MEMORY_MB = {"broker": 400, "controller": 250, "zookeeper": 120, "mirror": 500}  # resident memory to expect
CLIENT_MB = 50  # for a producer or consumer of ours: 200 of them took 10 GB


class NodeFiles(NamedTuple):
    """The folders of a node's settings and of its data."""

    settings: Path
    data: Path

    def log_dirs(self, count: int) -> list[Path]:
        return [self.data / f"log{number}" for number in range(1, count + 1)]


def properties(
    spec: LabSpec,
    node: Node,
    files: NodeFiles,
    exposed_port: int | None = None,
    passwords: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    make = {"broker": _broker, "controller": _controller, "zookeeper": _zookeeper, "mirror": _mirror}[node.role]
    overrides = {key: value for key, value in spec.overrides(node).items() if key != "jvm"}
    of_site = spec if node.role == "mirror" else spec.of(node.site)
    return {**make(of_site, node, files, exposed_port), **_access_settings(spec, node, passwords), **overrides}


def _access_settings(spec: LabSpec, node: Node, passwords: Mapping[str, str]) -> dict[str, str]:
    if not spec.users or node.role in ("zookeeper", "mirror"):
        return {}
    listener = access.users_listener(spec.users, passwords) if node.role == "broker" else {}
    return {**access.authorizer(spec.mode), **listener}


def _zookeeper(spec: LabSpec, node: Node, files: NodeFiles, _: int | None) -> dict[str, str]:
    ensemble = {f"server.{peer.number}": f"{peer.name}:2888:3888" for peer in spec.quorum_nodes}
    return {
        "tickTime": "2000",
        "initLimit": "20",
        "syncLimit": "5",
        "dataDir": str(files.data),
        "clientPort": str(ZOOKEEPER_PORT),
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "srvr,ruok,mntr,cons,dump,stat",
        **(ensemble if spec.quorum > 1 else {}),
    }


def _broker(spec: LabSpec, node: Node, files: NodeFiles, exposed_port: int | None) -> dict[str, str]:
    replicas = str(min(3, spec.brokers))
    listeners = {"PLAINTEXT": (f"{node.name}:{BROKER_PORT}", f"{node.name}:{BROKER_PORT}")}
    if exposed_port is not None:
        listeners["EXPOSED"] = (f"{node.name}:{EXPOSED_PORT}", f"127.0.0.1:{exposed_port}")
    if spec.users:
        listeners[access.LISTENER] = (f"{node.name}:{USERS_PORT}", f"{node.name}:{USERS_PORT}")
    protocols = {name: "SASL_PLAINTEXT" if name == access.LISTENER else "PLAINTEXT" for name in listeners}
    protocols |= {"CONTROLLER": "PLAINTEXT"} if spec.mode == "kraft" else {}
    settings = {
        "listeners": ",".join(f"{name}://{where}" for name, (where, _) in listeners.items()),
        "advertised.listeners": ",".join(f"{name}://{where}" for name, (_, where) in listeners.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": ",".join(str(path) for path in files.log_dirs(spec.log_dirs)),
        "default.replication.factor": replicas,
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "false",
        "replica.lag.time.max.ms": "10000",
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "10",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "10",
        "group.initial.rebalance.delay.ms": "0",
    }
    if node.rack:
        settings["broker.rack"] = node.rack
    if spec.mode == "kraft":
        return settings | _kraft(spec, node, "broker")
    connect = ",".join(f"{peer.name}:{ZOOKEEPER_PORT}" for peer in spec.quorum_nodes)
    return settings | {
        "broker.id": str(node.kafka_id),
        "zookeeper.connect": connect,
        "zookeeper.session.timeout.ms": "6000",
        "zookeeper.connection.timeout.ms": "30000",
    }


def _controller(spec: LabSpec, node: Node, files: NodeFiles, _: int | None) -> dict[str, str]:
    return {
        **_kraft(spec, node, "controller"),
        "listeners": f"CONTROLLER://{node.name}:{CONTROLLER_PORT}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(files.log_dirs(1)[0]),
        "default.replication.factor": str(min(3, spec.brokers)),
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "false",
        # The controllers keep a broker registered as long as a session of ZooKeeper would last.
        "broker.session.timeout.ms": "6000",
    }


def _kraft(spec: LabSpec, node: Node, role: str) -> dict[str, str]:
    voters = ",".join(f"{peer.kafka_id}@{peer.name}:{CONTROLLER_PORT}" for peer in spec.quorum_nodes)
    return {
        "process.roles": role,
        "node.id": str(node.kafka_id),
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
    }


def _mirror(spec: LabSpec, node: Node, _: NodeFiles, __: int | None) -> dict[str, str]:
    """MirrorMaker 2, with intervals of one second, so that its work can be seen within a run."""
    sites = {site: spec.of(site).broker_nodes for site in SITES}
    settings = {
        "clusters": ", ".join(sites),
        "listeners": f"http://{node.name}:{MIRROR_PORT}",
        "dedicated.mode.enable.internal.rest": "true",  # the only way to ask whether it runs
        "topics": ".*",
        "groups": ".*",
        "refresh.topics.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "sync.topic.acls.enabled": "false",  # there is no authorizer
    }
    for site, brokers in sites.items():
        other = SECOND_SITE if site == FIRST_SITE else FIRST_SITE
        replicas, of_other = (str(min(3, len(sites[each]))) for each in (site, other))
        flow = f"{other}->{site}"
        settings |= {
            f"{site}.bootstrap.servers": ",".join(f"{each.name}:{BROKER_PORT}" for each in brokers),
            **{f"{site}.{kind}.storage.replication.factor": replicas for kind in ("config", "offset", "status")},
            **{f"{site}.{kind}.storage.partitions": "1" for kind in ("offset", "status")},
            f"{site}.offset.flush.interval.ms": "1000",
            # A worker that was cut off comes back as a new member, and would wait five minutes for the old one.
            f"{site}.scheduled.rebalance.max.delay.ms": "0",
            f"{flow}.enabled": str(site == SECOND_SITE or spec.mirror == "both-ways").lower(),
            f"{flow}.replication.factor": replicas,
            f"{flow}.checkpoints.topic.replication.factor": replicas,
            f"{flow}.heartbeats.topic.replication.factor": "1",
            f"{flow}.offset-syncs.topic.replication.factor": of_other,
        }
    return settings


def meta_properties(node: Node, cluster_id: str) -> dict[str, str]:
    """The meta.properties of a KRaft log directory, as formatting would write it. Kafka adds the directory's id."""
    return {"version": "1", "cluster.id": cluster_id, "node.id": str(node.kafka_id)}


def kafka_uuid(seed: str) -> str:
    """Sixteen bytes in Kafka's notation. It accepts no id that begins with a dash."""
    digest = hashlib.sha256(seed.encode()).digest()[:16]
    return base64.urlsafe_b64encode(digest).decode().rstrip("=").replace("-", "A")


_MAIN_CLASSES = {
    "zookeeper": "org.apache.zookeeper.server.quorum.QuorumPeerMain",
    "mirror": "org.apache.kafka.connect.mirror.MirrorMaker",
}


def main_class(node: Node) -> str:
    return _MAIN_CLASSES.get(node.role, "kafka.Kafka")


def jvm_options(spec: LabSpec, node: Node, temporary: Path) -> list[str]:
    """The options of a node's JVM. The user's options come last, so that they win."""
    own = [option for text in spec.jvm(node) for option in text.split()]
    files = (f"-Djava.io.tmpdir={temporary}", f"-XX:ErrorFile={temporary}/died.log")  # written if the JVM crashes
    return [*_HEAP[node.role], *JVM_ALWAYS, *files, *own]


class Logging(NamedTuple):
    file_name: str
    text: str
    option: str  # {path} stands for the path of the file


_LOG_PATTERN = "[%d] %p %m (%c)%n"


def logging(kafka_version: str, level: str = "INFO") -> Logging:
    """Log one line per record to standard output, which is the node's log file. Tools log to standard error."""
    target = "System.out" if level == "INFO" else "System.err"
    if release(kafka_version) >= (4, 0):
        lines = [
            "appender.out.type=Console",
            "appender.out.name=out",
            f"appender.out.target={'SYSTEM_OUT' if level == 'INFO' else 'SYSTEM_ERR'}",
            "appender.out.layout.type=PatternLayout",
            f"appender.out.layout.pattern={_LOG_PATTERN}",
            f"rootLogger.level={level}",
            "rootLogger.appenderRef.out.ref=out",
        ]
        return Logging("log4j2.properties", "\n".join(lines) + "\n", "-Dlog4j2.configurationFile={path}")
    lines = [
        f"log4j.rootLogger={level}, out",
        "log4j.appender.out=org.apache.log4j.ConsoleAppender",
        f"log4j.appender.out.target={target}",
        "log4j.appender.out.layout=org.apache.log4j.PatternLayout",
        f"log4j.appender.out.layout.ConversionPattern={_LOG_PATTERN}",
        # At each start it prints the whole environment of the machine, which says nothing about the cluster.
        "log4j.logger.org.apache.zookeeper.Environment=WARN",
    ]
    return Logging("log4j.properties", "\n".join(lines) + "\n", "-Dlog4j.configuration=file:{path}")


def properties_text(values: Mapping[str, str]) -> str:
    """The text of a properties file, as java.util.Properties reads it."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in values.items())


def _escaped(text: str) -> str:
    plain = (
        text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t").replace("\f", "\\f")
    )
    plain = "\\ " + plain[1:] if plain.startswith(" ") else plain
    return "".join(char if ord(char) < 0x7F else _as_utf16(char) for char in plain)


def _as_utf16(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place]:02x}{units[place + 1]:02x}" for place in range(0, len(units), 2))
