"""The configuration of each node, in both modes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.lab import node_config as config
from ackproof.lab.node_config import NodeFiles
from ackproof.lab.spec import MIRROR, LabSpec, Mode, Node, Setting

FILES = NodeFiles(Path("/lab/settings/x"), Path("/lab/data/x"))
MODES: list[tuple[Mode, str]] = [("zookeeper", "3.9.2"), ("kraft", "4.3.1")]
each_mode = pytest.mark.parametrize(("mode", "version"), MODES)


def lab(mode: Mode = "zookeeper", version: str = "3.9.2", *settings: str, **changes: object) -> LabSpec:
    parsed = tuple(Setting.parse(text) for text in settings)
    return LabSpec(kafka=version, mode=mode, settings=parsed, **changes)  # type: ignore[arg-type]


def properties(spec: LabSpec, node: Node, exposed_port: int | None = None) -> dict[str, str]:
    return config.properties(spec, node, FILES, exposed_port)


def read_as_java_does(text: str) -> dict[str, str]:
    """Parse as java.util.Properties.load is documented to, for pairs separated by `=`."""
    found = {}
    for line in re.split(r"\r\n|\r|\n", text):
        line = line.lstrip(" \t\f")
        if not line or line[0] in "#!":
            continue
        parts = re.match(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", line, re.DOTALL)
        assert parts is not None
        found[_unescaped(parts[1])] = _unescaped(parts[2])
    return found


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(match[2], match[2])

    joined = re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", one, text, flags=re.DOTALL)
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@each_mode
def test_every_node_of_a_lab_gets_an_identity_of_its_own(mode: Mode, version: str) -> None:
    spec = lab(mode, version)
    brokers = [properties(spec, spec.broker(number)) for number in (1, 2, 3)]
    key = "broker.id" if mode == "zookeeper" else "node.id"
    assert [each[key] for each in brokers] == ["1", "2", "3"]
    assert [each["listeners"] for each in brokers] == [f"PLAINTEXT://kafka{n}:9092" for n in (1, 2, 3)]


def test_a_broker_with_zookeeper_knows_the_whole_ensemble_and_nothing_of_kraft() -> None:
    made = properties(lab(), lab().broker(1))
    assert made["zookeeper.connect"] == "zk1:2181,zk2:2181,zk3:2181"
    assert not [key for key in made if "controller" in key or key in ("process.roles", "node.id")]


def test_a_broker_with_kraft_knows_the_controllers_and_nothing_of_zookeeper() -> None:
    spec = lab("kraft", "4.3.1")
    made = properties(spec, spec.broker(1))
    assert made["controller.quorum.voters"] == "101@controller1:9093,102@controller2:9093,103@controller3:9093"
    assert made["process.roles"] == "broker"
    assert "CONTROLLER:PLAINTEXT" in made["listener.security.protocol.map"]
    assert not [key for key in made if "zookeeper" in key or key == "broker.id"]


def test_a_controller_serves_controllers_only() -> None:
    spec = lab("kraft", "4.3.1")
    made = properties(spec, spec.quorum_nodes[1])
    assert made["listeners"] == "CONTROLLER://controller2:9093"
    assert (made["process.roles"], made["node.id"]) == ("controller", "102")


def test_zookeeper_names_its_ensemble_unless_it_is_alone() -> None:
    spec = lab()
    assert properties(spec, spec.quorum_nodes[0])["server.3"] == "zk3:2888:3888"
    alone = lab(quorum=1)
    assert not [key for key in properties(alone, alone.quorum_nodes[0]) if key.startswith("server.")]


@each_mode
def test_an_exposed_broker_advertises_the_loopback_on_a_listener_of_its_own(mode: Mode, version: str) -> None:
    spec = lab(mode, version, expose=True)
    made = properties(spec, spec.broker(2), 19093)
    assert made["advertised.listeners"] == "PLAINTEXT://kafka2:9092,EXPOSED://127.0.0.1:19093"
    assert made["listeners"] == "PLAINTEXT://kafka2:9092,EXPOSED://kafka2:19092"
    assert "EXPOSED:PLAINTEXT" in made["listener.security.protocol.map"]
    assert made["inter.broker.listener.name"] == "PLAINTEXT"


@pytest.mark.parametrize(("brokers", "replicas"), [(1, "1"), (2, "2"), (3, "3"), (9, "3")])
def test_internal_topics_have_no_more_replicas_than_there_are_brokers(brokers: int, replicas: str) -> None:
    spec = lab(brokers=brokers)
    made = properties(spec, spec.broker(1))
    assert made["offsets.topic.replication.factor"] == made["transaction.state.log.replication.factor"] == replicas


def test_log_directories_and_racks_reach_the_broker() -> None:
    spec = lab(log_dirs=3, racks=("a", "b"))
    made = properties(spec, spec.broker(2))
    assert made["log.dirs"] == "/lab/data/x/log1,/lab/data/x/log2,/lab/data/x/log3"
    assert made["broker.rack"] == "b"
    assert "broker.rack" not in properties(lab(), lab().broker(1))


@each_mode
def test_the_users_settings_win_over_ours_and_a_nodes_over_its_roles(mode: Mode, version: str) -> None:
    spec = lab(mode, version, "kafka2.min.insync.replicas=3", "broker.min.insync.replicas=2", "broker.jvm=-Xmx1g")
    assert properties(spec, spec.broker(1))["min.insync.replicas"] == "2"
    assert properties(spec, spec.broker(2))["min.insync.replicas"] == "3"
    assert "jvm" not in properties(spec, spec.broker(1))
    assert "min.insync.replicas" not in properties(spec, spec.quorum_nodes[0]) or mode == "kraft"


def test_the_users_jvm_options_come_last_and_the_narrower_scope_wins() -> None:
    spec = lab("zookeeper", "3.9.2", "kafka2.jvm=-Xmx512m -Da=b", "all.jvm=-Dall=1")
    assert config.jvm_options(spec, spec.broker(2), Path("/tmp/x"))[-2:] == ["-Xmx512m", "-Da=b"]  # noqa: S108
    assert config.jvm_options(spec, spec.broker(1), Path("/tmp/x"))[-1] == "-Dall=1"  # noqa: S108
    assert config.jvm_options(spec, spec.quorum_nodes[0], Path("/tmp/x"))[-1] == "-Dall=1"  # noqa: S108


@pytest.mark.parametrize("version", ["3.4.1", "3.9.2", "4.0.0", "4.3.1"])
def test_logging_has_the_format_of_its_kafka_version(version: str) -> None:
    made = config.logging(version)
    assert ("log4j2" in made.file_name) == version.startswith("4")
    assert made.option.format(path="/x").endswith("/x")


@given(st.text(), st.integers(0, 1000))
def test_kafka_accepts_the_ids(seed: str, salt: int) -> None:
    made = config.kafka_uuid(f"{seed.encode(errors='replace')!r} {salt}")
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", made)


def test_a_formatted_directory_names_node_and_cluster_and_leaves_its_own_id_to_kafka() -> None:
    spec = LabSpec(kafka="4.3.1", mode="kraft")
    metas = [config.meta_properties(node, "c") for node in (spec.broker(1), spec.quorum_nodes[0])]
    assert [meta["node.id"] for meta in metas] == ["1", "101"]
    assert all(set(meta) == {"version", "cluster.id", "node.id"} for meta in metas)


KEYS = st.from_regex(r"[A-Za-z0-9._-]+", fullmatch=True)


@given(
    st.dictionaries(KEYS, st.text(st.characters(codec="utf-8", exclude_characters="\n\r\f\t", max_codepoint=0xFFFF)))
)
def test_properties_are_read_back_by_java_as_they_were_given(values: dict[str, str]) -> None:
    assert read_as_java_does(config.properties_text(values)) == values


HOSTILE = [
    *("a\nb=c", " x", "x ", "a\\b", "a\\", "é", "#x", "a=b:c", ""),
    *("a\rb=c", "\tx", "\fx", "😀"),
]


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_cannot_become_another_line_or_another_text(value: str) -> None:
    assert read_as_java_does(config.properties_text({"key": value})) == {"key": value}


@each_mode
def test_users_have_their_own_listener_and_all_other_clients_are_the_super_user(mode: Mode, version: str) -> None:
    spec = lab(mode, version, users=("alice", "bob"))
    made = config.properties(spec, spec.broker(1), FILES, passwords={"alice": "a-secret", "bob": "b-secret"})
    assert made["listeners"] == "PLAINTEXT://kafka1:9092,USERS://kafka1:9094"
    assert "USERS:SASL_PLAINTEXT" in made["listener.security.protocol.map"].split(",")
    assert made["inter.broker.listener.name"] == "PLAINTEXT"
    assert made["super.users"] == "User:ANONYMOUS"
    login = made["listener.name.users.plain.sasl.jaas.config"]
    assert login.endswith('required user_alice="a-secret" user_bob="b-secret";')


def test_the_authorizer_is_that_of_the_mode_also_at_the_controllers() -> None:
    zookeeper, kraft = lab(users=("alice",)), lab("kraft", "4.3.1", users=("alice",))
    name = "authorizer.class.name"
    assert properties(zookeeper, zookeeper.broker(1))[name] == "kafka.security.authorizer.AclAuthorizer"
    assert name not in properties(zookeeper, zookeeper.quorum_nodes[0])
    for node in (kraft.broker(1), kraft.quorum_nodes[0]):
        assert properties(kraft, node)[name] == "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    assert not [key for key in properties(kraft, kraft.quorum_nodes[0]) if "sasl" in key]


def test_without_users_there_is_no_authorizer() -> None:
    made = properties(lab(), lab().broker(1))
    assert not [key for key in made if "authorizer" in key or "sasl" in key or key == "super.users"]


def test_settings_without_passwords_hide_them() -> None:
    spec = lab(users=("alice",))
    assert 'user_alice="hidden"' in properties(spec, spec.broker(1))["listener.name.users.plain.sasl.jaas.config"]


@each_mode
def test_the_second_cluster_knows_nothing_of_the_first(mode: Mode, version: str) -> None:
    spec = lab(mode, version, second=1, racks=("north",))
    (broker,) = spec.of("dc2").broker_nodes
    told = properties(spec, broker)
    quorum = "zookeeper.connect" if mode == "zookeeper" else "controller.quorum.voters"
    assert told[quorum] == ("dc2.zk1:2181" if mode == "zookeeper" else "301@dc2.controller1:9093")
    assert told["listeners"] == "PLAINTEXT://dc2.kafka1:9092"
    assert told["offsets.topic.replication.factor"] == "1"
    assert "broker.rack" not in told


def test_the_mirror_copies_one_way_unless_both_are_asked_for() -> None:
    one_way, both_ways = (properties(lab(second=1, mirror=mirror), MIRROR) for mirror in ("one-way", "both-ways"))
    assert (one_way["dc1->dc2.enabled"], one_way["dc2->dc1.enabled"]) == ("true", "false")
    assert (both_ways["dc1->dc2.enabled"], both_ways["dc2->dc1.enabled"]) == ("true", "true")
    assert one_way["dc1->dc2.replication.factor"] == "1"
    assert both_ways["dc2->dc1.replication.factor"] == "3"
    assert one_way["dc1.bootstrap.servers"] == "kafka1:9092,kafka2:9092,kafka3:9092"
