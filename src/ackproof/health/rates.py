"""The rate of a topic: messages in each second, by their own timestamps, judged against a line.

Spark counts; this decides. A second is judged once a trigger that began `GRACE_S` after its end has finished: whatever
was written in it has been counted by then, and a second of which nothing was heard counts 0. So silence is seen like
any other drop, without a message that would have to come first: the clock closes a second, no watermark does.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

GRACE_S = 0.5
IN_A_ROW = 2  # seconds on one side of the line before it counts
ARMED_AFTER = 5  # seconds above the line in a row: nobody is woken for a load that has not begun
KEPT_S = 60


@dataclass(frozen=True)
class Rate:
    line: float
    armed: bool
    below: bool
    judged: int  # so many seconds
    last: int | None  # messages in the last of them
    unheard_s: float  # since a trigger of the query last finished


class Rates:
    """Fed by Spark's threads, asked by the watch."""

    def __init__(self, line: float) -> None:
        self._line = line
        self._turn = threading.Lock()
        self._counts: Counter[int] = Counter()  # by second since 1970
        self._batch: tuple[int, Mapping[int, int]] = (-1, {})
        self._next: int | None = None  # the second to be judged next
        self._row = 0  # so many seconds in a row: above the line, or, negative, below
        self._armed = self._below = False
        self._judged = 0
        self._last: int | None = None
        self._heard: float | None = None

    def count(self, batch: int, counts: Mapping[int, int]) -> None:
        """A batch's messages by second. A query that died does its last batch again: then the new count holds."""
        with self._turn:
            number, before = self._batch
            if number == batch:
                self._counts.subtract(before)
            self._counts.update(counts)
            self._batch = (batch, counts)

    def finished(self, trigger_s: float, now: float) -> None:
        """A trigger that began then, in seconds since 1970, has finished, now, on the monotonic clock."""
        with self._turn:
            self._heard = now
            whole = math.floor(trigger_s - GRACE_S)  # every second before this one is over
            if self._next is None:
                self._next = whole
            for second in range(self._next, whole):
                self._judge(self._counts[second])
            self._next = max(self._next, whole)
            for old in [second for second in self._counts if second < whole - KEPT_S]:
                del self._counts[old]

    def _judge(self, count: int) -> None:
        above = count >= self._line
        self._judged, self._last = self._judged + 1, count
        self._row = (max(self._row, 0) + 1) if above else (min(self._row, 0) - 1)
        self._armed |= self._row >= ARMED_AFTER
        if abs(self._row) >= IN_A_ROW:
            self._below = not above

    def rate(self, now: float) -> Rate:
        with self._turn:
            unheard_s = 0.0 if self._heard is None else now - self._heard
            return Rate(self._line, self._armed, self._below, self._judged, self._last, unheard_s)

    @property
    def begun(self) -> bool:
        return self._heard is not None
