"""Questions to one ZooKeeper server, in ZooKeeper's own protocol: what Kafka stores there, and which server leads.

It only reads, and each question has a connection of its own. `mode` costs the ensemble nothing. The other questions
open and close a session, to which the ensemble must agree and which it writes to its log: fine for a command or for a
role that is resolved when a fault is injected, but not for an observer four times a second. A server without a quorum
closes sessions, so an answer is the ensemble's state, or its state a moment ago, because one server answers reads
alone.

As with questions to Kafka, each is answered before its deadline or raises `NoAnswer`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Literal, cast, get_args

import msgspec

from ackproof.kafka.protocol.codec import INT32, Cursor, Malformed
from ackproof.kafka.protocol.framing import Link, NoAnswer, deadline_after

__all__ = ["Mode", "NoAnswer", "broker_ids", "brokers_and_settings", "controller_id", "mode"]

Mode = Literal["leader", "follower", "observer", "standalone"]

CLOSE_SESSION, GET_DATA, GET_CHILDREN = -11, 4, 12
NO_NODE = -101
SESSION_TIMEOUT_MS = 10_000
STATUS_BYTES_MAX = 64 * 1024


def mode(host: str, port: int, timeout_s: float) -> Mode | None:
    """The server's role in the ensemble. None while it has no quorum."""
    deadline = deadline_after(timeout_s)
    link = Link(host, port, deadline)
    try:
        link.send(b"srvr", deadline)
        status = link.receive_all(STATUS_BYTES_MAX, deadline).decode(errors="replace")
    finally:
        link.close()
    for line in status.splitlines():
        name, _, value = line.partition(": ")
        if name == "Mode" and value in get_args(Mode):
            return cast(Mode, value)
    if "not currently serving" in status:
        return None
    raise NoAnswer(link.peer, "garbage", "did not tell its mode")


def controller_id(host: str, port: int, timeout_s: float) -> int | None:
    """The id of the broker that is Kafka's controller. None while there is none."""
    with _session(host, port, timeout_s) as session:
        registration = session.json("/controller")
        return None if registration is None else _number(registration.get("brokerid"))


def broker_ids(host: str, port: int, timeout_s: float) -> tuple[int, ...]:
    """The ids of the brokers with a live session, as the ensemble sees it."""
    with _session(host, port, timeout_s) as session:
        return session.broker_ids()


def brokers_and_settings(
    host: str, port: int, topics: Sequence[str], timeout_s: float
) -> tuple[tuple[int, ...], dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """The brokers as above, and what was set at run time: for each of these topics that is there, and for each broker
    that something was set for, `<default>` being all of them."""
    with _session(host, port, timeout_s) as session:
        set_for_topics = {topic: session.settings(f"topics/{topic}") for topic in topics}
        set_for_brokers = {
            name: session.settings(f"brokers/{name}") for name in session.children("/config/brokers") or ()
        }
        return (
            session.broker_ids(),
            {topic: found for topic, found in set_for_topics.items() if found is not None},
            {name: found for name, found in set_for_brokers.items() if found},
        )


class _Session:
    def __init__(self, link: Link, deadline: float) -> None:
        self._link = link
        self._deadline = deadline
        self._questions = 0
        # Protocol version, last transaction seen, time-out, session (0: a new one), password, and not read-only: a
        # server without a quorum shall not answer from what it remembers.
        link.send_frame(struct.pack(">iqiqi16x?", 0, 0, SESSION_TIMEOUT_MS, 0, 16, False), deadline)
        welcome = Cursor(link.receive_frame(deadline))
        _version, timeout_ms = welcome.number(INT32), welcome.number(INT32)
        if timeout_ms <= 0:
            raise NoAnswer(link.peer, "error", "refused the session", "SESSION_EXPIRED")

    def data(self, path: str) -> bytes | None:
        reply = self._ask(GET_DATA, path)
        return None if reply is None else _buffer(reply) or b""

    def json(self, path: str) -> dict[str, object] | None:
        data = self.data(path)
        try:
            return None if data is None else msgspec.json.decode(data, type=dict[str, object])
        except msgspec.DecodeError:
            raise Malformed(f"{path} holds no JSON object") from None

    def children(self, path: str) -> tuple[str, ...] | None:
        reply = self._ask(GET_CHILDREN, path)
        if reply is None:
            return None
        names = ((_buffer(reply) or b"") for _ in range(reply.number(INT32)))
        return tuple(sorted(name.decode(errors="replace") for name in names))

    def broker_ids(self) -> tuple[int, ...]:
        return tuple(sorted(_number(name) for name in self.children("/brokers/ids") or ()))

    def settings(self, resource: str) -> dict[str, str] | None:
        found = self.json(f"/config/{resource}")
        config = {} if found is None else found.get("config")
        if not isinstance(config, dict):
            raise Malformed(f"/config/{resource} holds no settings")
        return None if found is None else {str(name): str(value) for name, value in config.items()}

    def close(self) -> None:
        # Otherwise the session would stay in the ensemble until its timeout.
        with suppress(NoAnswer):
            self._link.send_frame(struct.pack(">ii", self._questions + 1, CLOSE_SESSION), self._deadline)
            self._link.receive_frame(self._deadline)

    def _ask(self, question: int, path: str) -> Cursor | None:
        self._questions += 1
        name = path.encode()
        watch = False
        message = struct.pack(f">iii{len(name)}s?", self._questions, question, len(name), name, watch)
        self._link.send_frame(message, self._deadline)
        reply = Cursor(self._link.receive_frame(self._deadline))
        number, _transaction, error = struct.unpack(">iqi", reply.take(16))
        if number != self._questions:
            raise Malformed("an answer to a request that was not sent")
        if error == NO_NODE:
            return None
        if error:
            raise NoAnswer(self._link.peer, "error", f"answered error {error} for {path}", str(error))
        return reply


@contextmanager
def _session(host: str, port: int, timeout_s: float) -> Iterator[_Session]:
    deadline = deadline_after(timeout_s)
    link = Link(host, port, deadline)
    try:
        session = _Session(link, deadline)
        yield session
        session.close()
    except Malformed as why:
        raise NoAnswer(link.peer, "garbage", f"answered with garbage: {why}") from None
    finally:
        link.close()


def _buffer(reply: Cursor) -> bytes | None:
    length = reply.number(INT32)
    return None if length < 0 else reply.take(length)


def _number(value: object) -> int:
    if not isinstance(value, int | str):
        raise Malformed(f"{value!r} is not the number of a broker")
    try:
        return int(value)
    except ValueError:
        raise Malformed(f"{value!r} is not the number of a broker") from None
