"""Everything that can be wrong with a scenario beyond its shape: impossible times, unknown names, contradictions.

Each problem is a place in the file and a sentence. Pure; nothing is started to find them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import msgspec

from ackproof.core.errors import UsageProblem, did_you_mean
from ackproof.core.sites import FIRST_SITE, placed
from ackproof.kafka.distribution.jars import DEFAULT_KRAFT, DEFAULT_ZOOKEEPER
from ackproof.lab.spec import BROKERS_MAX, LOG_DIRS_MAX, QUORUM_SIZES, LabSpec, Setting, check, client
from ackproof.lab.targets import TRANSACTION
from ackproof.model.checks import CHECKS
from ackproof.model.scenario import (
    CLIENT_KINDS,
    CLIENTS,
    FAULT_KINDS,
    PLAIN_ROLES,
    ROLE_PREFIXES,
    SITE_ROLES,
    ClaimPlan,
    ConsumerPlan,
    DrawnPlan,
    FaultPlan,
    ProducerPlan,
    Scenario,
)
from ackproof.scenario.validate import external_clients as foreign
from ackproof.scenario.validate.access import access_problems, transaction_problems
from ackproof.scenario.validate.health import health_problems

DRAWN = ("kill", "stop", "restart", "pause", "isolate", "partition", "cut", "flaky", "slow")
PROCESS_KINDS = ("kill", "stop", "start", "restart", "replace", "add-directory", "pause")
TOPIC_SETTINGS = (
    "cleanup.policy", "compression.gzip.level", "compression.lz4.level", "compression.type", "compression.zstd.level",
    "delete.retention.ms", "file.delete.delay.ms", "flush.messages", "flush.ms",
    "follower.replication.throttled.replicas", "index.interval.bytes", "leader.replication.throttled.replicas",
    "local.retention.bytes", "local.retention.ms", "max.compaction.lag.ms", "max.message.bytes",
    "message.downconversion.enable", "message.format.version", "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms", "message.timestamp.difference.max.ms", "message.timestamp.type",
    "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "min.insync.replicas", "preallocate",
    "remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable", "retention.bytes",
    "retention.ms", "segment.bytes", "segment.index.bytes", "segment.jitter.ms", "segment.ms",
    "unclean.leader.election.enable",
)  # fmt: skip

Problem = tuple[str, str]
_NEEDS = {
    "elect": "partitions",
    "seek": "partitions",
    "resize": "partitions",
    "caught-up": "partitions",
    "translated": "partitions",
    "partition": "groups",
}  # the others: targets


def problems(scenario: Scenario) -> list[Problem]:
    return [
        *_basics(scenario),
        *(dict.fromkeys(_servers(scenario)) if 1 <= scenario.cluster.brokers <= BROKERS_MAX else ()),
        *_clients(scenario),
        *access_problems(scenario),
        *transaction_problems(scenario),
        *(
            found
            for number, fault in enumerate(scenario.faults)
            for found in _fault(scenario, fault, f"faults.{number}")
        ),
        *(_drawn(scenario, scenario.drawn) if scenario.drawn is not None else ()),
        *(
            found
            for number, claim in enumerate(scenario.claims)
            for found in _claim(scenario, claim, f"claims.{number}")
        ),
        *health_problems(scenario),
        *_expectations(scenario),
        *foreign.problems(scenario),
    ]


def _basics(scenario: Scenario) -> Iterator[Problem]:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", scenario.name):
        yield "name", f"name {scenario.name!r}: use small letters, digits and -, up to 64"
    if not scenario.modes:
        yield "modes", "modes: name at least one of zookeeper, kraft"
    if not 1 <= scenario.cluster.brokers <= BROKERS_MAX:
        yield "cluster.brokers", f"brokers = {scenario.cluster.brokers}: from 1 to {BROKERS_MAX}"
    if scenario.cluster.quorum not in QUORUM_SIZES:
        yield "cluster.quorum", f"quorum = {scenario.cluster.quorum}: 1, 3 or 5"
    if not 1 <= scenario.cluster.log_dirs <= LOG_DIRS_MAX:
        yield "cluster.log_dirs", f"log_dirs = {scenario.cluster.log_dirs}: from 1 to {LOG_DIRS_MAX}"
    for name in ("unavailable_ms", "late_ms", "rate_line", "dip_s"):
        line = getattr(scenario.judge, name)
        if line is not None and not 0 <= line < math.inf:
            yield f"judge.{name}", f"{name} = {line:g}: a number, and not below 0"
        elif line is not None and name == "unavailable_ms" and line < 1:
            yield f"judge.{name}", f"{name} = {line:g}: at least 1, for there is always a moment between two acks"
    if not 1 <= scenario.timeout_s <= 86_400:
        yield "timeout_s", f"timeout_s = {scenario.timeout_s:g}: from 1 to 86400 seconds"
    if not scenario.topics:
        yield "topics", "there is no topic"
    seen: set[str] = set()
    for number, topic in enumerate(scenario.topics):
        where = f"topics.{number}"
        site, own = placed(topic.name)
        brokers = scenario.cluster.brokers if site == FIRST_SITE else scenario.cluster.second
        if site != FIRST_SITE and not brokers:
            yield f"{where}.name", f"topic {topic.name!r}: there is no second cluster; use second = 1 in [cluster]"
        elif not re.fullmatch(r"[A-Za-z0-9._-]{1,200}", own) or own in (".", ".."):
            yield f"{where}.name", f"topic {topic.name!r}: Kafka takes letters, digits, '.', '_' and '-'"
        elif site != FIRST_SITE and scenario.cluster.log_dirs > 1:
            yield (
                f"{where}.name",
                f"topic {topic.name!r}: log_dirs are looked into at {FIRST_SITE} only; use log_dirs = 1",
            )
        if topic.name in seen:
            yield f"{where}.name", f"topic {topic.name!r} is there twice"
        seen.add(topic.name)
        if topic.after is not None and not any(
            fault.before_clients and place == topic.after for place, fault in enumerate(scenario.faults, start=1)
        ):
            yield f"{where}.after", f"after = {topic.after}: no fault of this number begins before_clients"
        if topic.made_by == "producer" and not any(
            producer.topic == topic.name and producer.topic_check == "create" for producer in scenario.producers
        ):
            yield f"{where}.made_by", f'no producer of {topic.name!r} has topic_check = "create"'
        if topic.made_by == "producer" and topic.settings:
            yield f"{where}.settings", "a topic that a producer makes has the brokers' settings: leave them out"
        if not 1 <= topic.partitions <= 1000:
            yield f"{where}.partitions", f"partitions = {topic.partitions}: from 1 to 1000"
        for key in topic.settings:
            if key not in TOPIC_SETTINGS:
                yield (
                    f"{where}.settings.{key}",
                    f"Kafka has no topic setting {key!r}{did_you_mean(key, TOPIC_SETTINGS)}",
                )
        least = topic.settings.get("min.insync.replicas", 1)
        if not isinstance(least, int) or not 1 <= least <= topic.replication:
            most = f"from 1 to the number of replicas, {topic.replication}"
            yield f"{where}.settings.min.insync.replicas", f"min.insync.replicas = {least}: {most}"
        if not 1 <= topic.replication <= max(brokers, 1):
            yield (
                f"{where}.replication",
                f"replication = {topic.replication}: from 1 to the number of brokers, {brokers}",
            )


def _servers(scenario: Scenario) -> Iterator[Problem]:
    """What `up` would refuse, in any of the modes."""
    for mode in scenario.modes:
        version = DEFAULT_ZOOKEEPER if mode == "zookeeper" else DEFAULT_KRAFT
        settings = tuple(Setting(scope, key, str(value)) for scope, key, value in scenario.settings(mode))
        cluster = scenario.cluster
        spec = LabSpec(
            kafka=version,
            mode=mode,
            brokers=cluster.brokers,
            settings=settings,
            second=cluster.second,
            mirror=cluster.mirror,
        )
        try:
            check(spec)
        except UsageProblem as problem:
            yield from (("cluster.settings", what) for what in problem.details or [problem.message])


def _clients(scenario: Scenario) -> Iterator[Problem]:
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
                yield f"{where}.settings.{key}", f"{key}: {'use acks =' if 'acks' in key else 'the laboratory sets it'}"
    readable = [*topics, *scenario.mirrors]
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
    yield from _never_started(scenario)
    yield from _told_of(scenario)


def _told_of(scenario: Scenario) -> Iterator[Problem]:
    """The brokers that clients begin with."""
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
                yield where, f"bootstrap is for clients of ours at {FIRST_SITE}, without a user"


def _never_started(scenario: Scenario) -> Iterator[Problem]:
    started = {target for fault in scenario.faults if fault.kind == "start" for target in fault.targets}
    clients: dict[str, Sequence[ProducerPlan | ConsumerPlan]]
    clients = {"producer": scenario.producers, "consumer": scenario.consumers}
    for kind, plans in clients.items():
        each = [(place, plan) for place, plan in enumerate(plans) for _ in range(plan.copies)]
        for number, (place, plan) in enumerate(each, start=1):
            if plan.waits and f"{kind}:{number}" not in started:
                yield f"{kind}s.{place}.waits", f"{kind}:{number} waits, and no fault starts it"


def _sharing(scenario: Scenario, number: int, where: str) -> Iterator[Problem]:
    """What producers share: partitions, threads, and the time."""
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
        yield f"{where}.after", "after is for producers without a rate: nobody knows when theirs would be due"


def _receiver(scenario: Scenario, consumer: ConsumerPlan, where: str) -> Iterator[Problem]:
    """It is in no group, and alone with its database."""
    if consumer.topic in scenario.mirrors:
        yield f"{where}.topic", f"{consumer.topic} is what a mirror made: a receiver is for a topic of its own"
    if any(fault.kind == "resize" and f"{consumer.topic}/*" in fault.partitions for fault in scenario.faults):
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


def _fault(scenario: Scenario, fault: FaultPlan, where: str) -> Iterator[Problem]:
    if fault.kind not in FAULT_KINDS:
        hint = did_you_mean(fault.kind, list(FAULT_KINDS))
        yield f"{where}.kind", f"no kind of fault {fault.kind!r}{hint}: known are {', '.join(FAULT_KINDS)}"
        yield from _names(scenario, fault, where)
        return
    if (needed := _NEEDS.get(fault.kind, "targets")) and not getattr(fault, needed):
        yield where, f"{fault.kind} needs {needed}"
    yield from _ignored(fault, where)
    if fault.port is not None and not 1 <= fault.port <= 65_535:
        yield f"{where}.port", f"port = {fault.port}: from 1 to 65535"
    if fault.kind in PROCESS_KINDS and any(name.startswith("client") for name in fault.targets):
        yield f"{where}.targets", f"client is a place for programs, not a server: there is nothing to {fault.kind}"
    named_twice = [
        name for name, count in Counter(name for group in fault.groups for name in group).items() if count > 1
    ]
    if named_twice:
        yield f"{where}.groups", f"{', '.join(named_twice)}: in more than one group"
    if fault.kind == "cut" and not fault.apart_from:
        yield where, "cut needs apart_from: the other side of the links"
    if fault.kind == "flaky" and not (fault.loss and 0 < fault.loss <= 1):
        yield where, "flaky needs loss, a share above 0 and up to 1"
    if fault.kind == "slow" and not (fault.delay_ms and 1 <= fault.delay_ms <= 60_000):
        yield where, "slow needs delay_ms, from 1 to 60000"
    if fault.kind == "seek" and (fault.to_offset is None) == (fault.seconds_ago is None):
        yield where, "seek goes to_offset or seconds_ago: give one of them"
    if fault.kind == "seek" and (fault.before_clients or (fault.to_offset or 0) < 0 or (fault.seconds_ago or 0) < 0):
        yield where, "seek goes to a place of the load: at an offset from 0 on, or seconds ago, while the load goes on"
    if fault.kind == "seek" and fault.gone and fault.to_offset is None:
        yield where, "gone is said of an offset: give to_offset"
    if fault.kind == "resize":
        yield from _resize(scenario, fault, where)
    if fault.kind in ("caught-up", "translated"):
        yield from _mirror_step(scenario, fault, where)
    if fault.kind in ("elect", "seek", "resize"):
        for name in fault.partitions:
            topic = name.rpartition("/")[0]
            if placed(topic)[0] != FIRST_SITE or topic in scenario.mirrors:
                told = f"{fault.kind} is for topics of {FIRST_SITE} that no mirror makes"
                yield f"{where}.partitions", f"{name!r}: {told}"
    if fault.kind in ("elect", "seek", "caught-up", "translated"):
        for name in fault.partitions:
            if not _is_partition(scenario, name.replace("/*", "/0")):
                yield f"{where}.partitions", f"{name!r}: no such partition; write it as TOPIC/PARTITION, or TOPIC/*"
    if fault.on_clients:
        yield from _client_fault(scenario, fault, where)
    yield from _times(scenario, fault, where)
    yield from _names(scenario, fault, where)
    if fault.not_before_new_epoch is not None and not _is_partition(scenario, fault.not_before_new_epoch):
        yield (
            f"{where}.not_before_new_epoch",
            f"{fault.not_before_new_epoch!r}: no such partition; write it as TOPIC/PARTITION",
        )


def _drawn(scenario: Scenario, drawn: DrawnPlan) -> Iterator[Problem]:
    """Each that may be drawn, as the first; and whether any will be."""
    if not 0 < drawn.lasts_s < drawn.every_s:
        yield "drawn.lasts_s", f"lasts_s = {drawn.lasts_s:g}: above 0, and less than every_s = {drawn.every_s:g}"
        return
    if not drawn.faults:
        yield "drawn", "there is nothing to draw: give [[drawn.faults]]"
    load_s = scenario.lasts_s
    if load_s is None or load_s < 2 * drawn.every_s:
        told = "no end that is known: give every producer a rate" if load_s is None else f"only {load_s:g} s"
        yield "drawn.every_s", f"every_s = {drawn.every_s:g}: the load lasts twice as long at least, and has {told}"
        return
    for number, fault in enumerate(drawn.faults):
        where = f"drawn.faults.{number}"
        if fault.kind in FAULT_KINDS and fault.kind not in DRAWN:
            yield f"{where}.kind", f"{fault.kind} is not drawn by lot; what is: {', '.join(DRAWN)}"
        if fault.when_given:
            yield where, f"{', '.join(fault.when_given)}: every_s and lasts_s say when it begins and ends"
            continue
        as_first = msgspec.structs.replace(scenario, faults=[fault])
        for step in drawn.steps(fault, drawn.every_s, 1):
            yield from _fault(as_first, step, where)


def _resize(scenario: Scenario, fault: FaultPlan, where: str) -> Iterator[Problem]:
    sizes = {f"{topic.name}/*": topic.partitions for topic in scenario.topics}
    for name in fault.partitions:
        if name not in sizes:
            yield f"{where}.partitions", f"{name!r}: resize takes a whole topic, written as TOPIC/*"
        elif fault.to_partitions is None or not sizes[name] < fault.to_partitions <= 1000:
            yield (
                f"{where}.to_partitions",
                f"to_partitions = {fault.to_partitions}: more than the {sizes[name]} there are, up to 1000; "
                "Kafka takes no partition away, for its records would have to go somewhere",
            )


def _mirror_step(scenario: Scenario, fault: FaultPlan, where: str) -> Iterator[Problem]:
    if fault.kind == "translated" and fault.group not in {consumer.group for consumer in scenario.consumers}:
        yield where, "translated needs group: that of a consumer"
    for name in fault.partitions:
        if name.rpartition("/")[0] not in scenario.mirrors:
            made = ", ".join(scenario.mirrors) or "none"
            yield f"{where}.partitions", f"{name!r}: not a mirror's; write TOPIC/*, its topics are {made}"
    if fault.kind == "caught-up" and any(_cuts_mirror_off(other, fault) for other in scenario.faults):
        yield (
            where,
            "caught-up: the mirror is cut off at this moment, so it cannot catch up; begin once that has healed",
        )


def _cuts_mirror_off(fault: FaultPlan, step: FaultPlan) -> bool:
    """Whether this fault surely stands between the sites, or hits the mirror, when the step begins."""
    named = {name for names in (fault.targets, fault.apart_from, *fault.groups) for name in names}
    if fault.kind not in ("pause", "isolate", "partition", "cut") or not named & {*SITE_ROLES, "mirror"}:
        return False
    times = (
        (fault.at_s, step.at_s, fault.until_s),
        (fault.at_messages, step.at_messages, fault.until_messages),
    )
    return any(
        begins is not None and now is not None and begins <= now and (fault.until or (ends is not None and now < ends))
        for begins, now, ends in times
    )


def _names(scenario: Scenario, fault: FaultPlan, where: str) -> Iterator[Problem]:
    named = [
        ("targets", fault.targets),
        ("apart_from", fault.apart_from),
        *(("groups", group) for group in fault.groups),
    ]
    for field, names in named:
        for name in names:
            if sentence := _unknown(scenario, name):
                yield f"{where}.{field}", sentence


def _ignored(fault: FaultPlan, where: str) -> Iterator[Problem]:
    """Options that this kind of fault would not heed."""
    links = ("one_way", "port", "new_connections", "reset")
    heeded = {
        "cut": ("targets", "apart_from", *links),
        "isolate": ("targets", "apart_from", *(links if fault.apart_from else ())),
        "partition": ("groups",),
        "flaky": ("targets", "loss"),
        "slow": ("targets", "delay_ms"),
        "elect": ("partitions", "unclean"),
        "seek": ("partitions", "to_offset", "seconds_ago", "gone"),
        "resize": ("partitions", "to_partitions"),
        "caught-up": ("partitions",),
        "translated": ("partitions", "group"),
    }.get(fault.kind, ("targets",))
    others = ("loss", "delay_ms", "partitions", "unclean", "to_offset", "seconds_ago", "gone", "to_partitions", "group")
    for name in ("targets", "apart_from", "groups", *links, *others):
        if getattr(fault, name) not in (None, False, []) and name not in heeded:
            hint = " without apart_from" if fault.kind == "isolate" and name in links else ""
            yield f"{where}.{name}", f"{fault.kind}{hint} has no {name}"


def _client_fault(scenario: Scenario, fault: FaultPlan, where: str) -> Iterator[Problem]:
    for number, plan in enumerate(scenario.each_producer, start=1):
        again = fault.kind == "restart" or (fault.kind == "start" and not plan.waits)
        if f"producer:{number}" in fault.targets and again and not (plan.outbox or plan.command):
            yield f"{where}.targets", f"producer:{number}: only a producer with an outbox knows where it stood"
    if fault.before_clients:
        yield f"{where}.before_clients", "there are no clients yet to do anything to"
    if fault.kind not in CLIENT_KINDS:
        yield f"{where}.kind", f"{fault.kind}: what can be done to a client is {', '.join(CLIENT_KINDS)}"
    if not all(target.startswith(CLIENTS) for target in fault.targets):
        yield f"{where}.targets", "clients and nodes cannot be targets of one fault: write two"


def _times(scenario: Scenario, fault: FaultPlan, where: str) -> Iterator[Problem]:
    ways = [each is not None for each in (fault.at_s, fault.at_messages, fault.after_s)] + [fault.before_clients]
    if ways.count(True) != 1:
        yield where, "a fault begins at_s, at_messages, after_s or before_clients: give one of them"
        return
    number = int(where.rpartition(".")[2])
    if fault.after_s is not None and (number == 0 or fault.after_s < 0):
        yield f"{where}.after_s", f"after_s = {fault.after_s:g}: so many seconds after the fault before it"
        return
    ends = [each for each in (fault.until_s, fault.until_messages, fault.until) if each is not None]
    if fault.lasting and len(ends) != 1:
        few = "exactly one" if ends else "one"
        yield where, f'{fault.kind} lasts: give {few} of until_s, until_messages, until = "load-ended"'
    if not fault.lasting and ends:
        yield where, f"{fault.kind} does not last, so it has no end: use start, or another fault, to undo it"
    if any(producer.count < 1 for producer in scenario.producers):
        return  # which is told already
    if negative := [name for name in ("at_messages", "at_s") if (getattr(fault, name) or 0) < 0]:
        yield f"{where}.{negative[0]}", f"{negative[0]} = {getattr(fault, negative[0]):g}: it must be 0 or more"
        return
    if fault.at_messages is not None and fault.at_messages >= scenario.total:
        yield (
            f"{where}.at_messages",
            f"at_messages = {fault.at_messages}: only {scenario.total} messages are sent, so it would never begin",
        )
    ends_s = min(scenario.timeout_s, scenario.lasts_s or scenario.timeout_s)
    if fault.after_s is not None and not scenario.earliest_s(number) < ends_s:
        yield f"{where}.after_s", f"after_s = {fault.after_s:g}: the load lasts {ends_s:g} s, so it would never begin"
    if fault.at_s is not None and fault.at_s >= ends_s:
        yield f"{where}.at_s", f"at_s = {fault.at_s:g}: the load lasts {ends_s:g} s, so it would never begin"
    if fault.until_s is not None and not fault.until_s > (fault.at_s or 0):
        yield f"{where}.until_s", f"until_s = {fault.until_s:g} is not after at_s = {fault.at_s or 0:g}"
    if fault.until_messages is not None and fault.at_messages is not None and fault.until_messages <= fault.at_messages:
        yield f"{where}.until_messages", "until_messages is not after at_messages"
    if fault.until_messages is not None and fault.until_messages > scenario.total:
        yield f"{where}.until_messages", f"only {scenario.total} messages are sent, so it would never end"


def _unknown(scenario: Scenario, name: str) -> str | None:
    """Why this is no node and no role of a lab like this one, in any of the scenario's modes."""
    if name in PLAIN_ROLES:
        if name == "zookeeper-leader" and "kraft" in scenario.modes:
            return 'zookeeper-leader: kraft mode has none; use controller, or modes = ["zookeeper"]'
        return None
    for prefix in ROLE_PREFIXES:
        if name.startswith(prefix):
            what = name.removeprefix(prefix)
            if prefix == "coordinator:":
                return _unknown_transactions(scenario, what)
            if _is_partition(scenario, what):
                return None
            topic = what.partition("/")[0]
            if "/" in what and topic not in (known := [each.name for each in scenario.topics]):
                return f"{name}: no topic {topic!r}{did_you_mean(topic, known)}"
            return f"{name}: no such partition; write it as {prefix}TOPIC/PARTITION"
    if name.startswith(CLIENTS):
        return _unknown_client(scenario, name)
    if name.startswith(("quorum:", "target:")):
        role, _, number = name.partition(":")
        count = scenario.cluster.quorum if role == "quorum" else len(scenario.faults)
        if number.isdigit() and 1 <= int(number) <= count:
            return None
        return f"{name}: {role}:1 to {role}:{count} are known"
    names = [f"kafka{number}" for number in range(1, scenario.cluster.brokers + 1)]
    names += [client(number).name for number in range(1, scenario.client_hosts + 1)]
    if scenario.cluster.second:
        names += [f"dc2.kafka{number}" for number in range(1, scenario.cluster.second + 1)] + list(SITE_ROLES)
    names += ["mirror"] if scenario.mirrors else []
    if scenario.modes == ["zookeeper"]:
        names += [f"zk{number}" for number in range(1, scenario.cluster.quorum + 1)]
    elif scenario.modes == ["kraft"]:
        names += [f"controller{number}" for number in range(1, scenario.cluster.quorum + 1)]
    if any(fnmatchcase(each, name) for each in names):
        return None
    both = " (both modes run it: say quorum for the ZooKeeper or controller nodes)" if len(scenario.modes) > 1 else ""
    roles = ", ".join((*PLAIN_ROLES, *(f"{prefix}…" for prefix in ROLE_PREFIXES)))
    hint = did_you_mean(name, [*names, *PLAIN_ROLES])
    return f"no node or role {name!r}{hint}: nodes are {', '.join(names)}; roles are {roles}{both}"


def _unknown_transactions(scenario: Scenario, what: str) -> str | None:
    """A group may have any name; a producer's transactions are known by the producer's."""
    plans = scenario.each_producer
    known = [f"{TRANSACTION}producer{number}" for number, plan in enumerate(plans, start=1) if plan.transactions]
    if not what.startswith(TRANSACTION) or what in known:
        return None
    return f"coordinator:{what}: no such producer; with transactions are {', '.join(known) or 'none'}"


def _unknown_client(scenario: Scenario, name: str) -> str | None:
    kind, _, number = name.partition(":")
    plans = scenario.producers if kind == "producer" else scenario.consumers
    count = sum(plan.copies for plan in plans)
    if number.isdigit() and 1 <= int(number) <= count:
        return None
    return f"{name}: there are {count} {kind}s" + (f", {kind}:1 to {kind}:{count}" if count else "")


def _is_partition(scenario: Scenario, text: str) -> bool:
    match = re.fullmatch(r"(.+)/(\d+)", text)
    if match is None or match[1] not in (*(topic.name for topic in scenario.topics), *scenario.mirrors):
        return False
    return int(match[2]) < scenario.topic(match[1]).partitions


def moments(scenario: Scenario) -> list[str]:
    """Every moment that a claim can be about, in their order."""
    numbers = range(1, len(scenario.faults) + 1)
    return ["start", *(f"{word} {number}" for number in numbers for word in ("before", "during")), "end"]


def _claim(scenario: Scenario, claim: ClaimPlan, where: str) -> Iterator[Problem]:
    known = moments(scenario)
    for field, moment in (("at", claim.at), ("same_leader_as", claim.same_leader_as)):
        if moment is not None and moment not in known:
            yield f"{where}.{field}", f"no moment {moment!r}{did_you_mean(moment, known)}: there are {', '.join(known)}"
    if not _is_partition(scenario, claim.partitions.replace("/*", "/0")):
        yield f"{where}.partitions", f"{claim.partitions!r}: no such partition; write TOPIC/PARTITION, or TOPIC/*"
    brokers = [f"kafka{number}" for number in range(1, scenario.cluster.brokers + 1)]
    brokers += [f"target:{number}" for number, fault in enumerate(scenario.faults, start=1) if _hits_brokers(fault)]
    for field in ("leader", "not_leader", "isr", "isr_without"):
        for name in getattr(claim, field):
            if name not in brokers:
                yield f"{where}.{field}", f"no broker {name!r}{did_you_mean(name, brokers)}"
    if not claim.claims_something:
        yield where, f"a claim that claims nothing: give one of {', '.join(ClaimPlan.WHAT)}"
    if claim.no_leader and (claim.leader or claim.preferred or claim.same_leader_as):
        yield where, "no_leader, and yet somebody is to lead"


def _hits_brokers(fault: FaultPlan) -> bool:
    """Whether `target:N` can be a broker: a claim about none would hold whatever happens."""
    elsewhere = re.compile(r"quorum|zk|zookeeper-leader|controller\d|producer:|consumer:")
    return any(elsewhere.match(name) is None for group in (fault.targets, *fault.groups) for name in group)


def _expectations(scenario: Scenario) -> Iterator[Problem]:
    for field in ("expect", "expect_zookeeper", "expect_kraft"):
        for name, word in getattr(scenario, field).items():
            if name not in CHECKS:
                hint = did_you_mean(name, tuple(CHECKS))
                yield f"{field}.{name}", f"no check {name!r}{hint}: known are {', '.join(CHECKS)}"
            if word not in ("required", "allowed", "forbidden"):
                yield f"{field}.{name}", f"{name} = {word!r}: required, allowed or forbidden"
    for mode in scenario.modes:
        expected = scenario.expected(mode)
        if expected.get("lost") == "required" and not scenario.faults:
            yield "expect.lost", "lost is required, and yet nothing breaks: without a fault nothing can be lost"
        if expected.get("stale_leader_ack") == "required" and expected.get("lost") == "forbidden":
            yield (
                "expect",
                "stale_leader_ack is required and lost forbidden: what a deposed leader acknowledges is lost",
            )
    for mode in ("zookeeper", "kraft"):
        if getattr(scenario, f"expect_{mode}") and mode not in scenario.modes:
            yield f"expect_{mode}", f"expect_{mode} is given, but the scenario does not run in {mode} mode"
