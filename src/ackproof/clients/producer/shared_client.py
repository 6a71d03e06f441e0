"""One Kafka client shared by several threads. Each thread takes the next numbers, makes their messages and sends them.

Only the taking is done by one thread at a time. The threads make and send messages at once, as far as Python's
interpreter lock allows. Two threads that took numbers one after the other may send them in the other order.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

FULL_S = 0.001  # how long a thread waits for room in the client's queue before it tries again

Batch = list[dict[str, Any]]  # messages as `Producer.produce_batch` takes them


class SharedClient:
    def __init__(
        self, take: Callable[[], range], make: Callable[[int, int], Batch], send: Callable[[Batch], int]
    ) -> None:
        """`take` returns the next numbers, none at the end; `send` returns how many messages the client accepted."""
        self._take = take
        self._make = make
        self._send = send
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
        """The numbers that the client has refused for good since the last call, with its error."""
        while self._refused:
            yield self._refused.popleft()

    def _work(self) -> None:
        while True:
            with self._lock:
                numbers = self._take()
            if not numbers:
                return
            self._send_all(numbers)

    def _send_all(self, numbers: range) -> None:
        """Send until the client has accepted or refused each message; its queue may be full for a while."""
        while numbers:
            batch = self._make(numbers.start, numbers.stop)
            if self._send(batch) == len(batch):
                return
            errors = [(place, message["_error"].name()) for place, message in enumerate(batch) if "_error" in message]
            full = next((place for place, error in errors if error == "_QUEUE_FULL"), len(batch))
            self._refused.extend((numbers[place], error) for place, error in errors if place < full)
            numbers = numbers[full:]
            time.sleep(FULL_S)
