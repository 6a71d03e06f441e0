"""Reports what is wrong with a scenario's users and rules, and with its transactions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ackproof.core.errors import did_you_mean
from ackproof.core.sites import FIRST_SITE, placed
from ackproof.lab.spec import CLIENTS_MAX
from ackproof.model.faults import LEAVE_DOWN
from ackproof.model.scenario import AccessPlan, ConsumerPlan, ProducerPlan, Scenario, TransactionsPlan
from ackproof.scenario.shape import Problem


def access_problems(scenario: Scenario) -> Iterator[Problem]:
    access = scenario.cluster.access
    clients: list[tuple[str, ProducerPlan | ConsumerPlan]] = [
        *((f"producers.{number}", plan) for number, plan in enumerate(scenario.producers)),
        *((f"consumers.{number}", plan) for number, plan in enumerate(scenario.consumers)),
    ]
    users = access.users if access is not None else []
    for where, plan in clients:
        if not 1 <= plan.from_host <= CLIENTS_MAX:
            yield f"{where}.from_host", f"from_host = {plan.from_host}: from 1 to {CLIENTS_MAX}"
        if access is None and plan.user is not None:
            yield f"{where}.user", f"user = {plan.user!r}: there are users only with [cluster.access]"
        if access is not None and plan.user not in users:
            said = "every client must be one" if plan.user is None else f"no user {plan.user!r}"
            yield f"{where}.user", f"{said}: users are {', '.join(users) or 'none'}"
    for number, producer in enumerate(scenario.producers):
        if producer.user is not None and producer.topic_check == "create":
            told = "a producer with a user validates or assumes its topic"
            yield f"producers.{number}.topic_check", f'topic_check = "create": {told}'
        if producer.refused and access is None:
            yield f"producers.{number}.refused", "without [cluster.access] no client is refused"
    if access is not None:
        yield from _rules(scenario, access)


def _rules(scenario: Scenario, access: AccessPlan) -> Iterator[Problem]:
    if scenario.cluster.second:
        yield "cluster.access", "access is for one cluster: leave out second, or [cluster.access]"
    topics = [topic.name for topic in scenario.topics]
    for user in access.users:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", user) or access.users.count(user) > 1:
            yield "cluster.access.users", f"user {user!r}: letters, digits, _ and -, up to 64, and each once"
    for number, rule in enumerate(access.rules):
        where = f"cluster.access.rules.{number}"
        if rule.user not in access.users:
            yield f"{where}.user", f"no user {rule.user!r}{did_you_mean(rule.user, access.users)}"
        if (rule.topic is None) == (rule.group is None):
            yield where, "a rule is about a topic or about a group: give one of them"
        if rule.topic is not None and rule.topic not in topics:
            yield f"{where}.topic", f"no topic {rule.topic!r}{did_you_mean(rule.topic, topics)}"
        if not rule.operations:
            yield f"{where}.operations", "a rule needs at least one operation"
        if rule.from_host is not None and not 1 <= rule.from_host <= scenario.client_hosts:
            hosts = f"from 1 to {scenario.client_hosts}, the highest of any client"
            yield f"{where}.from_host", f"from_host = {rule.from_host}: {hosts}"


def transaction_problems(scenario: Scenario) -> Iterator[Problem]:
    for number, producer in enumerate(scenario.producers):
        if producer.transactions is not None:
            yield from _input(scenario, producer, producer.transactions, f"producers.{number}")
            yield from _transactions(producer, producer.transactions, f"producers.{number}.transactions")
    yield from _ended(scenario)


def _ended(scenario: Scenario) -> Iterator[Problem]:
    """Report faults that end a transactional producer, because no other process takes over its work."""
    if all(scenario.expected(mode).get("not_exactly_once") == "allowed" for mode in scenario.modes):
        return
    transactional = {f"producer:{at}" for at, plan in enumerate(scenario.each_producer, start=1) if plan.transactions}
    for number, fault in enumerate(scenario.faults):
        for target in fault.asked:
            if target in transactional and fault.kind in LEAVE_DOWN:
                told = 'its last transaction stays unfinished; set not_exactly_once = "allowed" in [expect]'
                yield f"faults.{number}.targets", f"{target}: {told}"


def _input(scenario: Scenario, producer: ProducerPlan, plan: TransactionsPlan, where: str) -> Iterator[Problem]:
    topics = [topic.name for topic in scenario.topics]
    field, said = f"{where}.transactions.input", f"input = {plan.input!r}:"
    if plan.input not in topics or plan.input == producer.topic:
        other = [topic for topic in topics if topic != producer.topic]
        yield field, f"{said} a topic that it reads, one of {', '.join(other) or 'none'}"
    if any(placed(topic)[0] != FIRST_SITE for topic in (plan.input, producer.topic)):
        yield field, f"a transaction is one cluster's: use topics of {FIRST_SITE} for input and topic"
    writers = [each for each in scenario.each_producer if each.topic == plan.input]
    if len(writers) != 1:
        yield field, f"{said} one producer must write to it, or its numbers would be ambiguous"
    elif writers[0].transactions is not None:
        yield field, f"{said} it is written in transactions itself, and its markers would be taken for messages"
    elif writers[0].count != producer.count:
        yield f"{where}.count", f"count = {producer.count}: as many as its input has, {writers[0].count}"


def _transactions(producer: ProducerPlan, plan: TransactionsPlan, where: str) -> Iterator[Problem]:
    if not 1 <= plan.size <= 10_000:
        yield f"{where}.size", f"size = {plan.size}: from 1 to 10000 messages"
    if plan.abort_every is not None and plan.abort_every < 2:
        yield f"{where}.abort_every", f"abort_every = {plan.abort_every}: at least 2, or nothing is ever committed"
    if not 1 <= plan.timeout_s <= 900:
        yield f"{where}.timeout_s", f"timeout_s = {plan.timeout_s:g}: from 1 to 900, which brokers allow at most"
    alone: dict[str, object] = {
        "rate": None,
        "keys": None,
        "pauses": [],
        "outbox": None,
        "print": False,
        "copies": 1,
        "acks": "all",
        "partition": None,
        "threads": None,
    }
    for name in (name for name, only in alone.items() if getattr(producer, name) != only):
        yield where, f"{name}: leave it out; with transactions it is one process, acks=all, at the pace of its input"
