"""Reports what is wrong with a scenario's producers and consumers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ackproof.core.errors import did_you_mean
from ackproof.core.sites import FIRST_SITE, placed
from ackproof.model.faults import Start
from ackproof.model.scenario import ConsumerPlan, ProducerPlan, Scenario
from ackproof.model.steps import Resize
from ackproof.scenario.shape import Problem


def client_problems(scenario: Scenario) -> Iterator[Problem]:
    yield from _producers(scenario)
    yield from _consumers(scenario)
    yield from _never_started(scenario)
    yield from _bootstrap(scenario)


def _producers(scenario: Scenario) -> Iterator[Problem]:
    topics = [topic.name for topic in scenario.topics]
    if not scenario.producers:
        yield "producers", "there is no producer, so there is nothing to judge"
    for number, producer in enumerate(scenario.producers):
        where = f"producers.{number}"
        if producer.topic not in topics:
            yield f"{where}.topic", f"no topic {producer.topic!r}{did_you_mean(producer.topic, topics)}"
        if not 1 <= producer.count <= 10**12:
            yield f"{where}.count", f"count = {producer.count}: at least one message"
        if producer.rate is not None and not 0 < producer.rate <= 10**7:
            yield f"{where}.rate", f"rate = {producer.rate:g}: a positive number of messages a second"
        if not 1 <= producer.copies <= 100:
            yield f"{where}.copies", f"copies = {producer.copies}: from 1 to 100"
        if not 16 <= producer.size <= 1_000_000:
            yield f"{where}.size", f"size = {producer.size}: from 16 bytes (the number must fit) to 1,000,000"
        if producer.keys is not None and producer.keys < 1:
            yield f"{where}.keys", f"keys = {producer.keys}: at least one"
        if producer.outbox is not None and producer.acks == "0":
            yield f"{where}.outbox", "an outbox needs an acknowledgement to know what was published: acks = 1 or all"
        if producer.outbox is not None and producer.outbox.give_up_after < 1:
            yield f"{where}.outbox", f"give_up_after = {producer.outbox.give_up_after}: at least one failure"
        yield from _sharing(scenario, number, where)
        if not 0 < producer.topic_timeout_s <= 600:
            yield f"{where}.topic_timeout_s", f"topic_timeout_s = {producer.topic_timeout_s:g}: above 0, up to 600"
        for place, pause in enumerate(producer.pauses):
            if producer.rate is None:
                yield f"{where}.pauses", "pauses are for a producer with a rate: without one nothing is ever due"
            if not 0 < pause.after < producer.count:
                yield (
                    f"{where}.pauses.{place}",
                    f"after = {pause.after}: from 1 to its messages, {producer.count}",
                )
            if not 0 < pause.seconds <= 3600:
                yield f"{where}.pauses.{place}", f"seconds = {pause.seconds:g}: above 0, up to 3600"
        for key in ("acks", "request.required.acks", "client.id"):
            if key in producer.settings:
                yield f"{where}.settings.{key}", f"{key}: {'use acks =' if 'acks' in key else 'Ackproof sets it'}"


def _consumers(scenario: Scenario) -> Iterator[Problem]:
    readable = [*(topic.name for topic in scenario.topics), *scenario.mirrors]
    for number, consumer in enumerate(scenario.consumers):
        for field, topic in (("topic", consumer.topic), *(("also", each) for each in consumer.also)):
            if topic not in readable:
                yield f"consumers.{number}.{field}", f"no topic {topic!r}{did_you_mean(topic, readable)}"
            elif placed(topic)[0] != placed(consumer.topic)[0]:
                yield f"consumers.{number}.{field}", f"{topic} and {consumer.topic} are at two sites: use two consumers"
        if consumer.protocol == "consumer" and "zookeeper" in scenario.modes:
            yield f"consumers.{number}.protocol", 'protocol = "consumer" is Kafka 4\'s: use it with modes = ["kraft"]'
        if "isolation.level" in consumer.settings:
            yield f"consumers.{number}.settings.isolation.level", "isolation.level: use isolation ="
        if not 1 <= consumer.copies <= 100:
            yield f"consumers.{number}.copies", f"copies = {consumer.copies}: from 1 to 100"
        members = sum(other.copies for other in scenario.consumers if other.group == consumer.group)
        if consumer.readers is not None and not 0 <= consumer.readers <= members:
            yield (
                f"consumers.{number}.readers",
                f"readers = {consumer.readers}: from 0 to its group's {members} members",
            )
        if consumer.receiver is not None:
            yield from _receiver(scenario, consumer, f"consumers.{number}")


def _bootstrap(scenario: Scenario) -> Iterator[Problem]:
    """Report wrong bootstrap brokers."""
    clients: dict[str, Sequence[ProducerPlan | ConsumerPlan]]
    clients = {"producers": scenario.producers, "consumers": scenario.consumers}
    brokers = [f"kafka{number}" for number in range(1, scenario.cluster.brokers + 1)]
    for kind, plans in clients.items():
        for number, plan in enumerate(plans):
            where = f"{kind}.{number}.bootstrap"
            for name in plan.bootstrap:
                if name not in brokers:
                    yield where, f"no broker {name!r}{did_you_mean(name, brokers)}"
            if plan.bootstrap and (plan.user or plan.command or placed(plan.topic)[0] != FIRST_SITE):
                yield where, f"bootstrap is for bundled clients at {FIRST_SITE} without a user"


def _never_started(scenario: Scenario) -> Iterator[Problem]:
    started = {target for fault in scenario.faults if isinstance(fault, Start) for target in fault.targets}
    clients: dict[str, Sequence[ProducerPlan | ConsumerPlan]]
    clients = {"producer": scenario.producers, "consumer": scenario.consumers}
    for kind, plans in clients.items():
        each = [(place, plan) for place, plan in enumerate(plans) for _ in range(plan.copies)]
        for number, (place, plan) in enumerate(each, start=1):
            if plan.waits and f"{kind}:{number}" not in started:
                yield f"{kind}s.{place}.waits", f"{kind}:{number} waits, and no fault starts it"


def _sharing(scenario: Scenario, number: int, where: str) -> Iterator[Problem]:
    """Report what is wrong with what producers share: partitions, threads, and time."""
    producer = scenario.producers[number]
    topic = next((topic for topic in scenario.topics if topic.name == producer.topic), None)
    if producer.partition is not None and topic is not None:
        last = producer.partition + producer.copies - 1
        if producer.partition < 0 or last >= topic.partitions:
            what = f"partition {last} is wanted, and {topic.name} has 0 to {topic.partitions - 1}"
            yield f"{where}.partition", f"partition = {producer.partition}: {what}"
    if producer.threads is not None and not 1 <= producer.threads <= 64:
        yield f"{where}.threads", f"threads = {producer.threads}: from 1 to 64"
    if producer.threads is not None and producer.rate is not None:
        yield f"{where}.threads", "threads are for a producer without a rate: with one, they would only wait"
    if producer.outbox is not None and (producer.threads is not None or producer.partition is not None):
        yield f"{where}.outbox", "an outbox has one sweeper, and no partition of its own: no threads, no partition"
    if producer.after is not None and not 1 <= producer.after <= number:
        yield f"{where}.after", f"after = {producer.after}: a [[producers]] table before this one, counted from 1"
    if producer.after is not None and producer.rate is not None:
        yield (
            f"{where}.after",
            "after is for producers without a rate: with a rate, the due times would not be known",
        )


def _receiver(scenario: Scenario, consumer: ConsumerPlan, where: str) -> Iterator[Problem]:
    """Report what a receiver cannot have: it is in no group, and its database is its own."""
    if consumer.topic in scenario.mirrors:
        yield f"{where}.topic", f"{consumer.topic} is what a mirror made: a receiver cannot read a mirror's topic"
    if any(isinstance(fault, Resize) and f"{consumer.topic}/*" in fault.partitions for fault in scenario.faults):
        yield (
            f"{where}.receiver",
            f"{consumer.topic} grows: a receiver reads the partitions that there are at its start",
        )
    plain = ConsumerPlan(topic=consumer.topic, group=consumer.group)
    for name in ("also", "copies", "protocol", "static", "start", "commit"):
        if getattr(consumer, name) != getattr(plain, name):
            yield (
                f"{where}.{name}",
                f"{name}: a receiver reads all partitions by itself, from where its database stands",
            )
