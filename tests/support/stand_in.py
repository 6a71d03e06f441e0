"""A stand-in for a node, in the place of java: it answers what a lab asks of a new node, and takes messages.

It uses only Python's own modules, because an ordinary user's lab runs it. ZooKeeper says its mode. A broker is the only
one of its cluster, leads the only partition of the only topic, and acknowledges messages that it throws away.
"""

from __future__ import annotations

import socketserver
import struct
import sys
from pathlib import Path

PRODUCE, FETCH, METADATA, API_VERSIONS, CREATE_TOPICS = 0, 1, 3, 18, 19
SPOKEN = {PRODUCE: (0, 7), FETCH: (0, 4), METADATA: (9, 9), API_VERSIONS: (0, 3), CREATE_TOPICS: (0, 4)}
SETTINGS = dict(line.split("=", 1) for line in Path(sys.argv[-1]).read_text().splitlines() if "=" in line)
NUMBER = int(SETTINGS.get("broker.id", 0))
TOPIC = b"orders"


def short(word: bytes) -> bytes:
    return struct.pack(">h", len(word)) + word


def compact(word: bytes) -> bytes:
    return bytes([len(word) + 1]) + word


def versions() -> bytes:
    """No error; each question; not slowed down, no tags."""
    entries = [struct.pack(">hhhB", key, *spoken, 0) for key, spoken in SPOKEN.items()]
    return struct.pack(">hB", 0, len(entries) + 1) + b"".join(entries) + bytes(5)


def metadata() -> bytes:
    """No tags, not slowed down; a broker without a rack; the cluster and its controller; the topic."""
    itself = struct.pack(">Bi", 2, NUMBER)  # a list of one
    broker = itself + compact(b"kafka%d" % NUMBER) + struct.pack(">iBB", 9092, 0, 0)
    partition = struct.pack(">BhiiI", 2, 0, 0, NUMBER, 0) + itself + itself + bytes([1, 0])  # no replica is offline
    topic = struct.pack(">Bh", 2, 0) + compact(TOPIC) + bytes(1) + partition + bytes(5)
    return bytes(5) + broker + compact(b"cluster") + struct.pack(">i", NUMBER) + topic + bytes(5)


def produced() -> bytes:
    """The topic, its partition without an error, from where on it was written; not slowed down."""
    return struct.pack(">i", 1) + short(TOPIC) + struct.pack(">iihqqqi", 1, 0, 0, 0, -1, 0, 0)


def created() -> bytes:
    """Not slowed down; the topic, without an error."""
    return struct.pack(">ii", 0, 1) + short(TOPIC) + struct.pack(">hh", 0, -1)


ANSWERS = {PRODUCE: produced, METADATA: metadata, API_VERSIONS: versions, CREATE_TOPICS: created}


class Node(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        if "clientPort" in SETTINGS:
            if self.rfile.read(4) == b"srvr":
                self.wfile.write(b"Mode: standalone\n")
            return
        while length := self.rfile.read(4):
            question = self.rfile.read(int.from_bytes(length, "big"))
            answer = question[4:8] + ANSWERS[int.from_bytes(question[:2], "big")]()
            self.wfile.write(struct.pack(">i", len(answer)) + answer)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


Server(("", int(SETTINGS.get("clientPort", 9092))), Node).serve_forever()
