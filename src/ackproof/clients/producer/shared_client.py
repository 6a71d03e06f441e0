"""One client shared by several threads: each takes the next numbers, makes their messages and gives them to the client.

Only the taking is done one at a time. Making messages and giving them away goes on side by side, as far as Python's
interpreter lock lets it. Two threads that took numbers one after the other may give them away in the other order.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

FULL_S = 0.001  # how long a thread waits for room in the client's queue, before it asks again

Batch = list[dict[str, Any]]


class Sharing:
    def __init__(
        self, take: Callable[[], range], make: Callable[[int, int], Batch], give: Callable[[Batch], int]
    ) -> None:
        """`take` gives the next numbers, and none at the end; `give` says how many messages of a batch were taken."""
        self._take = take
        self._make = make
        self._give = give
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._refused: deque[tuple[int, str]] = deque()

    def start(self, threads: int) -> None:
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def busy(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def refused(self) -> Iterator[tuple[int, str]]:
        """Numbers that the client refused for good since the last time, with its error."""
        while self._refused:
            yield self._refused.popleft()

    def _work(self) -> None:
        while True:
            with self._lock:
                numbers = self._take()
            if not numbers:
                return
            self._give_all(numbers)

    def _give_all(self, numbers: range) -> None:
        """Until the client has taken or refused each: there may be no room in its queue for a while."""
        while numbers:
            batch = self._make(numbers.start, numbers.stop)
            if self._give(batch) == len(batch):
                return
            errors = [(place, message["_error"].name()) for place, message in enumerate(batch) if "_error" in message]
            full = next((place for place, error in errors if error == "_QUEUE_FULL"), len(batch))
            self._refused.extend((numbers[place], error) for place, error in errors if place < full)
            numbers = numbers[full:]
            time.sleep(FULL_S)
