"""Plans for Kafka's tools, made from jars that hold only the names of the classes."""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path

import pytest

from ackproof.core.errors import CannotHere, UsageProblem
from ackproof.kafka.tools.catalogue import DROPPED, TOOLS
from ackproof.kafka.tools.invocation import Plan, Verb, plan, tools
from ackproof.lab.directory import LabDirectory, Started
from ackproof.lab.kafka_tools import command
from ackproof.lab.spec import LabSpec

BOOTSTRAP = "kafka1:9092,kafka2:9092"
ZOOKEEPER = "zk1:2181,zk2:2181"

# Where the classes of these releases really are.
CLASSES = {
    "3.4.1": ["kafka.admin.TopicCommand", "kafka.admin.ConfigCommand", "kafka.tools.ConsoleProducer"],
    "3.9.2": ["org.apache.kafka.tools.TopicCommand", "kafka.admin.ConfigCommand", "kafka.tools.ConsoleProducer"],
    "4.3.1": [
        "org.apache.kafka.tools.TopicCommand",
        "kafka.admin.ConfigCommand",
        "org.apache.kafka.tools.ConsoleProducer",
    ],
}
BOTH = [
    "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "org.apache.kafka.tools.ClusterTool",
    "org.apache.kafka.tools.DumpLogSegments",
    "org.apache.kafka.tools.EndToEndLatency",
    "org.apache.kafka.tools.MetadataQuorumCommand",
    "org.apache.kafka.tools.ProducerPerformance",
    "org.apache.kafka.tools.ReplicaVerificationTool",
    "org.apache.kafka.tools.VerifiableProducer",
    "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
]
ONLY_3 = ["kafka.tools.MirrorMaker", "kafka.admin.ZkSecurityMigrator"]
ONLY_4 = ["org.apache.kafka.tools.consumer.group.ShareGroupCommand", "org.apache.kafka.trogdor.agent.Agent"]


def jars_of(version: str, directory: Path) -> Path:
    classes = CLASSES[version] + BOTH + (ONLY_4 if version.startswith("4") else ONLY_3)
    for jar, names in (
        (f"kafka-tools-{version}.jar", classes),
        (f"kafka-clients-{version}.jar", ["org.apache.kafka.clients.Something"]),
    ):
        with zipfile.ZipFile(directory / jar, "w") as opened:
            for name in names:
                opened.writestr(name.replace(".", "/") + ".class", b"")
    if version.startswith("3"):
        with zipfile.ZipFile(directory / "zookeeper-3.8.4.jar", "w") as opened:
            opened.writestr("org/apache/zookeeper/ZooKeeperMain.class", b"")
    return directory


@pytest.fixture
def kafka3(tmp_path: Path) -> Path:
    return jars_of("3.9.2", tmp_path)


@pytest.fixture
def kafka4(tmp_path: Path) -> Path:
    return jars_of("4.3.1", tmp_path)


def argv(tool: str, args: str, jars: Path, zookeeper: str | None = ZOOKEEPER) -> str:
    made = plan(tool, args.split(), jars, BOOTSTRAP, zookeeper)
    assert isinstance(made, Plan)
    return " ".join(made.argv)


@pytest.mark.parametrize("name", ["topics", "kafka-topics", "kafka-topics.sh", "bin/kafka-topics.sh", "topics.bat"])
def test_a_tool_is_known_by_any_of_its_names(name: str, kafka3: Path) -> None:
    made = plan(name, ["--list"], kafka3, BOOTSTRAP)
    assert made == Plan(
        "org.apache.kafka.tools.TopicCommand", ("--bootstrap-server", BOOTSTRAP, "--list"), ("-Xmx256m",)
    )


@pytest.mark.parametrize(
    ("version", "main_class"),
    [
        ("3.4.1", "kafka.tools.ConsoleProducer"),
        ("3.9.2", "kafka.tools.ConsoleProducer"),
        ("4.3.1", "org.apache.kafka.tools.ConsoleProducer"),
    ],
)
def test_the_jars_decide_where_a_class_is(version: str, main_class: str, tmp_path: Path) -> None:
    made = plan("console-producer", ["--topic", "t"], jars_of(version, tmp_path), BOOTSTRAP)
    assert isinstance(made, Plan)
    assert made.main_class == main_class


@pytest.mark.parametrize(
    ("tool", "args", "filled"),
    [
        ("topics", "--list", f"--bootstrap-server {BOOTSTRAP} --list"),
        ("topics", "--list --bootstrap-server here:1", "--list --bootstrap-server here:1"),
        ("topics", "--list --bootstrap-server=here:1", "--list --bootstrap-server=here:1"),
        ("topics", "--help", "--help"),
        ("topics", "", ""),
        ("broker-api-versions", "", f"--bootstrap-server {BOOTSTRAP}"),
        ("broker-api-versions", "--help", "--help"),
        ("metadata-quorum", "describe --status", f"--bootstrap-server {BOOTSTRAP} describe --status"),
        (
            "metadata-quorum",
            "--bootstrap-controller controller1:9093 describe",
            "--bootstrap-controller controller1:9093 describe",
        ),
        ("cluster", "cluster-id", f"cluster-id --bootstrap-server {BOOTSTRAP}"),
        ("replica-verification", "", f"--broker-list {BOOTSTRAP}"),
        ("replica-verification", "--broker-list here:1", "--broker-list here:1"),
        (
            "reassign-partitions",
            "--generate --broker-list 1,2",
            f"--bootstrap-server {BOOTSTRAP} --generate --broker-list 1,2",
        ),
        ("e2e-latency", "orders 10 1 20", f"{BOOTSTRAP} orders 10 1 20"),
        ("e2e-latency", "here:1 orders 10 1 20", "here:1 orders 10 1 20"),
        ("e2e-latency", "--topic orders", f"--bootstrap-server {BOOTSTRAP} --topic orders"),
        ("dump-log", "--files 0.log", "--files 0.log"),
        ("configs", "--zookeeper zk1:2181 --describe", "--zookeeper zk1:2181 --describe"),
        ("verifiable-producer", "--broker-list here:1 --topic t", "--broker-list here:1 --topic t"),
        ("zookeeper-shell", "", f"-server {ZOOKEEPER}"),
        ("zookeeper-shell", "ls /brokers", f"-server {ZOOKEEPER} ls /brokers"),
        ("zookeeper-shell", "zk3:2181 ls /brokers", "-server zk3:2181 ls /brokers"),
        ("zookeeper-shell", "zk3:2181/chroot ls /", "-server zk3:2181/chroot ls /"),
        (
            "zookeeper-security-migration",
            "--zookeeper.acl secure",
            f"--zookeeper.connect {ZOOKEEPER} --zookeeper.acl secure",
        ),
        (
            "zookeeper-security-migration",
            "--zookeeper.connect zk3:2181 --zookeeper.acl secure",
            "--zookeeper.connect zk3:2181 --zookeeper.acl secure",
        ),
        ("producer-perf-test", "--topic t", f"--producer-props bootstrap.servers={BOOTSTRAP} --topic t"),
        (
            "producer-perf-test",
            "--producer-props acks=1 --topic t",
            f"--producer-props bootstrap.servers={BOOTSTRAP} acks=1 --topic t",
        ),
        (
            "producer-perf-test",
            "--topic t --producer-props acks=1 bootstrap.servers=here:1",
            "--topic t --producer-props acks=1 bootstrap.servers=here:1",
        ),
    ],
)
def test_the_address_is_filled_in_only_where_it_is_left_out(tool: str, args: str, filled: str, kafka3: Path) -> None:
    assert argv(tool, args, kafka3) == filled


def test_the_newer_producer_benchmark_has_an_option_for_it(kafka4: Path) -> None:
    filled = f"--bootstrap-server {BOOTSTRAP} --topic t --command-property acks=1"
    assert argv("producer-perf-test", "--topic t --command-property acks=1", kafka4) == filled


def test_starting_and_stopping_servers_are_verbs_of_the_lab(kafka3: Path) -> None:
    assert plan("kafka-server-start.sh", ["kafka1"], kafka3, BOOTSTRAP) == Verb("start", ("kafka1",))
    assert plan("zookeeper-server-stop", ["zk1", "zk2"], kafka3, BOOTSTRAP) == Verb("stop", ("zk1", "zk2"))
    for args in ([], ["config/server.properties"], ["-daemon", "server.properties"]):
        with pytest.raises(UsageProblem, match="`ackproof start kafka1`"):
            plan("server-start", args, kafka3, BOOTSTRAP)


@pytest.mark.parametrize(
    ("tool", "replacement"),
    [
        ("kafka-replay-log-producer.sh", "console-producer"),
        ("consumer-offset-checker", "consumer-groups --describe"),
        ("simple-consumer-shell", "console-consumer --topic orders --partition"),
        ("preferred-replica-election", "leader-election --election-type preferred"),
        ("mirror-maker", "connect-mirror-maker"),
        ("zookeeper-shell", "metadata-quorum"),
    ],
)
def test_a_tool_that_kafka_dropped_is_answered_with_what_took_its_place(
    tool: str, replacement: str, kafka4: Path
) -> None:
    with pytest.raises(UsageProblem) as problem:
        plan(tool, [], kafka4, BOOTSTRAP)
    assert f"`ackproof kafka {replacement}" in problem.value.message.replace("| ackproof", "`ackproof")
    assert problem.value.exit_code == 2


@pytest.mark.parametrize("name", sorted(DROPPED))
def test_what_took_a_dropped_tool_s_place_exists(name: str) -> None:
    assert name not in TOOLS
    for words in DROPPED[name].split("ackproof kafka ")[1:]:
        assert words.split()[0].strip("`") in TOOLS


def test_a_dropped_tool_still_runs_where_it_is(kafka3: Path) -> None:
    assert argv("mirror-maker", "--num.streams 2", kafka3) == "--num.streams 2"


def test_a_tool_from_the_future_says_when_it_came(kafka3: Path) -> None:
    with pytest.raises(UsageProblem, match=r"came with Kafka 4\.0, and this is 3\.9\.2"):
        plan("share-groups", ["--list"], kafka3, BOOTSTRAP)


def test_a_tool_that_is_missing_for_no_known_reason_says_so(kafka3: Path) -> None:
    with pytest.raises(UsageProblem, match="log-dirs is not among the jars"):
        plan("log-dirs", ["--describe"], kafka3, BOOTSTRAP)


def test_an_unknown_tool_has_a_near_miss_and_a_way_to_list(kafka3: Path) -> None:
    with pytest.raises(UsageProblem, match=r"did you mean topics.*lists the tools"):
        plan("kafka-topcis", [], kafka3, BOOTSTRAP)
    with pytest.raises(UsageProblem) as problem:
        plan("xyzzy", [], kafka3, BOOTSTRAP)
    assert "did you mean" not in problem.value.message


def test_options_of_old_recipes_are_refused_with_the_way_out(
    kafka3: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kafka4 = jars_of("4.3.1", tmp_path_factory.mktemp("kafka4"))
    with pytest.raises(UsageProblem, match=r"--zookeeper is gone.*`ackproof kafka topics"):
        plan("topics", ["--zookeeper", "zk1:2181", "--list"], kafka3, BOOTSTRAP)
    with pytest.raises(UsageProblem, match="--zookeeper is gone"):
        plan("configs", ["--zookeeper=zk1:2181", "--describe"], kafka4, BOOTSTRAP)
    with pytest.raises(UsageProblem, match="dropped --broker-list"):
        plan("console-producer", ["--broker-list", "here:1", "--topic", "t"], kafka4, BOOTSTRAP)


def test_zookeeper_s_tools_need_a_lab_with_zookeeper(kafka3: Path) -> None:
    with pytest.raises(UsageProblem, match="no ZooKeeper"):
        plan("zookeeper-shell", ["ls", "/"], kafka3, BOOTSTRAP, None)


def test_run_class_takes_any_class_there_is(kafka3: Path) -> None:
    made = plan("run-class", ["kafka.tools.MirrorMaker", "--help"], kafka3, BOOTSTRAP)
    assert made == Plan("kafka.tools.MirrorMaker", ("--help",), ("-Xmx256m",))
    assert isinstance(plan("run-class", ["java.util.prefs.Base64"], kafka3, BOOTSTRAP), Plan)
    with pytest.raises(UsageProblem, match="needs a class"):
        plan("run-class", [], kafka3, BOOTSTRAP)
    with pytest.raises(UsageProblem, match="it is the tool get-offsets"):
        plan("run-class", ["kafka.tools.GetOffsetShell"], kafka3, BOOTSTRAP)
    with pytest.raises(UsageProblem, match=r"holds the class nothing\.Here\.$"):
        plan("run-class", ["nothing.Here"], kafka3, BOOTSTRAP)


def test_trogdor_is_four_programs(kafka4: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    made = plan("trogdor.sh", ["agent", "--node-name", "n"], kafka4, BOOTSTRAP)
    assert made == Plan("org.apache.kafka.trogdor.agent.Agent", ("--node-name", "n"), ("-Xmx256m",))
    with pytest.raises(UsageProblem, match="one of agent"):
        plan("trogdor", [], kafka4, BOOTSTRAP)
    with pytest.raises(UsageProblem, match="not among the jars"):
        plan("trogdor", ["agent"], jars_of("3.9.2", tmp_path_factory.mktemp("kafka3")), BOOTSTRAP)


def test_the_list_holds_what_these_jars_can_run(kafka3: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    three = [each.name for each in tools(kafka3)]
    four = [each.name for each in tools(jars_of("4.3.1", tmp_path_factory.mktemp("kafka4")))]
    assert three == sorted(three)
    assert {"topics", "mirror-maker", "zookeeper-shell", "zookeeper-server-start", "run-class"} <= set(three)
    assert {"share-groups", "trogdor"} <= set(four) - set(three)
    assert not {"mirror-maker", "zookeeper-shell", "zookeeper-server-start"} & set(four)
    assert all(each.summary for each in tools(kafka3))


def test_a_directory_without_kafka_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(CannotHere, match="no jars of Kafka"):
        plan("topics", ["--list"], tmp_path, BOOTSTRAP)


def test_what_a_tool_needs_on_disk_goes_with_its_lab_though_whoever_asked_is_killed(
    kafka3: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    directory = LabDirectory.of("a")
    lock = directory.claim()
    directory.write_started(Started(LabSpec(kafka="3.9.2"), 17, "id", str(kafka3), "java", {}))
    made = plan("topics", ["--list"], kafka3, BOOTSTRAP)
    assert isinstance(made, Plan)
    killed = command("a", made)
    try:
        assert any(str(directory.path) in word for word in killed.__enter__())
        assert list(directory.path.glob("ackproof-tool-*/*"))
        assert list(temporary.iterdir()) == []
    finally:
        os.close(lock)
    directory.remove()
    assert not directory.path.exists()
