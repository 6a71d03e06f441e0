"""Scenario files: read whole, checked whole, every problem with its line."""

from __future__ import annotations

import msgspec
import pytest

from ackproof.errors import UsageProblem
from ackproof.scenario import Scenario, bundled, find, json_schema, line_numbers, load, merged, read_source
from ackproof.scenario_check import CHECK_NAMES

GOOD = """name = "good"
section = "X"
title = "A good one"
summary = "Nothing wrong with it."

[[topics]]
name = "orders"
partitions = 2

[[producers]]
topic = "orders"
count = 1000
rate = 100

[[faults]]
kind = "isolate"
targets = ["leader:orders/1"]
at_messages = 300
until = "load-ended"
not_before_new_epoch = "orders/1"

[expect]
lost = "allowed"

[[shapes.slow.producers]]
count = 10
rate = 1

[[shapes.slow.faults]]
at_s = 2
until_s = 5
"""


def good(shape: str = "base", *settings: str) -> Scenario:
    return load(read_source("good.toml", GOOD), shape, settings)


def problems_of(text: str) -> str:
    with pytest.raises(UsageProblem) as caught:
        load(read_source("bad.toml", text))
    return "\n".join([caught.value.message, *caught.value.details])


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


@pytest.mark.parametrize("name", bundled())
def test_every_bundled_scenario_is_good_in_every_shape(name: str) -> None:
    source = find(name)
    assert [load(source, shape).name for shape in source.shapes] == [name] * len(source.shapes)


def test_the_seven_leader_failures_come_in_three_shapes() -> None:
    section_a = [name for name in bundled() if load(find(name)).section == "A"]
    assert len(section_a) == 7
    assert all(find(name).shapes == ["base", "slow", "crowd"] for name in section_a)


def test_a_shape_changes_only_what_it_names() -> None:
    slow = good("slow")
    assert (slow.producers[0].count, slow.producers[0].topic) == (10, "orders")
    assert slow.faults[0].kind == "isolate"


def test_a_new_end_takes_the_place_of_one_written_the_other_way() -> None:
    fault = good("slow").faults[0]
    assert (fault.at_s, fault.at_messages, fault.until_s, fault.until) == (2, None, 5, None)


def test_lists_of_tables_merge_place_by_place_and_grow() -> None:
    assert merged({"a": [{"x": 1}, {"x": 2}]}, {"a": [{"y": 3}]}) == {"a": [{"x": 1, "y": 3}, {"x": 2}]}
    assert merged({"a": [{"x": 1}]}, {"a": [{}, {"x": 2}]}) == {"a": [{"x": 1}, {"x": 2}]}


@pytest.mark.parametrize(
    ("setting", "seen"),
    [
        ("producer.acks=1", lambda s: s.producers[0].acks == "1"),
        ("producers.0.rate=50", lambda s: s.producers[0].rate == 50),
        ("producer.settings.linger.ms=5", lambda s: s.producers[0].settings == {"linger.ms": 5}),
        ("faults.0.at_s=1.5", lambda s: (s.faults[0].at_s, s.faults[0].at_messages) == (1.5, None)),
        ("cluster.settings.broker.min.insync.replicas=2", lambda s: "broker" in s.cluster.settings),
        ("topic.replication=1", lambda s: s.topics[0].replication == 1),
    ],
)
def test_set_changes_any_field(setting: str, seen: object) -> None:
    assert callable(seen)
    assert seen(good("base", setting))


@pytest.mark.parametrize("setting", ["acks", "=5", "producers.7.rate=5", "producer.rte=5", "faults.x.at_s=1"])
def test_a_setting_that_means_nothing_is_refused(setting: str) -> None:
    with pytest.raises(UsageProblem):
        good("base", setting)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (changed("count = 1000", "cuont = 1000"), 12, "did you mean count?"),
        (changed("count = 1000", ""), 10, "missing required field `count`"),
        (changed("count = 1000", 'count = "many"'), 12, "expected `int`"),
        (changed("rate = 100", "rate = 100\nspeed = 3"), 14, "unknown key 'speed'"),
        (changed("rate = 100", "rtae = 100"), 13, "did you mean rate?"),
        (changed("rate = 100", "rate = -1"), 13, "positive"),
        (changed('"isolate"', '"explode"'), 16, "no kind of fault"),
        (changed("leader:orders/1", "leader:orders/2"), 17, "no such partition"),
        (changed("leader:orders/1", "kafka4"), 17, "no node or role"),
        (changed("leader:orders/1", "zk1"), 17, "say quorum"),
        (changed("at_messages = 300", "at_messages = 1000"), 18, "never begin"),
        (changed('until = "load-ended"', "until_messages = 100"), 19, "not after"),
        (changed('until = "load-ended"', ""), 15, "lasts"),
        (changed("partitions = 2", "replication = 5"), 8, "number of brokers"),
        (changed('lost = "allowed"', 'lots = "allowed"'), 23, "no check"),
        (changed('lost = "allowed"', 'lost = "maybe"'), 23, "required, allowed or forbidden"),
        (changed('topic = "orders"', 'topic = "ordres"'), 11, "no topic"),
    ],
)
def test_each_problem_has_its_line(text: str, line: int, words: str) -> None:
    told = problems_of(text)
    assert words.lower() in told.lower()
    assert f"bad.toml:{line}:" in told


def test_all_problems_are_listed_at_once() -> None:
    text = GOOD.replace("rate = 100", "rate = -1").replace("leader:orders/1", "kafka9").replace("lost =", "lots =")
    told = problems_of(text)
    assert told.startswith("bad.toml: 3 problems:")
    assert all(f"bad.toml:{line}:" in told for line in (13, 17, 23))


def test_all_problems_of_shape_are_listed_at_once() -> None:
    told = problems_of(GOOD.replace("rate = 100", "rtae = 100\ncopies = true").replace("partitions = 2", "parts = 2"))
    assert all(f"bad.toml:{line}:" in told for line in (8, 13, 14))


def test_what_is_no_toml_says_so() -> None:
    with pytest.raises(UsageProblem, match="not TOML"):
        read_source("bad.toml", "name = ")


def test_required_loss_without_a_fault_contradicts_itself() -> None:
    start, rest = GOOD.split("[[faults]]")
    text = start + "[expect]" + rest.split("[expect]")[1].split("[[shapes")[0].replace("allowed", "required")
    assert "nothing breaks" in problems_of(text)


def test_an_unknown_name_gets_a_hint() -> None:
    with pytest.raises(UsageProblem, match="did you mean acks1-leader-isolated"):
        find("acks1-leader-isolate")


def test_lines_are_found_for_tables_and_keys() -> None:
    lines = line_numbers(GOOD)
    assert (lines["name"], lines["faults.0"], lines["faults.0.targets"], lines["expect.lost"]) == (1, 15, 17, 23)


def test_the_schema_for_editors_knows_every_field() -> None:
    properties = json_schema()["$defs"]["Scenario"]["properties"]
    assert {field.name for field in msgspec.structs.fields(Scenario)} | {"shapes"} == set(properties)


def test_the_scenario_knows_exactly_the_checks_of_the_judge() -> None:
    checks = pytest.importorskip("ackproof.judge.checks")
    assert set(CHECK_NAMES) == set(checks.CHECKS)
