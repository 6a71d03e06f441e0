"""The rate of a topic: the messages of each second, by their own timestamps, compared with a line.

Spark counts, and this module decides. A second is judged when a trigger that began `GRACE_S` after its end has
finished: by then its messages are counted, and a second without messages counts 0. So silence is noticed like any other
drop: the clock closes a second, and no later message is needed as with a watermark.

Messages can arrive later than their timestamps: a producer lingers, a mirror lags. If a second reached the line only
after it would have been closed, it was late. If that happens repeatedly, every second is kept open for that much
longer. Messages that an outage held up are late only once, so they delay nothing.

Timestamps come from the wall clock. If the clock is set while the check runs, the seconds in between do not count as
silent: counting starts again at the new time.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

GRACE_S = 0.5
IN_A_ROW = 2  # so many seconds on one side of the line decide
ARMED_AFTER = 5  # seconds in a row above the line: there is no alert before the load begins
KEPT_S = 60
LATE_MOST_S = 10  # a second is kept open for at most so long
LATE_OFTEN = 3  # lateness counts if it was seen so often ...
LATE_AMONG = 12  # ... in so many triggers
SET_S = 2  # the wall clock is adjusted by at most so much; a larger jump means that it was set
UNHEARD_S = 10  # Spark reports a trigger at most so late


@dataclass(frozen=True)
class Rate:
    line: float
    armed: bool
    below: bool
    judged: int  # how many seconds were judged
    last: int | None  # messages in the last of them
    unheard_s: float  # since a trigger of the query last finished
    too_late: int = 0  # messages that came after their second had been kept open for the longest time


class RateMonitor:
    """Spark's threads feed it; the health check reads it."""

    def __init__(self, line: float) -> None:
        self._line = line
        self._turn = threading.Lock()
        self._counts: Counter[int] = Counter()  # by second since 1970
        self._batch: tuple[int, Mapping[int, int]] = (-1, {})
        self._next: int | None = None  # the second to be judged next
        self._over = 0  # every second before this one was over at the last trigger
        self._at_line: set[int] = set()  # seconds that were seen to be at the line
        self._late: deque[int] = deque(maxlen=LATE_AMONG)  # for each trigger, how late its latest second was
        self._too_late = 0
        self._row = 0  # seconds in a row above the line; if negative, below it
        self._armed = self._below = False
        self._judged = 0
        self._last: int | None = None
        self._heard: float | None = None
        self._ahead = 0.0  # wall clock minus monotonic clock, when a trigger last finished

    def count(self, batch: int, counts: Mapping[int, int]) -> None:
        """Take the counts of a batch. A restarted query repeats its last batch: then the new count replaces the old."""
        with self._turn:
            number, before = self._batch
            if number == batch:
                self._counts.subtract(before)
            elif self._next is not None:
                self._too_late += sum(n for second, n in counts.items() if second < self._over - LATE_MOST_S)
            self._counts.update(counts)
            self._batch = (batch, counts)

    def finished(self, trigger_s: float, now: float, wall_s: float) -> None:
        """Note a finished trigger: its start and end since 1970, and its end on the monotonic clock (`now`)."""
        with self._turn:
            was_set = self._was_set(trigger_s, now, wall_s)
            self._heard, self._ahead = now, wall_s - now
            if was_set:
                self._next = None
                self._counts.clear()
                self._at_line.clear()
                self._batch = (self._batch[0], {})
                return
            over = math.floor(trigger_s - GRACE_S)  # every second before this one is over
            if self._next is None:
                self._next = self._over = over
            whole = over - self._lateness()  # all messages of the seconds before this one are here
            for second in range(self._next, whole):
                self._judge(self._counts[second])
            self._next = max(self._next, whole)
            self._over = max(self._over, over)
            for old in [second for second in self._counts if second < over - KEPT_S]:
                del self._counts[old]
            self._at_line &= self._counts.keys()

    def _was_set(self, trigger_s: float, now: float, wall_s: float) -> bool:
        """Whether the wall clock was set since the last trigger.

        Either it moved differently from the monotonic clock, or the start of this trigger lies outside the time since
        the last one.
        """
        if self._heard is None:
            return False
        moved_s, ago_s = wall_s - now - self._ahead, wall_s - trigger_s
        return abs(moved_s) > SET_S or not -SET_S <= ago_s <= now - self._heard + UNHEARD_S

    def _lateness(self) -> int:
        """For how many seconds to keep a second open, from how late seconds reached the line in the last triggers."""
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
