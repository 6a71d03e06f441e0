"""Servers that tests ask: one that replays the answers of a real server, and hostile ones."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DATA = Path(__file__).parent / "data"

Behaviour = Callable[[socket.socket], None]


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[int]:
    """Start a server that treats each connection like this, and yield its port. It ends with the block."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []
    open_sockets: list[socket.socket] = [listener]

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError, EOFError):
            behaviour(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                open_sockets.append(connection)
                threads.append(threading.Thread(target=one, args=(connection,)))
                threads[-1].start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield listener.getsockname()[1]
    finally:
        for each in list(open_sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        acceptor.join(5)
        for thread in threads:
            thread.join(5)
        listener.close()


def exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return data


def frame(connection: socket.socket) -> bytes:
    return exactly(connection, int.from_bytes(exactly(connection, 4), "big"))


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(4, "big") + message


def recorded(node: str) -> dict[bytes, bytes]:
    """Return the answers of a node of a real cluster, by request. Both are without the number that joins them."""
    tape = json.loads((DATA / "kafka.json").read_text())[node]
    return {bytes.fromhex(request): bytes.fromhex(answer) for request, answer in tape.items()}


def replaying(node: str) -> Behaviour:
    """Answer byte for byte what the real node answered, and hang up on a request that it never got."""
    tape = recorded(node)

    def behave(connection: socket.socket) -> None:
        while True:
            request = frame(connection)
            connection.sendall(framed(request[4:8] + tape[request[:4] + request[8:]]))

    return lambda connection: _hang_up_on_key_error(behave, connection)


def _hang_up_on_key_error(behave: Behaviour, connection: socket.socket) -> None:
    with suppress(KeyError):
        behave(connection)


def silent(connection: socket.socket) -> None:
    while connection.recv(1000):
        pass


def closing(connection: socket.socket) -> None:
    connection.close()


def sending(data: bytes) -> Behaviour:
    """Answer this to every request, and nothing more."""

    def behave(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(data)
        silent(connection)

    return behave


def trickling(data: bytes, every_s: float) -> Behaviour:
    """Send one more byte each time, just before a reader gives up waiting for a byte."""

    def behave(connection: socket.socket) -> None:
        pause = threading.Event()
        for byte in data:
            connection.sendall(bytes([byte]))
            pause.wait(every_s)

    return behave
