"""Reports what is wrong with a scenario's clients that are commands."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.core.errors import did_you_mean
from ackproof.core.sites import FIRST_SITE, placed
from ackproof.kafka.tools.catalogue import TOOLS
from ackproof.model.external_clients import KAFKA_TOOL, PLACEHOLDER, not_applicable
from ackproof.model.fault import AnyFault
from ackproof.model.faults import FAULTS, HIT_CLIENTS
from ackproof.model.scenario import ConsumerPlan, ProducerPlan, Scenario
from ackproof.scenario.shape import Problem

PRODUCER_WORDS = ("bootstrap", "topic", "count", "rate", "acks", "producer", "examples")
CONSUMER_WORDS = ("bootstrap", "topic", "group", "start", "consumer", "examples")

# Settings of the bundled clients. An external client has them in its command.
_OURS = {
    ProducerPlan: (
        "size", "keys", "print", "pauses", "topic_check", "topic_timeout_s", "outbox", "transactions", "user",
        "from_host", "refused", "partition", "threads", "settings",
    ),
    ConsumerPlan: (
        "also", "protocol", "static", "commit", "isolation", "user", "from_host", "print", "receiver", "settings",
    ),
}  # fmt: skip
_FAULTS = {
    "producer": tuple(kind for kind in HIT_CLIENTS if not FAULTS[kind].about.starts),  # it cannot go on where it stood
    "consumer": HIT_CLIENTS,
}


Plan = ProducerPlan | ConsumerPlan


def external_client_problems(scenario: Scenario) -> Iterator[Problem]:
    for number, producer in enumerate(scenario.producers):
        yield from _client(producer, f"producers.{number}", PRODUCER_WORDS)
    for number, consumer in enumerate(scenario.consumers):
        yield from _client(consumer, f"consumers.{number}", CONSUMER_WORDS)
        if consumer.command and any(each.topic == consumer.topic and not each.command for each in scenario.producers):
            told = "the bundled producer's values are not text, so a command cannot print them: give it a command too"
            yield f"consumers.{number}.command", f"{told}, such as kafka-verifiable-producer"
    for number, fault in enumerate(scenario.faults):
        yield from _fault(scenario, fault, f"faults.{number}.targets")
    untold = not_applicable(scenario)
    for field in ("expect", "expect_zookeeper", "expect_kraft"):
        for check, word in getattr(scenario, field).items():
            if check in untold and word != "allowed":
                yield f"{field}.{check}", f"{check} cannot be {word}: it is not applicable, for {untold[check]}"
    for number, claim in enumerate(scenario.claims):
        if claim.acked is not None and "stale_leader_ack" in untold:
            yield f"claims.{number}.acked", f"acked cannot be claimed, for {untold['stale_leader_ack']}"


def _client(plan: Plan, where: str, words: tuple[str, ...]) -> Iterator[Problem]:
    if not plan.command:
        if plan.where != "client":
            yield f"{where}.where", f'where = "{plan.where}" is for a client with a command'
        return
    for name in (name for word in plan.command for name in PLACEHOLDER.findall(word)):
        if name not in words:
            known = ", ".join(f"{{{each}}}" for each in words)
            yield (
                f"{where}.command",
                f"there is no placeholder {{{name}}}{did_you_mean(name, words)}: known are {known}",
            )
    if placed(plan.topic)[0] != FIRST_SITE:
        yield f"{where}.topic", f"a command is given the brokers of {FIRST_SITE}: use a topic of theirs"
    first = plan.command[0]
    if first.startswith(KAFKA_TOOL) and (tool := first.removeprefix(KAFKA_TOOL)) not in TOOLS:
        yield f"{where}.command", f"Kafka has no tool {first}{did_you_mean(tool, list(TOOLS))}"
    usual = type(plan)(plan.topic, plan.count) if isinstance(plan, ProducerPlan) else type(plan)(plan.topic, plan.group)
    for name in _OURS[type(plan)]:
        if getattr(plan, name) != getattr(usual, name):
            yield f"{where}.{name}", f"{name} is for the bundled clients: put it into the command"


def _fault(scenario: Scenario, fault: AnyFault, where: str) -> Iterator[Problem]:
    every: dict[str, Plan] = {
        **{f"producer:{number}": plan for number, plan in enumerate(scenario.each_producer, start=1)},
        **{f"consumer:{number}": plan for number, plan in enumerate(scenario.each_consumer, start=1)},
    }
    for target in fault.asked:
        plan = every.get(target)
        if plan is None or not plan.command:
            continue
        possible = _FAULTS[target.partition(":")[0]]
        if plan.where == "host":
            yield where, f"{target} runs on the host, where Ackproof injects no faults"
        elif fault.kind not in possible:
            yield where, f"{target} is a command: faults that can hit it are {', '.join(possible)}"
