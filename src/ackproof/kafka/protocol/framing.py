"""Whole messages over one TCP connection, each before a deadline.

Kafka and ZooKeeper frame messages alike: four bytes of length, then the message. This module adds a promise about time.
The peer may refuse, accept and stay silent, send one byte a second, or announce two gigabytes: in each case the caller
gets, before the deadline, a message or one exception that says why there is none. A deadline is a point of
`time.monotonic()`, so several steps can share one.

A message that is incomplete at the deadline stays in the buffer: the connection is as good as before, and the next
question can read on.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import time
from typing import Literal

Kind = Literal["refused", "timeout", "closed", "garbage", "unsupported", "error"]

# The metadata of 100,000 partitions is about 8 MB; a peer that announces more does not use this protocol.
FRAME_BYTES_MAX = 32 * 1024 * 1024
CHUNK_BYTES = 64 * 1024


class NoAnswer(Exception):
    """Why a question has no answer.

    `refused`: no connection could be made. `timeout`: the deadline passed. `closed`: the peer hung up. `garbage`: it
    answered with something else. `unsupported`: it does not know the question. `error`: it answered with an error
    instead, named in `error` as Kafka or ZooKeeper name it.
    """

    def __init__(self, peer: str, kind: Kind, reason: str, error: str | None = None) -> None:
        super().__init__(f"{peer}: {reason}")
        self.peer = peer
        self.kind = kind
        self.reason = reason
        self.error = error


def deadline_after(timeout_s: float) -> float:
    return time.monotonic() + timeout_s


class Link:
    """One connection to one address. Two threads must not use it at once."""

    def __init__(self, host: str, port: int, deadline: float) -> None:
        self.peer = f"{host}:{port}"
        self._received = bytearray()
        # An address and never a name, because a name lookup has no deadline.
        family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._allow(deadline, "connect")
            self._socket.connect((host, port))
        except TimeoutError:
            self.close()
            raise NoAnswer(self.peer, "timeout", "no connection before the deadline") from None
        except OSError as why:
            self.close()
            raise NoAnswer(self.peer, "refused", f"no connection: {why.strerror or why}") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes, deadline: float) -> None:
        try:
            self._allow(deadline, "send")
            self._socket.sendall(data)
        except TimeoutError:
            # Part of a message may have been sent, so the peer would misread what follows.
            self.close()
            raise NoAnswer(self.peer, "closed", "did not take the question before the deadline") from None
        except OSError as why:
            raise NoAnswer(self.peer, "closed", f"connection lost: {why.strerror or why}") from None

    def send_frame(self, message: bytes, deadline: float) -> None:
        self.send(struct.pack(">i", len(message)) + message, deadline)

    def receive_frame(self, deadline: float) -> bytes:
        while len(self._received) < 4:
            self._more(deadline)
        (length,) = struct.unpack_from(">i", self._received)
        if not 0 <= length <= FRAME_BYTES_MAX:
            raise NoAnswer(self.peer, "garbage", f"announced a message of {length} bytes")
        while len(self._received) < 4 + length:
            self._more(deadline)
        message = bytes(self._received[4 : 4 + length])
        del self._received[: 4 + length]
        return message

    def receive_all(self, bytes_max: int, deadline: float) -> bytes:
        """Everything that the peer sends until it closes the connection."""
        while len(self._received) <= bytes_max:
            try:
                self._more(deadline)
            except NoAnswer as why:
                if why.kind != "closed":
                    raise
                return bytes(self._received)
        raise NoAnswer(self.peer, "garbage", f"sent more than {bytes_max} bytes")

    def _more(self, deadline: float) -> None:
        try:
            self._allow(deadline, "answer")
            chunk = self._socket.recv(CHUNK_BYTES)
        except TimeoutError:
            raise NoAnswer(self.peer, "timeout", "no answer before the deadline") from None
        except OSError as why:
            raise NoAnswer(self.peer, "closed", f"connection lost: {why.strerror or why}") from None
        if not chunk:
            raise NoAnswer(self.peer, "closed", "hung up without an answer")
        self._received += chunk

    def _allow(self, deadline: float, what: str) -> None:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(what)
        self._socket.settimeout(left_s)
