"""The health check of a run or of a lab: it watches one topic's rate and the cluster, and raises alerts.

It prints one JSON event per line: `watching`, `armed`, `raised`, `cleared`, `offset_fell`, `query_restarted`,
`too_late`, and the `rate` of each second. In a run, all events except the rates also go to the journal.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from ackproof.clients.lateness import Lateness
from ackproof.clients.runtime import Progress, read_config
from ackproof.health.alerting import Alert, Watch
from ackproof.health.cluster_probe import Elections, Looks, Marks, Nodes, merged
from ackproof.health.rate_monitor import LATE_MOST_S, Rates
from ackproof.health.rules import View
from ackproof.journal.writer import Writer
from ackproof.model.health_config import HealthConfig

EVERY_S = 0.25


class HealthCheck:
    def __init__(self, config: HealthConfig) -> None:
        from ackproof.health.rate_query import Stream  # Spark takes a while to load

        self._config = config
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._journal = (
            None if config.directory is None else Writer(Path(config.directory), "alerts", config.run, "health")
        )
        self._progress = None if config.progress is None else Progress(Path(config.progress), create=True)
        self._checkpoint = tempfile.TemporaryDirectory(prefix="health-")
        self._rates = Rates(config.line)
        nodes = Nodes(config.brokers, config.zookeeper, config.controllers)
        self._looks = Looks(nodes, config.min_isr, self._over)
        self._elections = Elections(eligible=not config.zookeeper)
        self._marks = Marks()
        self._watch = Watch()
        self._judged = 0
        self._armed = self._reported_late = False
        jars, checkpoint = [Path(jar) for jar in config.jars], Path(self._checkpoint.name) / "checkpoint"
        words = None if config.directory is None else Path(config.directory) / "logs" / "health-spark.log"
        self._stream = Stream(config.bootstrap, config.topic, jars, checkpoint, self._rates, self._noted, words)

    def stop(self, *_: Any) -> None:
        self._over.set()

    def run(self) -> int:
        streaming = threading.Thread(target=self._stream.run)
        streaming.start()
        self._looks.start()
        watching = False
        try:
            while not self._over.wait(EVERY_S) and self._stream.problem is None:
                if self._rates.begun and not watching:
                    watching = True
                    self._noted("watching", None, f"the health check watches {self._config.topic}")
                    if self._progress is not None:
                        self._progress.write(1, 0, 0, 0, 0, 0)
                if watching:
                    self._look()
        finally:
            self._over.set()
            self._stream.stop()
            streaming.join()
            if self._journal is not None:
                self._journal.close(seal=False)
            self._checkpoint.cleanup()
        if self._stream.problem is not None:
            print(self._stream.problem.message, *self._stream.problem.details, sep="\n", flush=True)
            return self._stream.problem.exit_code
        return 0

    def _look(self) -> None:
        now = time.monotonic()
        answering = self._looks.answering()
        partitions = merged(self._looks.said(), answering, self._config.min_isr)
        rate = self._rates.rate(now)
        view = View(
            answering=len(answering),
            brokers=len(self._config.brokers),
            partitions=partitions,
            controller=self._looks.controller(),
            unclean=self._elections.see(partitions, now),
            rate=rate,
        )
        for alert in self._watch.look(view, now):
            self._tell(alert)
        for mark in self._looks.marks():
            if (fell := self._marks.fell(mark)) is not None:
                before, after = fell
                text = f"{mark.name}: the readable end of the log fell from {before} to {after}"
                self._noted("offset_fell", float(before - after), text)
        if rate.armed and not self._armed:
            self._armed = True
            self._noted("armed", rate.last, f"messages flow, {rate.last} a second: from here on the rate is watched")
        if rate.too_late >= self._config.line and not self._reported_late:
            self._reported_late = True
            late = f"{rate.too_late:,} messages came more than {LATE_MOST_S} s after their own timestamps"
            self._noted("too_late", float(rate.too_late), f"{late}: such messages count for no second")
        if rate.judged != self._judged:
            self._judged = rate.judged
            self._say(Alert("rate", "rate", rate.last, ""))

    def _noted(self, event: str, value: float | None, text: str) -> None:
        self._tell(Alert("rate", event, value, text))

    def _tell(self, alert: Alert) -> None:
        """Write and print an alert. Spark's threads call this too."""
        with self._lock:
            if self._journal is not None:
                row = {name: getattr(alert, name) for name in ("rule", "event", "value", "text")}
                self._journal.add(at_ns=time.monotonic_ns(), **row)
                self._journal.flush()
        self._say(alert)

    def _say(self, alert: Alert) -> None:
        with self._lock:
            print(msgspec.json.encode(alert).decode(), flush=True)


def main() -> int:
    config = read_config(HealthConfig)
    os.environ["JAVA_HOME"] = config.java_home
    os.environ["TMPDIR"] = tempfile.tempdir = config.folder
    health = HealthCheck(config)
    signal.signal(signal.SIGTERM, health.stop)
    signal.signal(signal.SIGINT, health.stop)
    if config.tethered:
        threading.Thread(target=lambda: health.stop(sys.stdin.buffer.read()), daemon=True).start()
    if config.directory is None:
        return health.run()
    with Lateness(config.directory, config.run, "health"):
        return health.run()


if __name__ == "__main__":
    sys.exit(main())
