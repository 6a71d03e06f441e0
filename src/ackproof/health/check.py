"""The health check itself: four times a second, judge what the rate query and the cluster probe know, and alert."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ackproof.core.errors import CannotHere
from ackproof.health.alerting import Alert, Alerts
from ackproof.health.cluster_probe import ClusterProbe, Elections, Nodes, ReadableOffsets, merged
from ackproof.health.config import HealthConfig
from ackproof.health.rate_monitor import LATE_MOST_S, RateMonitor
from ackproof.health.rules import Snapshot

EVERY_S = 0.25


class HealthCheck:
    """`tell` takes the alerts, also from threads of Spark; `ready` is called once the rate is watched."""

    def __init__(
        self, config: HealthConfig, tell: Callable[[Alert], None], ready: Callable[[], None], spark_log: Path | None
    ) -> None:
        from ackproof.health.rate_query import RateQuery  # Spark takes a while to load

        self._config = config
        self._tell = tell
        self._ready = ready
        self._over = threading.Event()
        self._checkpoint = tempfile.TemporaryDirectory(prefix="health-")
        self._rates = RateMonitor(config.line)
        nodes = Nodes(config.brokers, config.zookeeper, config.controllers)
        self._probe = ClusterProbe(nodes, config.min_isr, self._over)
        self._elections = Elections(eligible=not config.zookeeper)
        self._readable = ReadableOffsets()
        self._alerts = Alerts()
        self._judged = 0
        self._armed = self._reported_late = False
        jars, checkpoint = [Path(jar) for jar in config.jars], Path(self._checkpoint.name) / "checkpoint"
        self._query = RateQuery(config.bootstrap, config.topic, jars, checkpoint, self._rates, self._note, spark_log)

    def stop(self) -> None:
        self._over.set()

    def run(self) -> CannotHere | None:
        """Watch until `stop`. Returns a problem if there is no Spark to count with."""
        counting = threading.Thread(target=self._query.run)
        counting.start()
        self._probe.start()
        watching = False
        try:
            while not self._over.wait(EVERY_S) and self._query.problem is None:
                if self._rates.begun and not watching:
                    watching = True
                    self._note("watching", None, f"the health check watches {self._config.topic}")
                    self._ready()
                if watching:
                    self._look(time.monotonic())
        finally:
            self._over.set()
            self._query.stop()
            counting.join()
            self._checkpoint.cleanup()
        return self._query.problem

    def _look(self, now: float) -> None:
        answering = self._probe.answering()
        partitions = merged(self._probe.answers(), answering, self._config.min_isr)
        rate = self._rates.rate(now)
        snapshot = Snapshot(
            answering=len(answering),
            brokers=len(self._config.brokers),
            partitions=partitions,
            controller=self._probe.controller(),
            unclean=self._elections.see(partitions, now),
            rate=rate,
        )
        for alert in self._alerts.update(snapshot, now):
            self._tell(alert)
        for offsets in self._probe.leader_offsets():
            if (fell := self._readable.fell(offsets)) is not None:
                before, after = fell
                text = f"{offsets.name}: the readable end of the log fell from {before} to {after}"
                self._note("offset_fell", float(before - after), text)
        if rate.armed and not self._armed:
            self._armed = True
            self._note("armed", rate.last, f"messages flow, {rate.last} a second: from here on the rate is watched")
        if rate.too_late >= self._config.line and not self._reported_late:
            self._reported_late = True
            late = f"{rate.too_late:,} messages came more than {LATE_MOST_S} s after their own timestamps"
            self._note("too_late", float(rate.too_late), f"{late}: such messages count for no second")
        if rate.judged != self._judged:
            self._judged = rate.judged
            self._note("rate", rate.last, "")

    def _note(self, event: str, value: float | None, text: str) -> None:
        self._tell(Alert("rate", event, value, text))
