"""The topic's rate on Spark Structured Streaming: one query, one trigger a second, as long as the watch lives.

A query that hangs says of itself that it is active; so every trigger that finishes is told to `Rates`, also one that
found nothing, and the watch notices when none does. One that dies is started again from its checkpoint, with a new
Spark where the old one died with it. Offsets that fall back (a log that was truncated) are no reason to stop; Spark
may never see them, for it waits for what it was promised, so the brokers are asked (`cluster_probe`).
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
from ackproof.health.rate_monitor import Rates
from ackproof.spark.session import Extras, Session, collected, first_line, warm

TRIGGER = "1 second"
MEMORY = "512m"
AGAIN_S = 1.0  # between the death of a query and the next
SETTINGS = {
    "spark.app.name": "ackproof health",
    "spark.sql.streaming.noDataProgressEventInterval": "0",  # every trigger is told, also one that found nothing
    "spark.cleaner.referenceTracking": "true",  # it may live for days
    "spark.sql.ui.retainedExecutions": "1",
    "spark.sql.streaming.minBatchesToRetain": "5",
}

Note = Callable[[str, float | None, str], None]  # an event: its name, a value, in words


class Stream:
    def __init__(
        self,
        bootstrap: str,
        topic: str,
        jars: Sequence[Path],
        checkpoint: Path,
        rates: Rates,
        note: Note,
        words: Path | None = None,
    ) -> None:
        """`words`: where Spark's own are kept, as evidence."""
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
        self._words = words
        self._over = threading.Event()
        self._session: Session | None = None
        self.problem: CannotHere | None = None  # why there is no Spark at all

    def run(self) -> None:
        """Until `stop`. In a thread of its own."""
        while not self._over.is_set():
            try:
                self._live()
            except CannotHere as problem:
                if not self._rates.begun:
                    self.problem = problem
                    return
                self._died(problem)
            except Exception as error:  # noqa: BLE001  whatever Spark dies of, the next one goes on
                self._died(error)
            self._over.wait(AGAIN_S)

    def _live(self) -> None:
        """One Spark, and its queries one after the other."""
        with warm("local[2]", extras=self._extras) as session:
            self._session = session
            session.spark.streams.addListener(_Listener(self._rates))
            try:
                while not self._over.is_set():
                    self._query(session)
                    self._over.wait(AGAIN_S)
            finally:
                if self._words is not None:
                    with self._words.open("ab") as kept:
                        kept.write(session.log.read_bytes())

    def _query(self, session: Session) -> None:
        """One query, until it dies; raises where Spark died with it."""
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
        """In one partition, for a second of messages is few: no exchange."""
        second = F.floor(F.unix_millis("timestamp") / 1000).alias("second")
        rows = collected(batch.coalesce(1).groupBy(second).agg(F.count("*").alias("messages")))
        self._rates.count(number, {row["second"]: row["messages"] for row in rows})

    def _died(self, error: BaseException) -> None:
        if not self._over.is_set():
            self._note("query_restarted", None, f"started again from its checkpoint after {first_line(error)}")

    def stop(self) -> None:
        """At once: a query that hangs would not hear."""
        self._over.set()
        if self._session is not None and self._session.jvm is not None:
            with suppress(OSError):
                self._session.jvm.process.kill()


class _Listener(StreamingQueryListener):
    def __init__(self, rates: Rates) -> None:
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
