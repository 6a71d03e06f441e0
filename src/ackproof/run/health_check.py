"""Follow the health check of a run: read its log as it grows, and deliver what it says."""

from __future__ import annotations

from pathlib import Path

from ackproof.health.alert_sinks import AlertSinks, Tell
from ackproof.model.scenario import HealthPlan


class HealthFeed:
    """The lines that the run's health check prints. It does nothing if the scenario has no health check."""

    def __init__(self, plan: HealthPlan | None, directory: Path, tell: Tell) -> None:
        self._sinks = None if plan is None else AlertSinks(plan.webhook, plan.prometheus, tell)
        self._log = directory / "logs" / "health.log"
        self._read = 0

    def follow(self) -> None:
        if self._sinks is None or not self._log.exists():
            return
        with self._log.open("rb") as log:
            log.seek(self._read)
            *whole, _ = log.read().split(b"\n")
        self._read += sum(len(line) + 1 for line in whole)
        for line in whole:
            self._sinks.put(line.decode(errors="replace"))

    def close(self) -> None:
        if self._sinks is not None:
            self._sinks.close()
