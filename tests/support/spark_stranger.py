"""Another user of this machine, who talks to every port of a judge's Java without its secrets.

    python spark_stranger.py UID PORT...

Prints what each port answered, as JSON. To Spark it sends a call as Spark's own clients do, with a Java object in it;
a Spark that lets strangers in reads the object, and its answer says so. To Py4J it sends a command.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

ENDPOINTS = ("HeartbeatReceiver", "MapOutputTracker", "BlockManagerMaster")
JAVA_OBJECT = b"\xac\xed\x00\x05t\x00\x05hello"  # the text `hello`, as Java writes it
COMMAND = b"c\nj\ncurrentTimeMillis\ne\n"  # of Py4J


def text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


def call(endpoint: str, port: int) -> bytes:
    """A request of Spark's RPC: length, kind, number, size of the body; sender, receiver, object."""
    body = b"\x00" + b"\x01" + text("127.0.0.1") + struct.pack(">i", port) + text(endpoint) + JAVA_OBJECT
    message = b"\x03" + struct.pack(">qi", 7, len(body)) + body
    return struct.pack(">q", 8 + len(message)) + message


def answer(port: int, words: bytes) -> str:
    told = b""
    with suppress(OSError), socket.socket() as stranger:  # no name is looked up: the other user may not read Python
        stranger.settimeout(10)
        stranger.connect(("127.0.0.1", port))
        stranger.sendall(words)
        while len(told) < 20_000 and (more := stranger.recv(65_536)):
            told += more
            stranger.settimeout(1)
    return told.decode("latin-1")


if __name__ == "__main__":
    with suppress(PermissionError):  # as another user, if we are root
        os.setgroups([])
        os.setgid(int(sys.argv[1]))
        os.setuid(int(sys.argv[1]))
    asked: dict[str, tuple[int, bytes]] = {}
    for port in map(int, sys.argv[2:]):
        asked |= {f"{port} {name}": (port, call(name, port)) for name in ENDPOINTS}
        asked[f"{port} Py4J"] = (port, COMMAND)
    with ThreadPoolExecutor(len(asked)) as pool:  # wait for a port that says nothing
        told = pool.map(answer, *zip(*asked.values(), strict=True))
        print(json.dumps(dict(zip(asked, told, strict=True))))
