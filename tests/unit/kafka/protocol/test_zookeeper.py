"""Questions to one ZooKeeper server: recorded answers of a real server, and hostile peers."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable

import pytest

from ackproof.kafka.protocol import zookeeper
from ackproof.kafka.protocol.zookeeper import NoAnswer
from tests.support import peers
from tests.support.peers import framed, serving

TIMEOUT_S = 2.0
IMPATIENT_S = 0.3
SLACK_S = 0.5
WELCOME = framed(bytes.fromhex("0000000000002710010000120fca000d000000101c287d5b0162a135167a2e985123e1d300"))
CLOSE_SESSION = bytes.fromhex("fffffff5")


class Replay:
    """A server that sends the recorded answers of a real server byte for byte, and hangs up on any other request."""

    def __init__(self) -> None:
        tape = json.loads((peers.DATA / "zookeeper.json").read_text())
        self.tape = {bytes.fromhex(request): bytes.fromhex(answer) for request, answer in tape}
        self.asked: list[bytes] = []

    def __call__(self, connection: socket.socket) -> None:
        if connection.recv(4, socket.MSG_PEEK) == b"srvr":
            connection.sendall(self.tape[peers.exactly(connection, 4)])
            return
        while (request := framed(peers.frame(connection))) in self.tape:
            self.asked.append(request)
            connection.sendall(self.tape[request])


def test_a_server_tells_its_mode() -> None:
    with serving(Replay()) as port:
        assert zookeeper.mode("127.0.0.1", port, TIMEOUT_S) == "standalone"


@pytest.mark.parametrize("mode", ["leader", "follower", "observer"])
def test_the_mode_is_a_line_among_others(mode: str) -> None:
    def status(connection: socket.socket) -> None:
        connection.recv(4)
        connection.sendall(f"Zookeeper version: 3.8.4\nZxid: 0x64\nMode: {mode}\nNode count: 46\n".encode())

    with serving(status) as port:
        assert zookeeper.mode("127.0.0.1", port, TIMEOUT_S) == mode


def test_a_server_without_a_quorum_has_no_mode() -> None:
    def status(connection: socket.socket) -> None:
        connection.recv(4)
        connection.sendall(b"This ZooKeeper instance is not currently serving requests\n")

    with serving(status) as port:
        assert zookeeper.mode("127.0.0.1", port, TIMEOUT_S) is None


def test_who_is_controller_and_who_is_registered() -> None:
    with serving(Replay()) as port:
        assert zookeeper.controller_id("127.0.0.1", port, TIMEOUT_S) == 3
        assert zookeeper.broker_ids("127.0.0.1", port, TIMEOUT_S) == (1, 2, 3)


def test_the_session_is_closed_again() -> None:
    server = Replay()
    with serving(server) as port:
        zookeeper.controller_id("127.0.0.1", port, TIMEOUT_S)
    assert server.asked[-1].endswith(CLOSE_SESSION)


def after_welcome(answer: bytes) -> peers.Behaviour:
    def behave(connection: socket.socket) -> None:
        peers.frame(connection)
        connection.sendall(WELCOME)
        peers.frame(connection)
        connection.sendall(answer)
        peers.silent(connection)

    return behave


def test_without_a_controller_there_is_none() -> None:
    no_such_node = b"\0\0\0\x01" + bytes(8) + b"\xff\xff\xff\x9b"
    with serving(after_welcome(framed(no_such_node))) as port:
        assert zookeeper.controller_id("127.0.0.1", port, IMPATIENT_S) is None


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        (peers.closing, "closed"),
        (peers.silent, "timeout"),
        (peers.trickling(WELCOME * 10, 0.02), "timeout"),
        (peers.sending(b"\x7f\xff\xff\xff and so on"), "garbage"),
        (peers.sending(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "garbage"),
        (peers.sending(framed(b"")), "garbage"),
        (after_welcome(framed(b"\0\0\0\x02" + bytes(40))), "garbage"),
        (after_welcome(framed(b"\0\0\0\x01" + bytes(12) + b"\x7f\xff\xff\xff")), "garbage"),
        (after_welcome(framed(b"\0\0\0\x01" + bytes(8) + b"\xff\xff\xff\x9a")), "error"),
        (after_welcome(framed(b"\0\0\0\x01" + bytes(12) + b"\0\0\0\x01[")), "garbage"),
    ],
)
@pytest.mark.parametrize("question", [zookeeper.controller_id, zookeeper.broker_ids])
def test_a_hostile_peer_is_no_answer_before_the_deadline(
    question: Callable[[str, int, float], object], behaviour: peers.Behaviour, kind: str
) -> None:
    with serving(behaviour) as port:
        begun = time.monotonic()
        with pytest.raises(NoAnswer) as why:
            question("127.0.0.1", port, IMPATIENT_S)
        assert time.monotonic() - begun < IMPATIENT_S + SLACK_S
        assert why.value.kind == kind


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        (peers.silent, "timeout"),
        (peers.trickling(b"Mode: leader " * 100, 0.02), "timeout"),
        (peers.sending(b"x" * 100_000), "garbage"),
        (peers.trickling(b"?", 0.0), "garbage"),
    ],
)
def test_a_hostile_peer_has_no_mode(behaviour: peers.Behaviour, kind: str) -> None:
    with serving(behaviour) as port:
        begun = time.monotonic()
        with pytest.raises(NoAnswer) as why:
            zookeeper.mode("127.0.0.1", port, IMPATIENT_S)
        assert time.monotonic() - begun < IMPATIENT_S + SLACK_S
        assert why.value.kind == kind


CONFIGURED: dict[str, bytes | list[bytes]] = {
    "/config/topics/orders": b'{"version":1,"config":{"retention.ms":"7","unclean.leader.election.enable":"true"}}',
    "/config/brokers": [b"1", b"<default>"],
    "/config/brokers/1": b'{"version":1,"config":{}}',
    "/config/brokers/<default>": b'{"version":1,"config":{"min.insync.replicas":"1"}}',
    "/brokers/ids": [b"1", b"2"],
}


def _ensemble(connection: socket.socket) -> None:
    """A server that answers as ZooKeeper does, from the data above. It answers "no node" for any other path."""
    peers.frame(connection)
    connection.sendall(WELCOME)
    while len(request := peers.frame(connection)) >= 12:  # what ends the session is shorter
        number, _, length = struct.unpack(">iii", request[:12])
        held = CONFIGURED.get(request[12 : 12 + length].decode())
        if held is None:
            body = b""
        elif isinstance(held, bytes):
            body = struct.pack(f">i{len(held)}s", len(held), held)
        else:
            body = struct.pack(">i", len(held)) + b"".join(struct.pack(f">i{len(n)}s", len(n), n) for n in held)
        connection.sendall(framed(struct.pack(">iqi", number, 0, zookeeper.NO_NODE if held is None else 0) + body))


def test_what_was_set_for_topics_and_brokers_is_read_with_who_is_registered() -> None:
    with serving(_ensemble) as port:
        brokers, of_topics, of_brokers = zookeeper.brokers_and_settings(
            "127.0.0.1", port, ["orders", "nope"], TIMEOUT_S
        )
    assert brokers == (1, 2)
    assert of_topics == {"orders": {"retention.ms": "7", "unclean.leader.election.enable": "true"}}
    assert of_brokers == {"<default>": {"min.insync.replicas": "1"}}
