"""The audit trail of a lab: who asked what, what it became, when it was proved, when it was healed.

One JSON object a line, appended whole, so that several processes may write and anybody may read at any moment.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec


class Events:
    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, event: str, **facts: Any) -> None:
        record = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "at_ns": time.monotonic_ns(),
            "event": event,
            **{name: fact for name, fact in facts.items() if fact is not None},
        }
        line = msgspec.json.encode(record) + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def read(self) -> list[dict[str, Any]]:
        """Every event so far."""
        return self.read_from(0)[0]

    def read_from(self, place: int) -> tuple[list[dict[str, Any]], int]:
        """The events since a place in the file, and the place behind them.

        A line that is still being written is left for the next time.
        """
        try:
            with self._path.open("rb") as trail:
                trail.seek(place)
                whole, newline, _ = trail.read().rpartition(b"\n")
        except FileNotFoundError:
            return [], place
        return [msgspec.json.decode(line) for line in whole.split(b"\n") if line], place + len(whole) + len(newline)
