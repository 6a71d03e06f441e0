"""Questions to one node, in Kafka's own protocol.

An ordinary client asks the cluster: it follows the leaders, hides which broker answered, and gives up on a broker
that the others say is gone. A lab needs the opposite: what does *this* broker believe, now, about leaders, ISR
and its own replica of the log, even while it is cut off from everyone else. So each question here goes to one given
address and is answered before its deadline or not at all. Advertised names are reported, never used. No question
creates a topic.

If the whole answer is an error (this broker is not the coordinator), `NoAnswer` with kind `error` is raised. Errors of
single partitions are part of the answer.

A socket belongs to the network namespace of the thread that made it, so ask from a thread inside the namespace that
no fault touches; `ask_all` starts its threads from the caller's, and they inherit it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

from ackproof.kafka.protocol import responses as answers
from ackproof.kafka.protocol.codec import Api, Make, error_name
from ackproof.kafka.protocol.connection import Conversation
from ackproof.kafka.protocol.framing import NoAnswer
from ackproof.kafka.protocol.responses import (
    ApiVersions,
    Eligible,
    Group,
    ListedGroup,
    Member,
    Metadata,
    Node,
    Offsets,
    Partition,
    Quorum,
    Replica,
    TopicPartition,
)

__all__ = [
    "ApiVersions",
    "Broker",
    "Eligible",
    "Group",
    "ListedGroup",
    "Member",
    "Metadata",
    "NoAnswer",
    "Node",
    "Offsets",
    "Partition",
    "Quorum",
    "Replica",
    "TopicPartition",
    "ask_all",
]

T = TypeVar("T")

LIST_OFFSETS = Api(2, "list_offsets", 4)
METADATA = Api(3, "metadata", 9)
FIND_COORDINATOR = Api(10, "find_coordinator", 3)
DESCRIBE_GROUPS = Api(15, "describe_groups", 5)
DESCRIBE_ACLS = Api(29, "describe_acls", 1)
DESCRIBE_CONFIGS = Api(32, "describe_configs", 1)
LIST_GROUPS = Api(16, "list_groups", 3)
ELECT_LEADERS = Api(43, "elect_leaders", 1)
DESCRIBE_QUORUM = Api(55, "describe_quorum", 0)
DESCRIBE_CONSUMER_GROUPS = Api(69, "consumer_group_describe", 0)
DESCRIBE_TOPIC_PARTITIONS = Api(75, "describe_topic_partitions", 0)

# The answer about offsets depends on the asker: a consumer gets the high watermark, and only from the leader; a
# debugging replica gets the end of the log, and from any replica.
AS_CONSUMER, AS_DEBUGGER = -1, -2
LATEST, EARLIEST = -1, -2

ELECTION_S = 10.0  # how long a controller may wait for the election

# The two kinds of coordinators: the kind of key, and the topic in which they store their data.
GROUP, TRANSACTION = (0, "__consumer_offsets"), (1, "__transaction_state")

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
TOPIC_SETTINGS = 2  # the kind of resource whose settings are asked for
ANY = 1  # matches every access rule


class Broker:
    """One node, broker or controller, at one address. Threads may share it; they take turns."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._talk = Conversation(host, port)

    @property
    def peer(self) -> str:
        return self._talk.peer

    def __repr__(self) -> str:
        return f"Broker({self.peer})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The next question makes a new one."""
        self._talk.close()

    def api_versions(self) -> ApiVersions:
        with self._talk.asking(self.timeout_s) as deadline:
            return self._talk.negotiate(deadline)

    def answers(self) -> bool:
        """Whether the node answers at all: the cheapest question, one that controllers know too.

        An open port is no answer: the kernel accepts connections for a paused process.
        """
        try:
            self.api_versions()
        except NoAnswer:
            return False
        return True

    def metadata(self, topics: Sequence[str] | None = None) -> Metadata:
        """Brokers, leaders and ISR of these topics, or of all, as this broker knows them."""
        with self._talk.asking(self.timeout_s) as deadline:
            return self._metadata(topics, deadline)

    def offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offsets]:
        """The offsets of this broker's own replica of each partition."""
        wanted = tuple(partitions)
        with self._talk.asking(self.timeout_s) as deadline:
            # In this order, so that a log that grows meanwhile still shows start <= high watermark <= end.
            start = self._list_offsets(wanted, AS_DEBUGGER, EARLIEST, deadline)
            watermark = self._list_offsets(wanted, AS_CONSUMER, LATEST, deadline)
            end = self._list_offsets(wanted, AS_DEBUGGER, LATEST, deadline)
        return {each: answers.offsets_of(each, start.get(each), watermark.get(each), end.get(each)) for each in wanted}

    def settings(self, topics: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, str | None]]:
        """These settings of each topic, as this broker applies them, whether they are its own or the topic's.

        Only with KRaft: with ZooKeeper a broker asks ZooKeeper, and if it does not reach it, it never answers.
        """

        def request(make: Make) -> Any:
            return make(
                "DescribeConfigsRequest",
                resources=tuple(
                    make(
                        "DescribeConfigsResource",
                        resource_type=TOPIC_SETTINGS,
                        resource_name=topic,
                        configuration_keys=tuple(names),
                    )
                    for topic in topics
                ),
                include_synonyms=False,
                include_documentation=False,
            )

        with self._talk.asking(self.timeout_s) as deadline:
            return answers.settings_of(self._talk.ask(DESCRIBE_CONFIGS, request, deadline))

    def eligible(self, topics: Sequence[str]) -> dict[TopicPartition, Eligible]:
        """The replicas that may lead without being in sync (KIP-966). Only Kafka 4 and newer knows the answer."""

        def request(make: Make) -> Any:
            return make(
                "DescribeTopicPartitionsRequest",
                topics=tuple(make("TopicRequest", name=name) for name in topics),
                response_partition_limit=2000,
                cursor=None,
            )

        with self._talk.asking(self.timeout_s) as deadline:
            return answers.eligible_of(self._talk.ask(DESCRIBE_TOPIC_PARTITIONS, request, deadline))

    def last_stable(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The last stable offset of each partition: the start of the first open transaction, else the high watermark.

        Only the leader answers. A reader of committed messages reads up to this offset.
        """
        if not (wanted := tuple(partitions)):
            return {}
        with self._talk.asking(self.timeout_s) as deadline:
            found = self._list_offsets(wanted, AS_CONSUMER, LATEST, deadline, READ_COMMITTED)
        return {each: answers.stable_of(found.get(each)) for each in wanted}

    def quorum(self) -> Quorum:
        """The leader of the KRaft quorum. Other controllers answer with NOT_LEADER_OR_FOLLOWER.

        A broker forwards the question, so a broker that is cut off from the controllers misses the deadline. A leader
        that was cut off may still claim to lead: of several answers the highest epoch counts.
        """

        def request(make: Make) -> Any:
            partition = make("PartitionData", partition_index=0)
            topic = make("TopicData", topic_name="__cluster_metadata", partitions=(partition,))
            return make("DescribeQuorumRequest", topics=(topic,))

        with self._talk.asking(self.timeout_s) as deadline:
            response = self._talk.ask(DESCRIBE_QUORUM, request, deadline)
        self._talk.expect_none(response.error_code)
        for partition in (each for topic in response.topics for each in topic.partitions):
            self._talk.expect_none(partition.error_code)
            return answers.quorum_of(partition)
        raise NoAnswer(self.peer, "garbage", "described no quorum")

    def elect(self, partitions: Iterable[TopicPartition], unclean: bool) -> dict[TopicPartition, str | None]:
        """Ask for elections: of preferred leaders or, if unclean, of any replica. Returns each partition's error."""
        wanted: dict[str, list[int]] = {}
        for topic, partition in partitions:
            wanted.setdefault(topic, []).append(partition)

        def request(make: Make) -> Any:
            places = tuple(make("TopicPartitions", topic=topic, partitions=tuple(of)) for topic, of in wanted.items())
            timeout = timedelta(seconds=ELECTION_S)
            return make("ElectLeadersRequest", election_type=int(unclean), topic_partitions=places, timeout=timeout)

        with self._talk.asking(self.timeout_s) as deadline:
            response = self._talk.ask(ELECT_LEADERS, request, deadline)
        self._talk.expect_none(response.error_code)
        return {
            (result.topic, each.partition_id): error_name(each.error_code)
            for result in response.replica_election_results
            for each in result.partition_result
        }

    def rules(self) -> int:
        """The number of access rules that this broker knows: one for each principal, host, operation and resource."""

        def request(make: Make) -> Any:
            return make(
                "DescribeAclsRequest",
                resource_type_filter=ANY,
                resource_name_filter=None,
                pattern_type_filter=ANY,
                principal_filter=None,
                host_filter=None,
                operation=ANY,
                permission_type=ANY,
            )

        with self._talk.asking(self.timeout_s) as deadline:
            response = self._talk.ask(DESCRIBE_ACLS, request, deadline)
        self._talk.expect_none(response.error_code)
        return sum(len(resource.acls) for resource in response.resources)

    def groups(self) -> tuple[ListedGroup, ...]:
        """The groups that this broker coordinates."""

        def request(make: Make) -> Any:
            return make("ListGroupsRequest", states_filter=(), types_filter=())

        with self._talk.asking(self.timeout_s) as deadline:
            response = self._talk.ask(LIST_GROUPS, request, deadline)
        self._talk.expect_none(response.error_code)
        return answers.listed_groups(response)

    def group(self, group: str) -> Group | None:
        """A group that this broker coordinates; None if there is no classic or consumer group of this name."""
        with self._talk.asking(self.timeout_s) as deadline:
            classic = self._described(DESCRIBE_GROUPS, group, deadline)
            # Brokers before 4.0 report an unknown group as dead.
            if classic is not None and classic.group_state != "Dead":
                return answers.classic_group_of(classic)
            try:
                consumer = self._described(DESCRIBE_CONSUMER_GROUPS, group, deadline)
            except NoAnswer as why:
                if why.kind == "unsupported" or why.error == "UNSUPPORTED_VERSION":
                    return None
                raise
            return None if consumer is None else answers.consumer_group_of(consumer)

    def coordinator(self, key: str, of: tuple[int, str] = GROUP) -> int:
        """The id of the broker that coordinates the group, or the transactions of a producer."""
        kind, topic = of

        def request(make: Make) -> Any:
            return make("FindCoordinatorRequest", key_type=kind, key=key, coordinator_keys=(key,))

        with self._talk.asking(self.timeout_s) as deadline:
            # A broker that is asked for a coordinator creates the internal topic if it is missing.
            if not self._metadata([topic], deadline).partitions:
                error = "COORDINATOR_NOT_AVAILABLE"
                raise NoAnswer(self.peer, "error", f"no topic {topic} yet, so no coordinator", error)
            response = self._talk.ask(FIND_COORDINATOR, request, deadline)
        # Since version 4 one request may ask for several groups.
        for found in getattr(response, "coordinators", (response,)):
            self._talk.expect_none(found.error_code)
            return int(found.node_id)
        raise NoAnswer(self.peer, "garbage", "named no coordinator")

    def _metadata(self, topics: Sequence[str] | None, deadline: float) -> Metadata:
        def request(make: Make) -> Any:
            return make(
                "MetadataRequest",
                topics=None
                if topics is None
                else tuple(make("MetadataRequestTopic", name=name, topic_id=None) for name in topics),
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            )

        return answers.metadata_of(self._talk.ask(METADATA, request, deadline))

    def _list_offsets(
        self,
        wanted: tuple[TopicPartition, ...],
        asker: int,
        timestamp: int,
        deadline: float,
        isolation: int = READ_UNCOMMITTED,
    ) -> dict[TopicPartition, Any]:
        def request(make: Make) -> Any:
            return make(
                "ListOffsetsRequest",
                replica_id=asker,
                isolation_level=isolation,
                topics=tuple(
                    make(
                        "ListOffsetsTopic",
                        name=topic,
                        partitions=tuple(
                            make("ListOffsetsPartition", partition_index=each, timestamp=timestamp) for each in each_of
                        ),
                    )
                    for topic, each_of in answers.by_topic(wanted).items()
                ),
                timeout=timedelta(seconds=self.timeout_s),
            )

        return answers.listed_offsets(self._talk.ask(LIST_OFFSETS, request, deadline))

    def _described(self, api: Api, group: str, deadline: float) -> Any | None:
        def request(make: Make) -> Any:
            name = "DescribeGroupsRequest" if api is DESCRIBE_GROUPS else "ConsumerGroupDescribeRequest"
            return make(name, groups=(group,), group_ids=(group,), include_authorized_operations=False)

        for found in self._talk.ask(api, request, deadline).groups:
            if error_name(found.error_code) == "GROUP_ID_NOT_FOUND":
                return None
            self._talk.expect_none(found.error_code)
            return found
        return None


def ask_all(brokers: Mapping[str, Broker], question: Callable[[Broker], T]) -> dict[str, T | NoAnswer]:
    """Ask all of them the same question at once. It takes as long as the slowest, so at most the deadline."""

    def one(broker: Broker) -> T | NoAnswer:
        try:
            return question(broker)
        except NoAnswer as why:
            return why

    if not brokers:
        return {}
    with ThreadPoolExecutor(max_workers=len(brokers), thread_name_prefix="ask") as threads:
        return dict(zip(brokers, threads.map(one, brokers.values()), strict=True))
