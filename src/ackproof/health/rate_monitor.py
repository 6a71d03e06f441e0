"""The rate of a topic: messages in each second, by their own timestamps, judged against a line.

Spark counts; this decides. A second is judged once a trigger that began `GRACE_S` after its end has finished: whatever
was written in it has been counted by then, and a second of which nothing was heard counts 0. So silence is seen like
any other drop, without a message that would have to come first: the clock closes a second, no watermark does.

Messages may come later than their timestamps say: a producer that lingers, a mirror that lags. A second that is seen to
have been at the line only after it would have been closed was late; where that happens again and again, seconds are
kept open for so much longer. What an outage had held up comes late once, and makes nobody wait.

Timestamps are of the wall clock. Where that is set while the watch goes on, no second between then and now is silent:
seconds are counted anew from there.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

GRACE_S = 0.5
IN_A_ROW = 2  # seconds on one side of the line before it counts
ARMED_AFTER = 5  # seconds above the line in a row: nobody is woken for a load that has not begun
KEPT_S = 60
LATE_MOST_S = 10  # seconds are not kept open for longer
LATE_OFTEN = 3  # times in so many triggers, before it is believed
LATE_AMONG = 12
SET_S = 2  # by which the wall clock is nudged at most; by more, somebody set it
UNHEARD_S = 10  # by which Spark tells of a trigger late at most


@dataclass(frozen=True)
class Rate:
    line: float
    armed: bool
    below: bool
    judged: int  # so many seconds
    last: int | None  # messages in the last of them
    unheard_s: float  # since a trigger of the query last finished
    too_late: int = 0  # messages that came when their second had been kept open for as long as any is


class Rates:
    """Fed by Spark's threads, asked by the watch."""

    def __init__(self, line: float) -> None:
        self._line = line
        self._turn = threading.Lock()
        self._counts: Counter[int] = Counter()  # by second since 1970
        self._batch: tuple[int, Mapping[int, int]] = (-1, {})
        self._next: int | None = None  # the second to be judged next
        self._over = 0  # every second before this one was over at the last trigger
        self._at_line: set[int] = set()  # seconds that were seen to be at the line
        self._late: deque[int] = deque(maxlen=LATE_AMONG)  # of each trigger's seconds, by how much the latest was
        self._too_late = 0
        self._row = 0  # so many seconds in a row: above the line, or, negative, below
        self._armed = self._below = False
        self._judged = 0
        self._last: int | None = None
        self._heard: float | None = None
        self._ahead = 0.0  # the wall clock of the monotonic one, when a trigger last finished

    def count(self, batch: int, counts: Mapping[int, int]) -> None:
        """A batch's messages by second. A query that died does its last batch again: then the new count holds."""
        with self._turn:
            number, before = self._batch
            if number == batch:
                self._counts.subtract(before)
            elif self._next is not None:
                self._too_late += sum(n for second, n in counts.items() if second < self._over - LATE_MOST_S)
            self._counts.update(counts)
            self._batch = (batch, counts)

    def finished(self, trigger_s: float, now: float, wall_s: float) -> None:
        """A trigger that began then, in seconds since 1970, has finished, now, on the monotonic clock and the other."""
        with self._turn:
            was_set = self._was_set(trigger_s, now, wall_s)
            self._heard, self._ahead = now, wall_s - now
            if was_set:
                self._next = None
                self._counts.clear()
                self._at_line.clear()
                self._batch = (self._batch[0], {})
                return
            over = math.floor(trigger_s - GRACE_S)  # every second before this one is
            if self._next is None:
                self._next = self._over = over
            whole = over - self._lateness()  # and of every one before this all is here
            for second in range(self._next, whole):
                self._judge(self._counts[second])
            self._next = max(self._next, whole)
            self._over = max(self._over, over)
            for old in [second for second in self._counts if second < over - KEPT_S]:
                del self._counts[old]
            self._at_line &= self._counts.keys()

    def _was_set(self, trigger_s: float, now: float, wall_s: float) -> bool:
        """The wall clock, since the last trigger: it went on otherwise than the monotonic one, or this trigger, which
        began after that, began at another time."""
        if self._heard is None:
            return False
        moved_s, ago_s = wall_s - now - self._ahead, wall_s - trigger_s
        return abs(moved_s) > SET_S or not -SET_S <= ago_s <= now - self._heard + UNHEARD_S

    def _lateness(self) -> int:
        """For how many seconds to wait, by how late they came to the line in this trigger and in those before."""
        reached = {second for second, n in self._counts.items() if n >= self._line} - self._at_line
        self._at_line |= reached
        late = [self._over - second for second in reached if 0 <= self._over - second <= LATE_MOST_S]
        self._late.append(max(late, default=0))
        return sorted(self._late)[-LATE_OFTEN] if len(self._late) >= LATE_OFTEN else 0

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
            return Rate(self._line, self._armed, self._below, self._judged, self._last, unheard_s, self._too_late)

    @property
    def begun(self) -> bool:
        return self._heard is not None
