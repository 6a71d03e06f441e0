"""A small program for a test's own traffic: it runs in a node's namespace and carries out one request a line.

It knows nothing of the lab and imports nothing of it. One JSON object a line in, one out:

    {"do": "send", "to": ADDRESS, "what": TEXT, "copies": N}               datagrams from here
    {"do": "got", "what": TEXT}                                            how many of these arrived here
    {"do": "connect", "to": ADDRESS, "port": P}                            connected, refused or silent
    {"do": "keep", "to": ADDRESS}, {"do": "echo"}                          an old connection, and whether it echoes
    {"do": "ask", "to": ADDRESS, "port": P, "what": TEXT}                  what a program answers to this line
    {"do": "resolve", "to": NAME}                                          the address that a name has here
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections import Counter
from typing import Any

DATAGRAM_PORT = 5555
ECHO_PORT = 5556
SILENT_S = 0.3

received: Counter[str] = Counter()
kept: list[socket.socket] = []


def receive() -> None:
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    end.bind(("", DATAGRAM_PORT))
    while True:
        received[end.recv(100).decode()] += 1


def echo_for_ever() -> None:
    listening = socket.create_server(("", ECHO_PORT), backlog=64)
    while True:
        connection, _ = listening.accept()
        threading.Thread(target=echo, args=(connection,), daemon=True).start()


def echo(connection: socket.socket) -> None:
    with connection:
        try:
            while data := connection.recv(100):
                connection.sendall(data)
        except OSError:
            pass


def send(to: str, what: str, copies: int = 1) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        for _ in range(copies):
            end.sendto(what.encode(), (to, DATAGRAM_PORT))
    return True


def got(what: str) -> int:
    return received[what]


def connect(to: str, port: int) -> str:
    try:
        socket.create_connection((to, port), timeout=SILENT_S).close()
    except ConnectionRefusedError:
        return "refused"
    except TimeoutError:
        return "silent"
    return "connected"


def keep(to: str) -> bool:
    kept.append(socket.create_connection((to, ECHO_PORT), timeout=2))
    return True


def echoes() -> bool:
    try:
        kept[-1].sendall(b"x")
        return kept[-1].recv(1) == b"x"
    except OSError:
        return False


def ask(to: str, port: int, what: str) -> str:
    with socket.create_connection((to, port), timeout=2) as connection:
        connection.sendall(what.encode())
        answer = b""
        while part := connection.recv(4096):
            answer += part
        return answer.decode()


def resolve(to: str) -> str:
    return socket.gethostbyname(to)


DO = {"send": send, "got": got, "connect": connect, "keep": keep, "echo": echoes, "ask": ask, "resolve": resolve}


def main() -> None:
    threading.Thread(target=receive, daemon=True).start()
    threading.Thread(target=echo_for_ever, daemon=True).start()
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        try:
            answer: Any = DO[order.pop("do")](**order)  # type: ignore[operator]
        except OSError as problem:
            answer = f"{type(problem).__name__}: {problem}"
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
