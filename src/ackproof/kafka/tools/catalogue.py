"""Every tool of Kafka's distribution, 3.x and 4.x, as data: what its shell script would start.

A tool's main class moved between releases (from `kafka.admin` and `kafka.tools` to `org.apache.kafka.tools`), so each
lists its candidates, newest first; the jars at hand decide. `bootstrap` says how the tool takes the address of the
cluster. For tools that Kafka dropped, and names that people try, it names the replacement.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Bootstrap = Literal[
    "server",  # --bootstrap-server, before everything else
    "server-last",  # --bootstrap-server, after a subcommand
    "broker-list",  # --broker-list
    "producer",  # --bootstrap-server, or bootstrap.servers among --producer-props
    "positional",  # the first argument
    "zookeeper",  # -server, followed by the command
    "zookeeper.connect",  # --zookeeper.connect
    "none",
]


class Tool(msgspec.Struct, frozen=True):
    summary: str
    classes: tuple[str, ...]
    bootstrap: Bootstrap = "server"
    also: tuple[str, ...] = ()
    """Other options that name the cluster. If one of them is given, no address is filled in."""
    alone: bool = False
    """Whether the tool needs no arguments but the bootstrap server. Others print their usage without arguments."""
    heap_mb: int = 256
    since: str | None = None
    instead: str | None = None
    """What to do if this Kafka no longer has the tool."""


def _moved(name: str, old_package: str, new_package: str = "org.apache.kafka.tools") -> tuple[str, ...]:
    return (f"{new_package}.{name}", f"{old_package}.{name}")


NO_ZOOKEEPER = "Kafka 4.0 left ZooKeeper behind: use a lab with `--mode zookeeper`, or"
CONTROLLER = ("--bootstrap-controller",)
OLD_LIST = ("--broker-list",)

TOOLS: dict[str, Tool] = {
    "acls": Tool(
        "who may do what",
        _moved("AclCommand", "kafka.admin"),
        also=(*CONTROLLER, "--authorizer", "--authorizer-properties"),
    ),
    "broker-api-versions": Tool(
        "the protocol versions that each broker speaks",
        _moved("BrokerApiVersionsCommand", "kafka.admin"),
        also=CONTROLLER,
        alone=True,
    ),
    "client-metrics": Tool(
        "which metrics clients push to the brokers", ("org.apache.kafka.tools.ClientMetricsCommand",), since="3.7"
    ),
    "cluster": Tool(
        "the cluster's id; unregister a broker", _moved("ClusterTool", "kafka.tools"), "server-last", also=CONTROLLER
    ),
    "configs": Tool(
        "settings of topics, brokers, clients and users, SCRAM credentials among them",
        _moved("ConfigCommand", "kafka.admin"),
        also=(*CONTROLLER, "--zookeeper"),
    ),
    "connect-distributed": Tool(
        "a Connect worker of a cluster", ("org.apache.kafka.connect.cli.ConnectDistributed",), "none", heap_mb=1024
    ),
    "connect-mirror-maker": Tool(
        "MirrorMaker 2: copies topics between clusters",
        ("org.apache.kafka.connect.mirror.MirrorMaker",),
        "none",
        heap_mb=1024,
    ),
    "connect-plugin-path": Tool(
        "Connect's plugins and their manifests", ("org.apache.kafka.tools.ConnectPluginPath",), "none", since="3.6"
    ),
    "connect-standalone": Tool(
        "a Connect worker on its own", ("org.apache.kafka.connect.cli.ConnectStandalone",), "none", heap_mb=1024
    ),
    "console-consumer": Tool(
        "records of a topic to the terminal",
        _moved("ConsoleConsumer", "kafka.tools", "org.apache.kafka.tools.consumer"),
        heap_mb=512,
    ),
    "console-producer": Tool(
        "lines of the terminal to a topic", _moved("ConsoleProducer", "kafka.tools"), also=OLD_LIST, heap_mb=512
    ),
    "console-share-consumer": Tool(
        "records of a topic to the terminal, through a share group",
        ("org.apache.kafka.tools.consumer.ConsoleShareConsumer",),
        heap_mb=512,
        since="4.0",
    ),
    "consumer-groups": Tool(
        "groups: members, offsets and lag; reset and delete",
        _moved("ConsumerGroupCommand", "kafka.admin", "org.apache.kafka.tools.consumer.group"),
    ),
    "consumer-perf-test": Tool(
        "how fast a consumer reads", _moved("ConsumerPerformance", "kafka.tools"), also=OLD_LIST, heap_mb=512
    ),
    "delegation-tokens": Tool("delegation tokens", _moved("DelegationTokenCommand", "kafka.admin")),
    "delete-records": Tool("deletes records before an offset", _moved("DeleteRecordsCommand", "kafka.admin")),
    "dump-log": Tool("the inside of log segments", _moved("DumpLogSegments", "kafka.tools"), "none"),
    "e2e-latency": Tool(
        "the time from producer to consumer", _moved("EndToEndLatency", "kafka.tools"), "positional", heap_mb=512
    ),
    "features": Tool("the cluster's feature levels", _moved("FeatureCommand", "kafka.admin"), also=CONTROLLER),
    "get-offsets": Tool(
        "the offsets of partitions", _moved("GetOffsetShell", "kafka.tools"), also=OLD_LIST, alone=True
    ),
    "groups": Tool("groups of all types", ("org.apache.kafka.tools.GroupsCommand",), since="4.0"),
    "jmx": Tool("JMX values to the terminal", _moved("JmxTool", "kafka.tools"), "none"),
    "leader-election": Tool(
        "elects leaders: preferred or unclean", _moved("LeaderElectionCommand", "kafka.admin"), also=CONTROLLER
    ),
    "log-dirs": Tool("disk usage of log directories", _moved("LogDirsCommand", "kafka.admin")),
    "metadata-quorum": Tool(
        "the KRaft quorum", ("org.apache.kafka.tools.MetadataQuorumCommand",), also=CONTROLLER, since="3.3"
    ),
    "metadata-shell": Tool("browses a KRaft metadata log", ("org.apache.kafka.shell.MetadataShell",), "none"),
    "mirror-maker": Tool(
        "the old mirror maker",
        ("kafka.tools.MirrorMaker",),
        "none",
        instead="Kafka 4.0 dropped the old MirrorMaker; MirrorMaker 2 took its place: "
        "`ackproof kafka connect-mirror-maker mm2.properties`",
    ),
    "producer-perf-test": Tool(
        "how fast a producer writes", ("org.apache.kafka.tools.ProducerPerformance",), "producer", heap_mb=512
    ),
    "reassign-partitions": Tool(
        "moves partitions between brokers",
        _moved("ReassignPartitionsCommand", "kafka.admin", "org.apache.kafka.tools.reassign"),
        also=CONTROLLER,
    ),
    "replica-verification": Tool(
        "whether all replicas hold the same",
        _moved("ReplicaVerificationTool", "kafka.tools"),
        "broker-list",
        alone=True,
        instead="this Kafka has no replica-verification; compare the replicas' log ends with "
        "`ackproof topic watermarks TOPIC`, or their segments with `ackproof kafka dump-log --files FILE`",
    ),
    "share-consumer-perf-test": Tool(
        "how fast a share consumer reads",
        ("org.apache.kafka.tools.ShareConsumerPerformance",),
        heap_mb=512,
        since="4.1",
    ),
    "share-groups": Tool(
        "share groups: describe, reset, delete",
        ("org.apache.kafka.tools.consumer.group.ShareGroupCommand",),
        since="4.0",
    ),
    "storage": Tool("formats and inspects KRaft storage", _moved("StorageTool", "kafka.tools"), "none"),
    "streams-application-reset": Tool(
        "lets a Streams application start over",
        _moved("StreamsResetter", "kafka.tools"),
        also=("--bootstrap-servers",),
        heap_mb=512,
    ),
    "streams-groups": Tool(
        "Streams groups: describe, reset, delete",
        ("org.apache.kafka.tools.streams.StreamsGroupCommand",),
        since="4.1",
    ),
    "topics": Tool("creates, describes, changes and deletes topics", _moved("TopicCommand", "kafka.admin")),
    "transactions": Tool("open and hanging transactions", ("org.apache.kafka.tools.TransactionsCommand",)),
    "verifiable-consumer": Tool(
        "a consumer that reports what it read as JSON",
        ("org.apache.kafka.tools.VerifiableConsumer",),
        also=OLD_LIST,
        heap_mb=512,
    ),
    "verifiable-producer": Tool(
        "a producer that reports each acknowledgement as JSON",
        ("org.apache.kafka.tools.VerifiableProducer",),
        also=OLD_LIST,
        heap_mb=512,
    ),
    "verifiable-share-consumer": Tool(
        "a share consumer that reports what it read as JSON",
        ("org.apache.kafka.tools.VerifiableShareConsumer",),
        heap_mb=512,
        since="4.1",
    ),
    "zookeeper-security-migration": Tool(
        "the ACLs of what Kafka keeps in ZooKeeper",
        ("kafka.admin.ZkSecurityMigrator",),
        "zookeeper.connect",
        instead=f"{NO_ZOOKEEPER} keep access rules with `ackproof kafka acls --list`",
    ),
    "zookeeper-shell": Tool(
        "browses ZooKeeper",
        ("org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka", "org.apache.zookeeper.ZooKeeperMain"),
        "zookeeper",
        instead=f"{NO_ZOOKEEPER} look into the quorum with `ackproof kafka metadata-quorum describe --status`",
    ),
}

# One script for four programs: the first argument chooses.
TROGDOR: dict[str, str] = {
    "agent": "org.apache.kafka.trogdor.agent.Agent",
    "agent-client": "org.apache.kafka.trogdor.agent.AgentClient",
    "client": "org.apache.kafka.trogdor.coordinator.CoordinatorClient",
    "coordinator": "org.apache.kafka.trogdor.coordinator.Coordinator",
}

# Kafka's scripts that start and stop servers are commands of the lab.
VERBS: dict[str, Literal["start", "stop"]] = {
    "server-start": "start",
    "server-stop": "stop",
    "zookeeper-server-start": "start",
    "zookeeper-server-stop": "stop",
}

_CREATE = "`ackproof kafka topics --create --topic orders --partitions 3 --replication-factor 3`"
_REASSIGN = "`ackproof kafka reassign-partitions --reassignment-json-file plan.json --verify`"

# Tools that Kafka no longer has, and their replacements.
DROPPED: dict[str, str] = {
    "add-partitions": "kafka-topics took its place: `ackproof kafka topics --alter --topic orders --partitions 6`",
    "check-reassignment-status": f"kafka-reassign-partitions took its place: {_REASSIGN}",
    "consumer-offset-checker": "kafka-consumer-groups took its place: "
    "`ackproof kafka consumer-groups --describe --group GROUP`",
    "consumer-shell": "kafka-console-consumer took its place: "
    "`ackproof kafka console-consumer --topic orders --from-beginning`",
    "create-topic": f"kafka-topics took its place: {_CREATE}",
    "delete-topic": "kafka-topics took its place: `ackproof kafka topics --delete --topic orders`",
    "list-topic": "kafka-topics took its place: `ackproof kafka topics --list`",
    "preferred-replica-election": "kafka-leader-election took its place in Kafka 3.0: "
    "`ackproof kafka leader-election --election-type preferred --all-topic-partitions`",
    "producer-shell": "kafka-console-producer took its place: `ackproof kafka console-producer --topic orders`",
    "replay-log-producer": "a console consumer and a console producer took its place: "
    "`ackproof kafka console-consumer --topic orders --from-beginning --timeout-ms 5000 | "
    "ackproof kafka console-producer --topic copy`",
    "simple-consumer-perf-test": "kafka-consumer-perf-test took its place: "
    "`ackproof kafka consumer-perf-test --topic orders --messages 1000`",
    "simple-consumer-shell": "kafka-console-consumer took its place, with --partition and --offset: "
    "`ackproof kafka console-consumer --topic orders --partition 0 --offset 42 --max-messages 1`",
    "user-scram": "SCRAM credentials are settings of users: "
    "`ackproof kafka configs --alter --add-config 'SCRAM-SHA-512=[password=secret]' --entity-type users "
    "--entity-name alice`",
}
