"""The leaders of a run's partitions, looked up every quarter of a second while the run goes on."""

from __future__ import annotations

import threading
from collections.abc import Collection
from contextlib import suppress

from ackproof.core.errors import Problem
from ackproof.lab import requests

EVERY_S = 0.25


class Leaders:
    def __init__(self, lab: str, topics: Collection[str]) -> None:
        self.now: dict[str, tuple[str | None, int | None]] = {}  # TOPIC/PARTITION: its leader, the leader epoch
        self._lab = lab
        self._topics = topics
        self._over = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._follow, daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def epoch(self, partition: str) -> int | None:
        return self.now.get(partition, (None, None))[1]

    def _follow(self) -> None:
        while not self._over.wait(EVERY_S):
            with suppress(Problem, OSError):
                for each in requests.leaders(self._lab):
                    if each.topic in self._topics:
                        self.now[f"{each.topic}/{each.partition}"] = (each.leader, each.leader_epoch)
