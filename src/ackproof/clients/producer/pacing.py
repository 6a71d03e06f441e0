"""When each message of a producer is due, by its rate and its pauses."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ackproof.clients.producer.delivery_reports import Numbers


class Pace:
    """All times are in nanoseconds since the load began."""

    def __init__(self, rate: float, pauses: Sequence[tuple[int, float]]) -> None:
        self._step_ns = 1e9 / rate
        self._pauses = [(after, round(seconds * 1e9)) for after, seconds in sorted(pauses)]

    def when(self, seq: int) -> int:
        return int(seq * self._step_ns) + sum(pause_ns for after, pause_ns in self._pauses if seq >= after)

    def all(self, seq: Numbers) -> Numbers:
        """When each of these messages is due."""
        due = (seq * self._step_ns).astype(np.int64)
        for after, pause_ns in self._pauses:
            due[seq >= after] += pause_ns
        return due

    def due(self, elapsed_ns: int) -> int:
        """How many messages are due by this time."""
        for after, pause_ns in self._pauses:
            if elapsed_ns < after * self._step_ns:
                break
            elapsed_ns = max(int(after * self._step_ns) - 1, elapsed_ns - pause_ns)
        return math.floor(elapsed_ns / self._step_ns) + 1
