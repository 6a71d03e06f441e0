"""The audit log of a lab: each command with its caller and result, each proof, each healing, each exit of a process.

Each event is one JSON object on one line, appended in one write. So several processes can write, and any process can
read at any moment. A full disk does not stop a heal: events that do not fit are written with the next event that does.
"""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from ackproof.core.errors import FULL

Event = dict[str, Any]  # a line of the log: each kind of event has facts of its own


class Events:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = threading.Lock()
        self._unwritten = b""

    def add(self, event: str, **facts: Any) -> None:
        record = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "at_ns": time.monotonic_ns(),
            "event": event,
            **{name: fact for name, fact in facts.items() if fact is not None},
        }
        with self._turn:
            self._unwritten += msgspec.json.encode(record) + b"\n"
            try:
                self._write()
            except OSError as problem:
                if problem.errno not in FULL:
                    raise

    def _write(self) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            while self._unwritten:
                self._unwritten = self._unwritten[os.write(descriptor, self._unwritten) :]
        finally:
            os.close(descriptor)

    def read(self) -> list[Event]:
        """Every event so far."""
        return self.read_from(0)[0]

    def read_from(self, position: int) -> tuple[list[Event], int]:
        """The events from a position in the file on, and the position after them.

        A line that is still being written is left for the next call.
        """
        try:
            with self._path.open("rb") as log:
                log.seek(position)
                whole, newline, _ = log.read().rpartition(b"\n")
        except FileNotFoundError:
            return [], position
        return [msgspec.json.decode(line) for line in whole.split(b"\n") if line], position + len(whole) + len(newline)
