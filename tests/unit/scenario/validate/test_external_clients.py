"""Scenarios with commands: what they may say, and which checks they cannot answer."""

from __future__ import annotations

import pytest

from ackproof.core.errors import UsageProblem
from ackproof.model.external_clients import not_applicable
from ackproof.scenario.load import load
from ackproof.scenario.source import read_source
from tests.support.plans import plan_of

EXTERNAL = """name = "foreign"
section = "X"
title = "Not ours"
summary = "A command each."

[[topics]]
name = "orders"

[[producers]]
topic = "orders"
count = 100
command = ["my-client", "{bootstrap}", "{topic}", "{producer}", "{count}", "{rate}", "{acks}"]

[[consumers]]
topic = "orders"
group = "readers"
command = ["my-reader", "{bootstrap}", "{topic}", "{group}", "{start}"]

[[faults]]
kind = "stop"
targets = ["consumer:1"]
at_messages = 50

[expect]
lost = "forbidden"
undelivered = "allowed"
"""


def test_a_scenario_with_commands_is_valid() -> None:
    scenario = load(read_source("good.toml", EXTERNAL))
    assert [client.command[0] for client in scenario.clients] == ["my-client", "my-reader"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{rate}", "{rates}", "there is no placeholder {rates} (did you mean rate?)"),
        ('"{group}"', '"{count}"', "there is no placeholder {count}: known are {bootstrap}, {topic}, {group}"),
        ('"my-client"', '"kafka-verifyable-producer"', "no tool kafka-verifyable-producer (did you mean verifiable"),
        ("count = 100", "count = 100\nsize = 32", "bad.toml:12: size is for the bundled clients"),
        ("count = 100", "count = 100\noutbox = { retry_s = 2 }", "outbox is for the bundled clients"),
        ('group = "readers"', 'group = "readers"\nprotocol = "cooperative"', "protocol is for the bundled clients"),
        (
            'group = "readers"',
            'group = "readers"\nreceiver = { strategy = "ids" }',
            "receiver is for the bundled clients",
        ),
        ('group = "readers"', 'group = "readers"\nalso = ["orders"]', "also is for the bundled clients"),
        ("count = 100\ncommand = [", 'count = 100\nwhere = "host"\n#', 'where = "host" is for a client with a command'),
        ("count = 100\ncommand = [", "count = 100\n#", "the bundled producer's values are not text"),
        (
            'kind = "stop"\ntargets = ["consumer:1"]',
            'kind = "restart"\ntargets = ["producer:1"]',
            "are kill, stop, pause",
        ),
        ('lost = "forbidden"', 'failover = "required"', "does not tell when an acknowledgement or an error reached it"),
        ('group = "readers"', 'group = "readers"\nwhere = "host"', "consumer:1 runs on the host"),
        (
            'lost = "forbidden"',
            'ack_latency = "forbidden"',
            "ack_latency cannot be forbidden: it is not applicable, for producer1",
        ),
        ('lost = "forbidden"', 'resurrected = "forbidden"', "does not tell which sends certainly failed"),
        ('undelivered = "allowed"', 'ownership_gap = "required"', "consumer1 does not tell when exactly it owned"),
        (
            'lost = "forbidden"\n',
            'lost = "forbidden"\n[[claims]]\nat = "end"\npartitions = "orders/0"\nacked = true\n[expect_kraft]\n',
            "acked cannot be claimed, for producer1 does not tell when an acknowledgement reached it",
        ),
    ],
)
def test_mistakes_about_an_external_client_are_reported_before_the_run(old: str, new: str, said: str) -> None:
    assert old in EXTERNAL
    with pytest.raises(UsageProblem) as caught:
        load(read_source("bad.toml", EXTERNAL.replace(old, new, 1)))
    assert said in "\n".join([caught.value.message, *caught.value.details])


def test_an_external_client_may_be_paused() -> None:
    load(read_source("good.toml", EXTERNAL.replace('kind = "stop"', 'kind = "pause"\nuntil_messages = 70')))


def test_a_check_that_an_external_client_cannot_answer_may_be_allowed() -> None:
    load(read_source("good.toml", EXTERNAL.replace('undelivered = "allowed"', 'ack_latency = "allowed"')))


def test_only_checks_that_external_clients_cannot_answer_are_not_applicable() -> None:
    ours, theirs = ({"copies": 2}, {"copies": 2, "command": ["x"]})
    assert not_applicable(plan_of({"producers": [ours], "consumers": [ours]})) == {}
    by_producers = not_applicable(plan_of({"producers": [ours, theirs], "consumers": [ours]}))
    assert by_producers["rate"] == "producer3, producer4 do not tell when a send was made"
    assert "ownership_gap" not in by_producers
    by_consumers = not_applicable(plan_of({"producers": [ours], "consumers": [theirs]}))
    assert set(by_consumers) == {"dual_ownership", "ownership_gap", "rebalances", "commit_regression"}
    from_the_end = not_applicable(plan_of({"producers": [ours], "consumers": [{**theirs, "start": "latest"}]}))
    assert from_the_end["undelivered"] == "consumer1, consumer2 do not tell from where on a partition was read"
