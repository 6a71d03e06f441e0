"""What a node answers: frozen data, the same for every version of Kafka.

Kafka says -1 for "none" and "not known"; here that is None. Errors carry Kafka's names (`NOT_LEADER_OR_FOLLOWER`).
The functions below read Kafka's messages, which differ in what their versions carry; nothing else looks at those.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

import msgspec

from ackproof.kafka.protocol.codec import Malformed, assigned_partitions, error_name

TopicPartition = tuple[str, int]


class ApiVersions(msgspec.Struct, frozen=True):
    ranges: dict[int, tuple[int, int]]
    """For each api key the oldest and the newest version that the node speaks."""
    features: dict[str, int]
    """The finalized level of each feature (KRaft's `metadata.version` among them)."""


class Node(msgspec.Struct, frozen=True):
    id: int
    host: str
    port: int
    rack: str | None


class Partition(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    error: str | None
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class Metadata(msgspec.Struct, frozen=True):
    brokers: tuple[Node, ...]
    controller_id: int | None
    """The active controller under ZooKeeper; under KRaft a broker chosen at random (ask for the quorum)."""
    cluster_id: str | None
    partitions: tuple[Partition, ...]
    topic_errors: dict[str, str]
    topic_ids: dict[str, str] = msgspec.field(default_factory=dict)
    """Topic ids in Kafka's notation. A topic that is created again has a new one. None from brokers before 2.8."""


class Eligible(msgspec.Struct, frozen=True):
    """Replicas out of sync that hold all acknowledged messages; and the last of them before none was left."""

    replicas: tuple[int, ...]
    last_known: tuple[int, ...]


class Offsets(msgspec.Struct, frozen=True):
    """One replica's log. The epochs are those of the records at the two ends."""

    topic: str
    partition: int
    log_start: int | None
    log_start_epoch: int | None
    log_end: int | None
    log_end_epoch: int | None
    error: str | None
    """Why the replica does not report the ends of its log."""
    high_watermark: int | None
    high_watermark_error: str | None
    """NOT_LEADER_OR_FOLLOWER on followers: only the leader reports the high watermark."""


class Replica(msgspec.Struct, frozen=True):
    id: int
    log_end: int | None


class Quorum(msgspec.Struct, frozen=True):
    leader_id: int
    leader_epoch: int
    high_watermark: int | None
    voters: tuple[Replica, ...]
    observers: tuple[Replica, ...]


class ListedGroup(msgspec.Struct, frozen=True):
    id: str
    protocol: str
    state: str | None
    type: str | None
    """`classic`, `consumer`, `share`, `streams`; brokers before 3.8 do not report it."""


class Member(msgspec.Struct, frozen=True):
    id: str
    client_id: str
    host: str
    assigned: tuple[TopicPartition, ...] | None
    """None if the members use an assignment format of their own, as Connect's workers do."""


class Group(msgspec.Struct, frozen=True):
    id: str
    type: str
    state: str
    protocol: str
    """The assignor."""
    members: tuple[Member, ...]


def known(number: int) -> int | None:
    return None if number < 0 else number


def api_versions_of(response: Any) -> ApiVersions:
    return ApiVersions(
        {api.api_key: (api.min_version, api.max_version) for api in response.api_keys},
        {feature.name: feature.max_version_level for feature in response.finalized_features},
    )


def metadata_of(response: Any) -> Metadata:
    return Metadata(
        brokers=tuple(
            Node(node.node_id, node.host, node.port, node.rack)
            for node in sorted(response.brokers, key=lambda node: int(node.node_id))
        ),
        controller_id=known(response.controller_id),
        cluster_id=response.cluster_id,
        partitions=tuple(
            Partition(
                topic=topic.name or str(topic.topic_id),
                partition=each.partition_index,
                error=error_name(each.error_code),
                leader=known(each.leader_id),
                leader_epoch=known(each.leader_epoch),
                replicas=each.replica_nodes,
                isr=each.isr_nodes,
                offline=each.offline_replicas,
            )
            for topic in sorted(response.topics, key=lambda topic: topic.name or "")
            for each in sorted(topic.partitions, key=lambda each: int(each.partition_index))
        ),
        topic_errors={
            topic.name or str(topic.topic_id): error
            for topic in response.topics
            if (error := error_name(topic.error_code))
        },
        topic_ids={
            topic.name: kafka_id(own)
            for topic in response.topics
            if topic.name and (own := getattr(topic, "topic_id", None)) is not None and own.int
        },
    )


def kafka_id(own: UUID) -> str:
    return urlsafe_b64encode(own.bytes).decode().rstrip("=")


def settings_of(response: Any) -> dict[str, dict[str, str | None]]:
    """The settings by resource, without resources that the broker does not know or does not report."""
    return {
        result.resource_name: {each.name: each.value for each in result.configs}
        for result in response.results
        if not error_name(result.error_code)
    }


def eligible_of(response: Any) -> dict[TopicPartition, Eligible]:
    return {
        (topic.name, each.partition_index): Eligible(
            tuple(each.eligible_leader_replicas or ()), tuple(each.last_known_elr or ())
        )
        for topic in response.topics
        for each in topic.partitions
    }


def listed_offsets(response: Any) -> dict[TopicPartition, Any]:
    return {(topic.name, each.partition_index): each for topic in response.topics for each in topic.partitions}


def offsets_of(where: TopicPartition, start: Any, watermark: Any, end: Any) -> Offsets:
    """`start`, `watermark` and `end` are what the broker listed for this partition, or None if it left it out."""
    absent = "UNKNOWN_TOPIC_OR_PARTITION"
    start_error, watermark_error, end_error = (
        absent if each is None else error_name(each.error_code) for each in (start, watermark, end)
    )
    return Offsets(
        *where,
        log_start=None if start_error else known(start.offset),
        log_start_epoch=None if start_error else known(start.leader_epoch),
        log_end=None if end_error else known(end.offset),
        log_end_epoch=None if end_error else known(end.leader_epoch),
        error=end_error or start_error,
        high_watermark=None if watermark_error else known(watermark.offset),
        high_watermark_error=watermark_error,
    )


def stable_of(listed: Any) -> int | None:
    """A partition's last stable offset; None if this broker does not lead it."""
    return None if listed is None or error_name(listed.error_code) else known(listed.offset)


def quorum_of(partition: Any) -> Quorum:
    def replicas(states: Any) -> tuple[Replica, ...]:
        return tuple(Replica(each.replica_id, known(each.log_end_offset)) for each in states)

    return Quorum(
        partition.leader_id,
        partition.leader_epoch,
        known(partition.high_watermark),
        voters=replicas(partition.current_voters),
        observers=replicas(partition.observers),
    )


def listed_groups(response: Any) -> tuple[ListedGroup, ...]:
    return tuple(
        ListedGroup(
            group.group_id,
            group.protocol_type,
            getattr(group, "group_state", None) or None,
            getattr(group, "group_type", None) or None,
        )
        for group in response.groups
    )


def classic_group_of(group: Any) -> Group:
    def assigned(member: Any) -> tuple[TopicPartition, ...] | None:
        # Only members of the consumer protocol use the format that we can read.
        if group.protocol_type != "consumer":
            return None
        try:
            return assigned_partitions(member.member_assignment)
        except Malformed:
            return None

    return Group(
        group.group_id,
        "classic",
        group.group_state,
        group.protocol_data,
        tuple(Member(each.member_id, each.client_id, each.client_host, assigned(each)) for each in group.members),
    )


def consumer_group_of(group: Any) -> Group:
    def assigned(member: Any) -> Iterator[TopicPartition]:
        for topic in member.assignment.topic_partitions:
            yield from ((topic.topic_name, partition) for partition in topic.partitions)

    return Group(
        group.group_id,
        "consumer",
        group.group_state,
        group.assignor_name,
        tuple(
            Member(each.member_id, each.client_id, each.client_host, tuple(assigned(each))) for each in group.members
        ),
    )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Kafka's requests name each topic once. A partition named twice would be refused, so it is named once too."""
    topics: dict[str, list[int]] = {}
    for topic, partition in dict.fromkeys(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics
