"""Questions to one node, in Kafka's own protocol.

An ordinary client asks the cluster: it follows the leaders, hides which broker answered, and gives up on a broker
that the others say is gone. A laboratory needs the opposite: what does *this* broker believe, now, about leaders, ISR
and its own replica of the log, even while it is cut off from everyone else. So each question here goes to one given
address, is asked once, and is answered before a deadline or not at all; advertised names are reported, never used.

`Broker` keeps one connection for many questions. After a time-out the connection stays: a paused process accepts
connections without looking at them, and a new one for each question would fill its backlog and so change what real
clients see. Answers that come late are recognised by their number and dropped.

A socket belongs to the network namespace of the thread that made it, so ask from a thread inside the namespace that
no fault touches; `ask_all` starts its threads from the caller's, and they inherit it.

Words: a whole answer that is an error (this broker is not the coordinator) raises `NoAnswer` with kind `error`;
errors of single partitions are part of the answer. Errors carry Kafka's names (`NOT_LEADER_OR_FOLLOWER`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from ackproof.kafka.messages import CLIENT_ID, Api, Codec, Make, Malformed, codec, error_name
from ackproof.kafka.wire import Link, NoAnswer, deadline_after

__all__ = [
    "ApiVersions",
    "Broker",
    "Metadata",
    "NoAnswer",
    "Node",
    "Partition",
    "Quorum",
    "Replica",
    "ask_all",
]

T = TypeVar("T")

# A connection that has said nothing for this long is given up, in case it leads to a host that no longer exists.
SILENCE_S_MAX = 10.0


# Version 3 is understood by every broker since 2.4, so the first message needs no negotiation.
API_VERSIONS = Api(18, "api_versions", 3)
METADATA = Api(3, "metadata", 9)
DESCRIBE_QUORUM = Api(55, "describe_quorum", 0)


class ApiVersions(msgspec.Struct, frozen=True):
    ranges: dict[int, tuple[int, int]]
    """For each api key the oldest and newest version that the node speaks."""
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
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class Metadata(msgspec.Struct, frozen=True):
    brokers: tuple[Node, ...]
    controller_id: int | None
    """The active controller under ZooKeeper; under KRaft a broker chosen at random (ask `quorum`)."""
    cluster_id: str | None
    partitions: tuple[Partition, ...]
    topic_errors: dict[str, str]


class Replica(msgspec.Struct, frozen=True):
    id: int
    log_end: int | None


class Quorum(msgspec.Struct, frozen=True):
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[Replica, ...]
    observers: tuple[Replica, ...]


class Broker:
    """One node, broker or controller, at one address."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        self.host = host
        self.port = port
        self.timeout_s = timeout_s
        self._turn = threading.Lock()
        self._link: Link | None = None
        self._silent_since: float | None = None
        self._versions: ApiVersions | None = None
        self._questions = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._turn:
            self._drop()

    # The questions.

    def api_versions(self) -> ApiVersions:
        with self._asking() as deadline:
            return self._again_if_stale(lambda: self._negotiate(deadline))

    def answers(self) -> bool:
        """Whether the node answers at all: the cheapest question, one that controllers know too.

        An open port is no answer: the kernel accepts connections for a paused process.
        """
        try:
            self.api_versions()
        except NoAnswer:
            return False
        return True

    def features(self) -> dict[str, int]:
        return self.api_versions().features

    def metadata(self, topics: Sequence[str] | None = None) -> Metadata:
        """Leaders and ISR as this broker knows them: of these topics, or of all. Asking creates no topic."""

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

        with self._asking() as deadline:
            return _metadata(self._ask(METADATA, request, deadline))

    def quorum(self) -> Quorum:
        """Who leads the KRaft quorum. Controllers other than the leader answer with NOT_LEADER_OR_FOLLOWER; a broker
        passes the question on, so a broker that is cut off from the controllers runs into the deadline.

        A leader that was cut off may still believe in itself: of several answers the highest epoch counts.
        """

        def request(make: Make) -> Any:
            partition = make("PartitionData", partition_index=0)
            topic = make("TopicData", topic_name="__cluster_metadata", partitions=(partition,))
            return make("DescribeQuorumRequest", topics=(topic,))

        with self._asking() as deadline:
            response = self._ask(DESCRIBE_QUORUM, request, deadline)
            self._expect_none(response.error_code)
            for topic in response.topics:
                for partition in topic.partitions:
                    self._expect_none(partition.error_code)
                    return _quorum(partition)
            raise NoAnswer(self._peer, "garbage", "described no quorum")

    # How a question is asked.

    @property
    def _peer(self) -> str:
        return f"{self.host}:{self.port}"

    @contextmanager
    def _asking(self) -> Iterator[float]:
        """The connection to ourselves, until the deadline that is yielded."""
        deadline = deadline_after(self.timeout_s)
        if not self._turn.acquire(timeout=self.timeout_s):
            raise NoAnswer(self._peer, "timeout", "an earlier question is still open")
        try:
            yield deadline
        finally:
            self._turn.release()

    def _ask(self, api: Api, request: Callable[[Make], Any], deadline: float) -> Any:
        return self._again_if_stale(lambda: self._ask_once(api, request, deadline))

    def _again_if_stale(self, ask: Callable[[], T]) -> T:
        """An old connection that the peer has closed says nothing about the peer now: ask once more on a new one."""
        reused = self._link is not None
        try:
            return ask()
        except NoAnswer as why:
            if not (reused and why.kind == "closed"):
                raise
        return ask()

    def _ask_once(self, api: Api, request: Callable[[Make], Any], deadline: float) -> Any:
        versions = self._versions or self._negotiate(deadline)
        version = api.common_version(versions.ranges.get(api.key))
        if version is None:
            raise NoAnswer(self._peer, "unsupported", f"does not speak a version of {api.name} that we know")
        return self._round_trip(codec(api.key, version), request, deadline)

    def _negotiate(self, deadline: float) -> ApiVersions:
        response = self._round_trip(
            codec(API_VERSIONS.key, API_VERSIONS.oldest),
            lambda make: make("ApiVersionsRequest", client_software_name=CLIENT_ID, client_software_version="1"),
            deadline,
        )
        self._expect_none(response.error_code)
        self._versions = ApiVersions(
            {api.api_key: (api.min_version, api.max_version) for api in response.api_keys},
            {feature.name: feature.max_version_level for feature in response.finalized_features},
        )
        return self._versions

    def _round_trip(self, form: Codec, request: Callable[[Make], Any], deadline: float) -> Any:
        try:
            link = self._connected(deadline)
            self._questions += 1
            link.send_frame(form.encode(request(form.make), self._questions), deadline)
            while True:
                frame = link.receive_frame(deadline)
                self._silent_since = None
                number = int.from_bytes(frame[:4], "big")
                if number == self._questions:
                    return form.decode(frame)
                if not 0 < number < self._questions:
                    raise NoAnswer(self._peer, "garbage", "answered a question that was not asked")
        except Malformed as why:
            self._drop()
            raise NoAnswer(self._peer, "garbage", f"answered with garbage: {why}") from None
        except NoAnswer as why:
            if why.kind != "timeout":
                self._drop()
            elif self._silent_since is None:
                self._silent_since = time.monotonic()
            raise

    def _connected(self, deadline: float) -> Link:
        if self._silent_since is not None and time.monotonic() - self._silent_since > SILENCE_S_MAX:
            self._drop()
        if self._link is None:
            self._link = Link(self.host, self.port, deadline)
            self._questions = 0
        return self._link

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = self._versions = self._silent_since = None

    def _expect_none(self, code: int) -> None:
        if error := error_name(code):
            raise NoAnswer(self._peer, "error", f"answered {error}", error)


def ask_all(brokers: Mapping[str, Broker], question: Callable[[Broker], T]) -> dict[str, T | NoAnswer]:
    """The same question to all of them at once; as slow as the slowest, so bounded by its deadline."""

    def one(broker: Broker) -> T | NoAnswer:
        try:
            return question(broker)
        except NoAnswer as why:
            return why

    if not brokers:
        return {}
    with ThreadPoolExecutor(max_workers=len(brokers), thread_name_prefix="ask") as threads:
        return dict(zip(brokers, threads.map(one, brokers.values()), strict=True))


def _metadata(response: Any) -> Metadata:
    return Metadata(
        brokers=tuple(Node(node.node_id, node.host, node.port, node.rack) for node in response.brokers),
        controller_id=_known(response.controller_id),
        cluster_id=response.cluster_id,
        partitions=tuple(
            Partition(
                topic=topic.name or str(topic.topic_id),
                partition=each.partition_index,
                error=error_name(each.error_code),
                leader=_known(each.leader_id),
                leader_epoch=each.leader_epoch,
                replicas=each.replica_nodes,
                isr=each.isr_nodes,
                offline=each.offline_replicas,
            )
            for topic in response.topics
            for each in topic.partitions
        ),
        topic_errors={topic.name: error for topic in response.topics if (error := error_name(topic.error_code))},
    )


def _quorum(partition: Any) -> Quorum:
    return Quorum(
        partition.leader_id,
        partition.leader_epoch,
        partition.high_watermark,
        voters=tuple(Replica(each.replica_id, _known(each.log_end_offset)) for each in partition.current_voters),
        observers=tuple(Replica(each.replica_id, _known(each.log_end_offset)) for each in partition.observers),
    )


def _known(number: int) -> int | None:
    """Kafka says -1 for "none" and "not known"."""
    return None if number < 0 else number
