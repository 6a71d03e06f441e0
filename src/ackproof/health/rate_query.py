"""Count the messages of a topic with Spark Structured Streaming: one query, with one trigger each second.

A query that hangs still claims to be active. So every trigger that finishes is reported to the `RateMonitor`, even if
it found nothing, and the health check notices when none is. A query that dies is started again from its checkpoint, in
a new Spark if the old one died too. A truncated log must not stop the query; Spark may not even notice it, because it
waits for the offsets that it saw before, so `cluster_probe` asks the brokers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery

from ackproof.core.errors import CannotHere
from ackproof.health.rate_monitor import RateMonitor
from ackproof.spark.session import Extras, Session, collected, first_line, warm

TRIGGER = "1 second"
MEMORY = "512m"
AGAIN_S = 1.0  # pause after a query died
SETTINGS = {
    "spark.app.name": "ackproof health",
    "spark.sql.streaming.noDataProgressEventInterval": "0",  # report every trigger, also one that found nothing
    "spark.cleaner.referenceTracking": "true",  # the query may run for days
    "spark.sql.ui.retainedExecutions": "1",
    "spark.sql.streaming.minBatchesToRetain": "5",
}

Note = Callable[[str, float | None, str], None]  # an event: its name, a value, a text


class RateQuery:
    def __init__(
        self,
        bootstrap: str,
        topic: str,
        jars: Sequence[Path],
        checkpoint: Path,
        rates: RateMonitor,
        note: Note,
        log: Path | None = None,
    ) -> None:
        """`log`: where Spark's own log is kept, as evidence."""
        self._source = {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": topic,
            "startingOffsets": "latest",
            "failOnDataLoss": "false",
        }
        self._extras = Extras(jars, SETTINGS, MEMORY)
        self._checkpoint = checkpoint
        self._rates = rates
        self._note = note
        self._log = log
        self._over = threading.Event()
        self._session: Session | None = None
        self.problem: CannotHere | None = None  # why Spark could not start at all

    def run(self) -> None:
        """Count until `stop`, in a thread of its own."""
        while not self._over.is_set():
            try:
                self._live()
            except CannotHere as problem:
                if not self._rates.begun:
                    self.problem = problem
                    return
                self._died(problem)
            except Exception as error:  # noqa: BLE001  whatever Spark died of, start it again
                self._died(error)
            self._over.wait(AGAIN_S)

    def _live(self) -> None:
        """Run one Spark, with one query after the other."""
        with warm("local[2]", extras=self._extras) as session:
            self._session = session
            session.spark.streams.addListener(_Listener(self._rates))
            try:
                while not self._over.is_set():
                    self._query(session)
                    self._over.wait(AGAIN_S)
            finally:
                if self._log is not None:
                    with self._log.open("ab") as kept:
                        kept.write(session.log.read_bytes())

    def _query(self, session: Session) -> None:
        """Run one query until it dies. Raises its error if Spark died too."""
        try:
            self._start(session).awaitTermination()
        except Exception as error:
            if session.jvm is not None and session.jvm.process.poll() is not None:
                raise
            self._died(error)

    def _start(self, session: Session) -> StreamingQuery:
        records = session.spark.readStream.format("kafka").options(**self._source).load()
        return (
            records.select("timestamp")
            .writeStream.foreachBatch(self._count)
            .trigger(processingTime=TRIGGER)
            .option("checkpointLocation", str(self._checkpoint))
            .start()
        )

    def _count(self, batch: DataFrame, number: int) -> None:
        """Count a batch in one partition, without an exchange: a second has few messages."""
        second = F.floor(F.unix_millis("timestamp") / 1000).alias("second")
        rows = collected(batch.coalesce(1).groupBy(second).agg(F.count("*").alias("messages")))
        self._rates.count(number, {row["second"]: row["messages"] for row in rows})

    def _died(self, error: BaseException) -> None:
        if not self._over.is_set():
            self._note(
                "query_restarted", None, f"the query was started again from its checkpoint after {first_line(error)}"
            )

    def stop(self) -> None:
        """Kill Spark at once, because a query that hangs does not react."""
        self._over.set()
        if self._session is not None and self._session.jvm is not None:
            with suppress(OSError):
                self._session.jvm.process.kill()


class _Listener(StreamingQueryListener):
    def __init__(self, rates: RateMonitor) -> None:
        self._rates = rates

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # Spark's names
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self._finished(event.progress.timestamp)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        self._finished(event.timestamp)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass

    def _finished(self, trigger: str) -> None:
        self._rates.finished(datetime.fromisoformat(trigger).timestamp(), time.monotonic(), time.time())
