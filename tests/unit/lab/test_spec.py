"""The specification of a lab: what it allows, and what it implies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.core.errors import UsageProblem
from ackproof.lab.spec import OWN_KEYS, LabSpec, Mode, Node, Setting, check, check_name, release

SPECS = st.builds(
    LabSpec,
    kafka=st.sampled_from(["3.9.2", "3.4.1"]),
    mode=st.sampled_from(["zookeeper", "kraft"]),
    brokers=st.integers(1, 9),
    quorum=st.sampled_from([1, 3, 5]),
    racks=st.lists(st.sampled_from(["a", "b", "c"]), max_size=3).map(tuple),
    log_dirs=st.integers(1, 9),
    second=st.integers(1, 9),
    mirror=st.sampled_from(["none", "one-way", "both-ways"]),
)


def problems(**changes: object) -> list[str]:
    with pytest.raises(UsageProblem) as caught:
        check(LabSpec(**{"kafka": "3.9.2", **changes}))  # type: ignore[arg-type]
    return [caught.value.message, *caught.value.details]


@given(SPECS)
def test_every_allowed_lab_has_unique_names_addresses_and_kafka_ids(spec: LabSpec) -> None:
    nodes = check(spec).nodes
    assert len({node.name for node in nodes}) == len({node.address for node in nodes}) == len(nodes)
    ids = [node.kafka_id for node in nodes if node.role in ("broker", "controller")]
    assert len(set(ids)) == len(ids)
    assert [node.name for node in nodes][-1] == "client"


@given(SPECS)
def test_brokers_take_turns_in_the_racks(spec: LabSpec) -> None:
    racks = [spec.broker(number).rack for number in range(1, spec.brokers + 1)]
    assert racks == [spec.racks[n % len(spec.racks)] if spec.racks else None for n in range(spec.brokers)]


def test_a_lab_in_either_mode_has_the_nodes_that_its_mode_needs() -> None:
    assert [node.name for node in LabSpec(kafka="3.9.2", brokers=1).nodes] == ["zk1", "zk2", "zk3", "kafka1", "client"]
    kraft = LabSpec(kafka="4.3.1", mode="kraft", brokers=2, quorum=1)
    assert [node.name for node in kraft.nodes] == ["controller1", "kafka1", "kafka2", "client"]
    assert [node.port for node in kraft.nodes if node.role != "client"] == [9093, 9092, 9092]


def test_the_nodes_of_a_second_cluster_say_by_their_names_where_they_are() -> None:
    spec = LabSpec(kafka="3.9.2", brokers=1, quorum=1, second=2, mirror="one-way")
    names = [node.name for node in spec.nodes]
    assert names == ["zk1", "kafka1", "dc2.zk1", "dc2.kafka1", "dc2.kafka2", "mirror", "client"]
    assert [node.site for node in spec.nodes] == ["dc1", "dc1", "dc2", "dc2", "dc2", "dc2", "dc1"]
    assert spec.of("dc1") is spec


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"second": 10}, "up to 9 brokers"),
        ({"mirror": "one-way"}, "no second cluster"),
        ({"brokers": 0}, "1 to 9 brokers"),
        ({"brokers": 10}, "1 to 9 brokers"),
        ({"quorum": 2}, "1, 3 or 5"),
        ({"log_dirs": 0}, "1 to 9 log directories"),
        ({"kafka": "2.8.2"}, "only 3.x and 4.x"),
        ({"kafka": "5.0.0"}, "only 3.x and 4.x"),
        ({"kafka": "4.0.0"}, "no ZooKeeper mode"),
        ({"kafka": "3.2.0", "mode": "kraft"}, "3.3 or newer"),
        ({"kafka": "3.9"}, "full version"),
        ({"kafka": "../3.9.2"}, "full version"),
        ({"settings": (Setting("controller", "x", "1"),)}, "no controller nodes"),
        ({"settings": (Setting("kafka9", "x", "1"),)}, "no such scope"),
        ({"settings": (Setting("client", "jvm", "-Xmx1g"),)}, "no such scope"),
        ({"settings": (Setting("all", "x", "1"),)}, "takes only jvm"),
        ({"settings": (Setting("broker", "a b", "1"),)}, "without line breaks"),
        ({"settings": (Setting("broker", "x", "1\ny=2"),)}, "without line breaks"),
        ({"settings": (Setting("broker", "x", "1\ry=2"),)}, "without line breaks"),
    ],
)
def test_impossible_labs_are_refused_with_a_message(changes: dict[str, object], said: str) -> None:
    assert said in " ".join(problems(**changes))


@pytest.mark.parametrize("key", sorted(OWN_KEYS))
def test_settings_that_the_lab_decides_cannot_be_overridden(key: str) -> None:
    assert "sets" in problems(settings=(Setting("broker", key, "x"),))[0]


def test_all_problems_are_reported_at_once() -> None:
    told = problems(brokers=0, quorum=4, log_dirs=99, settings=(Setting("nobody", "x", "1"), Setting("all", "y", "1")))
    assert told[0] == "5 problems:"
    assert len(told) == 6


@pytest.mark.proves("F3")
@pytest.mark.parametrize("name", ["", "-x", "_x", "Lab", "a/b", "..", ".", "a" * 33, "a b", "a\n", "é", "a\0"])
def test_a_name_that_could_be_a_path_or_an_option_is_refused(name: str) -> None:
    with pytest.raises(UsageProblem, match="cannot be named"):
        check_name(name)


@pytest.mark.parametrize("name", ["lab", "a", "0", "a-b_c", "a" * 32])
def test_an_ordinary_name_is_accepted(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("broker.min.insync.replicas=2", Setting("broker", "min.insync.replicas", "2")),
        ("kafka2.jvm=-Xmx512m -Da=b", Setting("kafka2", "jvm", "-Xmx512m -Da=b")),
        ("zookeeper.tickTime=", Setting("zookeeper", "tickTime", "")),
    ],
)
def test_a_setting_is_scope_key_and_value(text: str, parsed: Setting) -> None:
    assert Setting.parse(text) == parsed


@pytest.mark.parametrize("text", ["", "x", "broker", "broker.x", "broker=1", ".x=1", "broker.=1", "=1"])
def test_half_a_setting_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageProblem, match=r"broker\.min\.insync\.replicas=2"):
        Setting.parse(text)


def test_the_narrower_scope_wins_and_then_the_later_one() -> None:
    settings = tuple(Setting.parse(text) for text in ("kafka2.x=node", "broker.x=role", "broker.y=1", "broker.y=2"))
    spec = LabSpec(kafka="3.9.2", settings=settings)
    assert spec.overrides(spec.broker(2)) == {"x": "node", "y": "2"}
    assert spec.overrides(spec.broker(1)) == {"x": "role", "y": "2"}
    assert spec.overrides(Node("zk1", "zookeeper", 1)) == {}


@pytest.mark.parametrize(("version", "mode"), [("3.9.2", "zookeeper"), ("3.4.1", "kraft"), ("4.3.1", "kraft")])
def test_the_supported_versions_are_accepted(version: str, mode: Mode) -> None:
    assert check(LabSpec(kafka=version, mode=mode)).kafka == version
    assert release(version) == tuple(int(part) for part in version.split(".")[:2])
