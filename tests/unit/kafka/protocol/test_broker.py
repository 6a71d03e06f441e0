"""Questions to one node: recorded answers of real clusters, and hostile peers."""

from __future__ import annotations

import io
import socket
import time
from base64 import urlsafe_b64decode
from datetime import timedelta

import pytest
from kio.schema.describe_configs.v4 import response as configured
from kio.schema.describe_topic_partitions.v0 import response as described
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_writer
from kio.static.primitive import i8, i32, i32Timedelta

from ackproof.kafka.protocol import connection as conversation
from ackproof.kafka.protocol import responses as answers
from ackproof.kafka.protocol.broker import Broker, ListedGroup, NoAnswer, Node, Partition, Replica, ask_all
from ackproof.kafka.protocol.codec import Codec, Malformed, codec, error_name
from tests.support import peers
from tests.support.peers import framed, serving

TIMEOUT_S = 2.0  # part of the recorded requests
IMPATIENT_S = 0.3
SLACK_S = 0.5


def asked(node: str) -> peers.Behaviour:
    return peers.replaying(node)


@pytest.mark.parametrize("node", ["3.4.1-kafka2", "3.9.2-kafka3", "4.3.1-kafka2"])
def test_metadata_is_told_the_same_way_by_every_version(node: str) -> None:
    with serving(asked(node)) as port, Broker("127.0.0.1", port, TIMEOUT_S) as broker:
        metadata = broker.metadata(["orders", "nope"])
    assert [(each.id, each.rack) for each in metadata.brokers] == [(1, "r1"), (2, "r2"), (3, "r3")]
    assert [(each.topic, each.partition, each.error) for each in metadata.partitions] == [
        ("orders", 0, None),
        ("orders", 1, None),
    ]
    assert all(sorted(each.isr) == sorted(each.replicas) == [1, 2, 3] for each in metadata.partitions)
    assert metadata.topic_errors == {"nope": "UNKNOWN_TOPIC_OR_PARTITION"}
    assert [(name, len(urlsafe_b64decode(own + "=="))) for name, own in metadata.topic_ids.items()] == [("orders", 16)]


def test_metadata_in_full() -> None:
    with serving(asked("3.9.2-kafka3")) as port, Broker("127.0.0.1", port, TIMEOUT_S) as broker:
        metadata = broker.metadata(["orders", "nope"])
    assert metadata.brokers[0] == Node(1, "127.0.0.1", 21001, "r1")
    assert metadata.controller_id == 3
    assert metadata.partitions[1] == Partition("orders", 1, None, 3, 0, (3, 2, 1), (3, 2, 1), ())


@pytest.mark.parametrize(("node", "leads"), [("3.4.1-kafka2", 1), ("3.9.2-kafka3", 1), ("4.3.1-kafka2", 0)])
def test_a_replica_tells_its_log_end_and_only_the_leader_the_high_watermark(node: str, leads: int) -> None:
    with serving(asked(node)) as port, Broker("127.0.0.1", port, TIMEOUT_S) as broker:
        offsets = broker.offsets([("orders", 0), ("orders", 1), ("nope", 0)])
    leader, follower = offsets["orders", leads], offsets["orders", 1 - leads]
    assert (leader.log_start, leader.log_end, leader.log_end_epoch, leader.error) == (0, 10, 0, None)
    assert (follower.log_start, follower.log_end, follower.log_end_epoch, follower.error) == (0, 10, 0, None)
    assert (leader.high_watermark, leader.high_watermark_error) == (10, None)
    assert (follower.high_watermark, follower.high_watermark_error) == (None, "NOT_LEADER_OR_FOLLOWER")
    assert offsets["nope", 0].error == "UNKNOWN_TOPIC_OR_PARTITION"
    assert offsets["nope", 0].log_end is None


@pytest.mark.parametrize("node", ["4.3.1-kafka2", "4.3.1-controller2"])
def test_the_quorum_is_told_by_its_leader_and_by_brokers(node: str) -> None:
    with serving(asked(node)) as port, Broker("127.0.0.1", port, TIMEOUT_S) as broker:
        quorum = broker.quorum()
    assert (quorum.leader_id, quorum.leader_epoch) == (102, 2)
    assert quorum.voters[0] == Replica(101, 469)
    assert sorted(each.id for each in quorum.voters) == [101, 102, 103]
    assert sorted(each.id for each in quorum.observers) == [1, 2, 3]


def test_another_controller_says_that_it_does_not_lead() -> None:
    with serving(asked("4.3.1-controller1")) as port, Broker("127.0.0.1", port, TIMEOUT_S) as broker:
        with pytest.raises(NoAnswer) as why:
            broker.quorum()
        assert (why.value.kind, why.value.error) == ("error", "NOT_LEADER_OR_FOLLOWER")
        assert broker.answers()


def test_there_is_no_quorum_under_zookeeper_and_no_metadata_from_controllers() -> None:
    with serving(asked("3.9.2-kafka3")) as port, Broker("127.0.0.1", port, TIMEOUT_S) as broker:
        with pytest.raises(NoAnswer) as why:
            broker.quorum()
        assert why.value.kind == "unsupported"
    with serving(asked("4.3.1-controller1")) as port, Broker("127.0.0.1", port, TIMEOUT_S) as broker:
        with pytest.raises(NoAnswer) as why:
            broker.metadata()
        assert why.value.kind == "unsupported"


def test_finalized_features_are_kraft_s() -> None:
    with serving(asked("4.3.1-controller1")) as port, Broker("127.0.0.1", port, TIMEOUT_S) as broker:
        assert broker.api_versions().features["metadata.version"] == 30
    with serving(asked("3.9.2-kafka3")) as port, Broker("127.0.0.1", port, TIMEOUT_S) as broker:
        assert broker.api_versions().features == {}


@pytest.mark.parametrize(
    ("node", "group_type"), [("3.4.1-kafka2", None), ("3.9.2-kafka3", "classic"), ("4.3.1-kafka2", "classic")]
)
def test_a_classic_group_with_who_reads_what(node: str, group_type: str | None) -> None:
    with serving(asked(node)) as port, Broker("127.0.0.1", port, TIMEOUT_S) as broker:
        assert broker.groups() == (ListedGroup("g1", "consumer", "Stable", group_type),)
        assert broker.coordinator("g1") == int(node[-1])
        group = broker.group("g1")
        assert broker.group("nope") is None
    assert group is not None
    assert (group.type, group.state, group.protocol) == ("classic", "Stable", "range")
    assert sorted((each.client_id, each.host, each.assigned) for each in group.members) == [
        ("c1", "/127.0.0.1", (("orders", 0),)),
        ("c2", "/127.0.0.1", (("orders", 1),)),
    ]


def test_a_group_of_the_new_protocol_with_who_reads_what() -> None:
    with serving(asked("4.3.1-kafka3")) as port, Broker("127.0.0.1", port, TIMEOUT_S) as broker:
        assert broker.groups() == (ListedGroup("g2", "consumer", "Stable", "consumer"),)
        group = broker.group("g2")
        with pytest.raises(NoAnswer) as why:
            broker.group("g1")
    assert group is not None
    assert (group.type, group.protocol) == ("consumer", "uniform")
    assert sorted(each.assigned or () for each in group.members) == [(("orders", 0),), (("orders", 1),)]
    assert why.value.error == "NOT_COORDINATOR"


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        (peers.closing, "closed"),
        (peers.silent, "timeout"),
        (peers.trickling(framed(bytes(1000)), 0.02), "timeout"),
        (peers.trickling(bytes(3), 0.02), "closed"),
        (peers.sending(b"\x7f\xff\xff\xff and so on"), "garbage"),
        (peers.sending(b"\xff\xff\xff\xff"), "garbage"),
        (peers.sending(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "garbage"),
        (peers.sending(framed(b"")), "garbage"),
        (peers.sending(framed(b"\0\0\0\x01")), "garbage"),
        (peers.sending(framed(b"\0\0\0\x02\0\0")), "garbage"),
        # An array of two thousand million elements, of which none follows.
        (peers.sending(framed(b"\0\0\0\x01\0\0\xff\xff\xff\xff\x07")), "garbage"),
    ],
)
def test_a_hostile_peer_is_no_answer_before_the_deadline(behaviour: peers.Behaviour, kind: str) -> None:
    with serving(behaviour) as port, Broker("127.0.0.1", port, IMPATIENT_S) as broker:
        begun = time.monotonic()
        with pytest.raises(NoAnswer) as why:
            broker.metadata()
        assert time.monotonic() - begun < IMPATIENT_S + SLACK_S
        assert why.value.kind == kind
        assert why.value.peer == f"127.0.0.1:{port}"
        assert not broker.answers()


def test_nobody_there_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Broker("127.0.0.1", port, IMPATIENT_S) as broker, pytest.raises(NoAnswer) as why:
        broker.api_versions()
    assert why.value.kind == "refused"


def test_all_are_asked_at_once_and_each_answers_for_itself() -> None:
    with serving(asked("4.3.1-controller1")) as good, serving(peers.silent) as bad:
        nodes = {
            "silent1": Broker("127.0.0.1", bad, IMPATIENT_S),
            "good": Broker("127.0.0.1", good, IMPATIENT_S),
            "silent2": Broker("127.0.0.1", bad, IMPATIENT_S),
            "silent3": Broker("127.0.0.1", bad, IMPATIENT_S),
        }
        begun = time.monotonic()
        found = ask_all(nodes, lambda broker: broker.api_versions().features["group.version"])
        assert time.monotonic() - begun < IMPATIENT_S + SLACK_S
        for broker in nodes.values():
            broker.close()
    assert list(found) == ["silent1", "good", "silent2", "silent3"]
    assert found["good"] == 1
    assert isinstance(found["silent1"], NoAnswer)
    assert isinstance(found["silent2"], NoAnswer)
    assert ask_all({}, lambda broker: broker.answers()) == {}


def test_a_paused_node_is_asked_over_one_connection_and_its_late_answers_are_dropped() -> None:
    tape = peers.recorded("4.3.1-controller2")
    connections = []

    def paused(connection: socket.socket) -> None:
        connections.append(connection)
        late = [peers.frame(connection) for _ in range(3)]
        for request in late:
            connection.sendall(framed(request[4:8] + tape[request[:4] + request[8:]]))
        peers.replaying("4.3.1-controller2")(connection)

    with serving(paused) as port, Broker("127.0.0.1", port, IMPATIENT_S) as broker:
        assert not broker.answers()
        assert not broker.answers()
        assert broker.quorum().leader_id == 102
        assert len(connections) == 1


def test_a_connection_that_stays_silent_is_given_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "SILENCE_S_MAX", 0.05)
    connections = []

    def first_one_is_dead(connection: socket.socket) -> None:
        connections.append(connection)
        (peers.silent if len(connections) == 1 else peers.replaying("4.3.1-controller2"))(connection)

    with serving(first_one_is_dead) as port, Broker("127.0.0.1", port, IMPATIENT_S) as broker:
        assert not broker.answers()
        time.sleep(0.1)
        assert broker.answers()


def test_a_node_that_closed_an_old_connection_is_asked_again_on_a_new_one() -> None:
    tape = peers.recorded("4.3.1-controller2")

    def one_answer_only(connection: socket.socket) -> None:
        for _ in range(2):
            request = peers.frame(connection)
            connection.sendall(framed(request[4:8] + tape[request[:4] + request[8:]]))

    with serving(one_answer_only) as port, Broker("127.0.0.1", port, TIMEOUT_S) as broker:
        assert [broker.quorum().leader_id for _ in range(3)] == [102] * 3


def test_an_answer_with_bytes_missing_anywhere_is_malformed() -> None:
    """An answer cut anywhere raises Malformed and no other exception."""
    for request, answer in peers.recorded("4.3.1-kafka2").items():
        form: Codec = codec(int.from_bytes(request[:2], "big"), int.from_bytes(request[2:4], "big"))
        form.decode(bytes(4) + answer)
        for length in range(len(answer)):
            with pytest.raises(Malformed):
                form.decode(bytes(4) + answer[:length])


def test_an_answer_with_a_byte_changed_is_decoded_or_malformed() -> None:
    for request, answer in peers.recorded("4.3.1-kafka2").items():
        form = codec(int.from_bytes(request[:2], "big"), int.from_bytes(request[2:4], "big"))
        for at in range(len(answer)):
            for value in (0, 127, 128, 255):
                changed = answer[:at] + bytes([value]) + answer[at + 1 :]
                try:
                    form.decode(bytes(4) + changed)
                except Malformed:
                    continue


def test_an_error_newer_than_our_table_keeps_its_number() -> None:
    assert error_name(0) is None
    assert error_name(6) == "NOT_LEADER_OR_FOLLOWER"
    assert error_name(-1) == "UNKNOWN_SERVER_ERROR"
    assert error_name(9999) == "ERROR_9999"


def test_kafka_s_minus_one_is_none() -> None:
    assert answers.known(-1) is None
    assert answers.known(0) == 0


def test_null_where_a_value_must_be_is_malformed() -> None:
    """The null value is a coordinator's host name: its length field is one more than its bytes, so zero means null."""
    found = codec(10, 4)
    good = bytes.fromhex("000000010000000000020267000000020268000023840000000000")
    assert found.decode(good).coordinators[0].host == "h"
    with pytest.raises(Malformed):
        found.decode(good.replace(bytes.fromhex("0268"), bytes.fromhex("0068")))


@pytest.mark.parametrize("cursor", [None, ("orders", 7)])
def test_a_part_that_may_be_null_has_a_byte_that_says_so(cursor: tuple[str, int] | None) -> None:
    """The parts are the eligible leaders that are not in sync, and the cursor, null at the end of an answer."""
    partition = described.DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.none,
        partition_index=i32(0),
        leader_id=BrokerId(-1),
        leader_epoch=i32(4),
        replica_nodes=(BrokerId(1), BrokerId(2), BrokerId(3)),
        isr_nodes=(),
        eligible_leader_replicas=(BrokerId(2),),
        last_known_elr=(BrokerId(3),),
        offline_replicas=(),
    )
    topic = described.DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.none, name=TopicName("orders"), topic_id=None, is_internal=False, partitions=(partition,)
    )
    answer = described.DescribeTopicPartitionsResponse(
        throttle_time=i32Timedelta.parse(timedelta()),
        topics=(topic,),
        next_cursor=cursor and described.Cursor(topic_name=TopicName(cursor[0]), partition_index=i32(cursor[1])),
    )
    written = io.BytesIO()
    entity_writer(type(answer))(written, answer)
    read = codec(75, 0).decode(bytes(4) + bytes(1) + written.getvalue())
    assert (read.next_cursor and (read.next_cursor.topic_name, read.next_cursor.partition_index)) == cursor
    assert answers.eligible_of(read) == {("orders", 0): answers.Eligible((2,), (3,))}


def test_settings_are_told_by_name_and_a_topic_that_is_not_there_is_left_out() -> None:
    def result(topic: str, error: ErrorCode, *settings: tuple[str, str | None]) -> configured.DescribeConfigsResult:
        return configured.DescribeConfigsResult(
            error_code=error,
            error_message=None,
            resource_type=i8(2),
            resource_name=topic,
            configs=tuple(
                configured.DescribeConfigsResourceResult(
                    name=name, value=value, read_only=False, is_sensitive=False, synonyms=(), documentation=None
                )
                for name, value in settings
            ),
        )

    answer = configured.DescribeConfigsResponse(
        throttle_time=i32Timedelta.parse(timedelta()),
        results=(
            result("orders", ErrorCode.none, ("min.insync.replicas", "2"), ("retention.ms", None)),
            result("nope", ErrorCode.unknown_topic_or_partition),
        ),
    )
    written = io.BytesIO()
    entity_writer(type(answer))(written, answer)
    read = codec(32, 4).decode(bytes(4) + bytes(1) + written.getvalue())
    assert answers.settings_of(read) == {"orders": {"min.insync.replicas": "2", "retention.ms": None}}
