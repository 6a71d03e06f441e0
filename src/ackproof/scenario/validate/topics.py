"""Reports what is wrong with a scenario's topics."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ackproof.core.errors import did_you_mean
from ackproof.core.sites import FIRST_SITE, placed
from ackproof.model.scenario import Scenario
from ackproof.scenario.shape import Problem

_SETTINGS = (
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


def topic_problems(scenario: Scenario) -> Iterator[Problem]:
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
                f"topic {topic.name!r}: log_dirs are inspected at {FIRST_SITE} only; use log_dirs = 1",
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
            if key not in _SETTINGS:
                yield (
                    f"{where}.settings.{key}",
                    f"Kafka has no topic setting {key!r}{did_you_mean(key, _SETTINGS)}",
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
