"""Measures how late a process of the laboratory was. A thread wakes ten times a second and writes down its delay.

So a process notices when it was stopped or got no processor. Its other threads may wait for Kafka; that never counts.
A process that never continues writes nothing more. The judge then sees that its last row is missing.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import TracebackType

from ackproof.journal.writer import Writer

EVERY_S = 0.1
LATE_NS = 250_000_000  # a smaller delay gets no row
ROWS_EVERY_NS = 1_000_000_000  # a larger delay than in the last row gets a row at once


class Lateness:
    """Measures as long as its `with` block lasts. A client that is started again needs another `journal` name."""

    def __init__(self, directory: str, run: int, client: str, journal: str | None = None) -> None:
        self._client = client
        self._writer = Writer(Path(directory), "lateness", run, journal or client)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._last_ns = self._last_behind_ns = 0  # of the last row

    def __enter__(self) -> None:
        self._write(time.monotonic_ns(), 0)
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
        due = now_ns - self._last_ns >= ROWS_EVERY_NS or behind_ns > self._last_behind_ns
        if behind_ns >= LATE_NS and due:
            self._write(now_ns, behind_ns)

    def _write(self, now_ns: int, behind_ns: int) -> None:
        self._last_ns, self._last_behind_ns = now_ns, behind_ns
        self._writer.add(client=self._client, at_ns=now_ns, behind_ns=behind_ns)
        self._writer.flush()
