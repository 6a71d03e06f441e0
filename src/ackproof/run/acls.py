"""The access rules of a run: Kafka's own tool sets them, and the run waits until every broker knows them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from ackproof.core.errors import CannotHere
from ackproof.kafka.protocol.broker import Broker, NoAnswer
from ackproof.kafka.tools import invocation as tools
from ackproof.lab import client as control
from ackproof.lab import kafka_tools as kafka_tool
from ackproof.lab import requests
from ackproof.lab.spec import client
from ackproof.model.nodes import NodePlace
from ackproof.model.scenario import AccessPlan, RulePlan

TOOL_S = 60.0
KNOWN_S = 20.0
ASK_S = 2.0


def set_rules(access: AccessPlan, lab: str, directory: Path) -> str:
    for number, rule in enumerate(access.rules, start=1):
        _run_tool(lab, directory / "logs" / "acls.log", f"acls{number}", list(arguments(rule)))
    wanted = distinct(access.rules)
    _wait_until_known(lab, wanted)
    return f"{len(access.users)} users, {wanted} rules, known to every broker"


def distinct(rules: list[RulePlan]) -> int:
    """The number of Kafka's rules for these: one for each operation, and equal rules count once."""
    return len(
        {
            (rule.user, operation, rule.topic, rule.group, rule.from_host, rule.deny)
            for rule in rules
            for operation in rule.operations
        }
    )


def arguments(rule: RulePlan) -> Iterator[str]:
    """The arguments of kafka-acls for a rule."""
    word = "deny" if rule.deny else "allow"
    yield from ("--add", f"--{word}-principal", f"User:{rule.user}")
    yield from (f"--{word}-host", "*" if rule.from_host is None else client(rule.from_host).address)
    for operation in rule.operations:
        yield from ("--operation", operation)
    yield from ("--topic", rule.topic) if rule.topic is not None else ("--group", rule.group or "")


def _run_tool(lab: str, log: Path, process: str, words: list[str]) -> None:
    plan = kafka_tool.planned(lab, "acls", words)
    assert isinstance(plan, tools.Plan)  # noqa: S101  # `acls` is a tool and no command of the lab
    with kafka_tool.command(lab, plan) as argv:
        requests.spawn(lab, requests.Spawn(process, "observer", argv, str(log)))
        deadline = time.monotonic() + TOOL_S
        while process not in (exits := requests.exits(lab, [process])):
            if time.monotonic() > deadline:
                raise CannotHere(f"kafka-acls {' '.join(words)} did not end within {TOOL_S:.0f} s")
            time.sleep(0.05)
    if exits[process] != (0, None):
        told = log.read_text(errors="replace").splitlines()[-8:]
        raise CannotHere(f"kafka-acls {' '.join(words)} failed; it said:", told)


def _wait_until_known(lab: str, wanted: int) -> None:
    """Wait until each broker knows the rules: the others learn them a little later than the broker that was asked."""
    nodes = [node for node in requests.nodes(lab) if node.role == "broker"]
    deadline = time.monotonic() + KNOWN_S
    while True:
        known = control.inside(lab, "observer", lambda: [_rules(node) for node in nodes])
        if all(count == wanted for count in known):
            return
        if time.monotonic() > deadline:
            told = ", ".join(f"{node.name} {count}" for node, count in zip(nodes, known, strict=True))
            raise CannotHere(f"{wanted} rules were set, and after {KNOWN_S:.0f} s brokers know of: {told}")
        time.sleep(0.05)


def _rules(node: NodePlace) -> int | None:
    try:
        with Broker(*node.endpoint, ASK_S) as broker:
            return broker.rules()
    except NoAnswer:
        return None
