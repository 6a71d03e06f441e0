"""Targets: names, globs, lists and roles."""

from __future__ import annotations

import pytest

from ackproof.core.errors import UsageProblem
from ackproof.lab.targets import Resolver, resolve, topic_partition

NAMES = ["zk1", "zk2", "kafka1", "kafka2", "kafka3", "client"]
ROLES: dict[str, Resolver] = {
    "all-brokers": lambda _: ["kafka1", "kafka2", "kafka3"],
    "controller": lambda _: ["kafka3"],
    "leader": lambda what: ["kafka2"] if what == "orders/0" else ["kafka1"],
}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("kafka2", ["kafka2"]),
        ("kafka*", ["kafka1", "kafka2", "kafka3"]),
        ("kafka[13]", ["kafka1", "kafka3"]),
        ("zk?,client", ["zk1", "zk2", "client"]),
        ("kafka3,kafka1", ["kafka3", "kafka1"]),
        ("kafka1, kafka2", ["kafka1", "kafka2"]),
        ("kafka3,kafka*,kafka3", ["kafka3", "kafka1", "kafka2"]),
        ("all-brokers", ["kafka1", "kafka2", "kafka3"]),
        ("leader:orders/0", ["kafka2"]),
        ("leader:orders/0,controller,kafka2", ["kafka2", "kafka3"]),
    ],
)
def test_a_target_is_resolved_to_each_node_once_in_the_order_given(text: str, meant: list[str]) -> None:
    assert resolve(text, NAMES, ROLES) == meant


@pytest.mark.parametrize(
    "text", ["kafka9", "", "kafka1,", "kafka1,,kafka2", "kafka7*", "Kafka1", "follower", "../kafka1"]
)
def test_an_unknown_target_is_refused_with_the_known_nodes_and_roles(text: str) -> None:
    with pytest.raises(UsageProblem, match="kafka1"):
        resolve(text, NAMES, ROLES)


@pytest.mark.parametrize(("typed", "meant"), [("kafak2", "kafka2"), ("controler", "controller"), ("zk", "zk")])
def test_a_near_miss_gets_a_hint(typed: str, meant: str) -> None:
    with pytest.raises(UsageProblem, match=f"did you mean {meant}"):
        resolve(typed, NAMES, ROLES)


def test_the_error_of_an_unresolved_role_is_passed_on() -> None:
    def none(_: str) -> list[str]:
        raise UsageProblem("there is none")

    with pytest.raises(UsageProblem, match="there is none"):
        resolve("kafka1,controller", NAMES, {**ROLES, "controller": none})


@pytest.mark.parametrize(
    ("what", "meant"), [("orders/0", ("orders", 0)), ("a/b/12", ("a/b", 12)), ("a.b-c_d/3", ("a.b-c_d", 3))]
)
def test_a_partition_is_written_topic_slash_number(what: str, meant: tuple[str, int]) -> None:
    assert topic_partition(what, "leader") == meant


@pytest.mark.parametrize("what", ["", "orders", "orders/", "/0", "orders/x", "orders/-1", "orders/0 "])
def test_another_form_is_refused_with_an_example(what: str) -> None:
    with pytest.raises(UsageProblem, match="leader:orders/0"):
        topic_partition(what, "leader")
