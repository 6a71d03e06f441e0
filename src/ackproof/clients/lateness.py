"""How late a process of the laboratory was itself: a thread of it wants to wake ten times a second, and writes down by
how much it missed that.

A process that somebody stopped, or that got no processor, measures it whatever its other threads wait for: what they
wait for of Kafka never counts. A process that never goes on again writes nothing more; the judge then sees that its
last word is missing.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import TracebackType

from ackproof.journal.writer import Writer

EVERY_S = 0.1
LATE_NS = 250_000_000  # less is not worth a row
ROWS_EVERY_NS = 1_000_000_000  # unless it was later than the row before says


class Lateness:
    """Watched as long as its block lasts. Each life of a client has a journal of its own name."""

    def __init__(self, directory: str, run: int, client: str, journal: str | None = None) -> None:
        self._client = client
        self._writer = Writer(Path(directory), "lateness", run, journal or client)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._told_ns = self._told_behind_ns = 0

    def __enter__(self) -> None:
        self._tell(time.monotonic_ns(), 0)
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        self._writer.close(seal=False)

    def _watch(self) -> None:
        before_ns = time.monotonic_ns()
        while not self._over.wait(EVERY_S):
            now_ns = time.monotonic_ns()
            self.woke(now_ns, now_ns - before_ns - int(EVERY_S * 1e9))
            before_ns = time.monotonic_ns()
        self.woke(time.monotonic_ns(), time.monotonic_ns() - before_ns - int(EVERY_S * 1e9))

    def woke(self, now_ns: int, behind_ns: int) -> None:
        due = now_ns - self._told_ns >= ROWS_EVERY_NS or behind_ns > self._told_behind_ns
        if behind_ns >= LATE_NS and due:
            self._tell(now_ns, behind_ns)

    def _tell(self, now_ns: int, behind_ns: int) -> None:
        self._told_ns, self._told_behind_ns = now_ns, behind_ns
        self._writer.add(client=self._client, at_ns=now_ns, behind_ns=behind_ns)
        self._writer.flush()
