"""The messages in flight: when each was sent, by its number, until its outcome is in the journal.

Answered messages below the first unanswered one are forgotten, so a long load takes no more memory than a short one.
"""

from __future__ import annotations

import threading
from array import array

import numpy as np

from ackproof.clients.producer.delivery_reports import Numbers

FORGET = 65_536  # numbers at a time


class InFlight:
    def __init__(self) -> None:
        self._lock = threading.Lock()  # one thread may send while another handles the answers
        self._first = 0  # all numbers below it are answered, and forgotten
        self._sent_ns = array("q")
        self._answered = bytearray()

    def __len__(self) -> int:
        """How many messages were ever sent."""
        return self._first + len(self._sent_ns)

    def add(self, sent_ns: int, count: int) -> None:
        with self._lock:
            self._sent_ns.extend(array("q", (sent_ns,)) * count)
            self._answered.extend(bytes(count))

    def sent_ns(self, seq: Numbers) -> Numbers:
        with self._lock:
            lowest, highest = int(seq.min()), int(seq.max())
            near = np.frombuffer(self._sent_ns[lowest - self._first : highest - self._first + 1], dtype=np.int64)
            return near[seq - lowest]

    def answer(self, seq: Numbers) -> None:
        with self._lock:
            np.frombuffer(self._answered, dtype=bool)[seq - self._first] = True
            done = self._answered.find(0)
            done = len(self._answered) if done < 0 else done
            if done >= FORGET:
                del self._sent_ns[:done], self._answered[:done]
                self._first += done

    def unanswered(self) -> Numbers:
        with self._lock:
            return self._first + np.flatnonzero(np.frombuffer(self._answered, dtype=np.uint8) == 0)
