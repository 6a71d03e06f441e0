"""The final log straight from Kafka: Spark's own connector reads it, where a copy would be too big to be drained.

Only read: offsets, descriptions and records are asked for; no group is joined and nothing is committed. The settings
that the cluster wants (security, for the most part) are handed on to Kafka's Java client and kept nowhere.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from ackproof.core.errors import CannotHere
from ackproof.core.redaction import redacted
from ackproof.judge.engine.parts import Pace, SoFar
from ackproof.judge.run_source import Source
from ackproof.judge.schemas import spark_schema
from ackproof.model.journal_tables import TABLES
from ackproof.model.message import MAGIC, MESSAGE
from ackproof.model.run_record import RunRecord
from ackproof.model.verdict import Fitness
from ackproof.spark.session import Session, first_line

RECORDS_A_TASK = 4_000_000
ROW_GROUP = 16 * 2**20
STILL_S = 3.0  # a follower that lives asks its leader twice a second
SETTLE_S = 30.0
FOLLOW_S = 1.0
PATIENCE = {"request.timeout.ms": "10000", "default.api.timeout.ms": "20000"}
# By default a consumer that asks for a topic may make it, and clients report figures of their own.
READ_ONLY = {"allow.auto.create.topics": "false", "enable.metrics.push": "false"}
HINTS = {
    "AuthorizationException": "the user who reads needs Describe, DescribeConfigs and Read on the topics",
    "TimeoutException": "no broker answers there: is the address right, and does it want a login (--kafka-settings)?",
    "ConfigException": "mend it in the file that --kafka-settings names",
    "IllegalSaslStateException": "the cluster wants no login there: leave it out of the settings, or use another port",
}
TEXT_VALUE = r"^([1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,17})$"  # of foreign producers, counted from 1

APART_MS = 60_000  # by which clocks may differ

Ends = list[dict[str, Any]]
Times = tuple[int, int] | None  # in milliseconds since 1970


@dataclass(frozen=True)
class Kafka:
    """A cluster that is not ours."""

    bootstrap: str
    settings: Mapping[str, str]

    def all_settings(self) -> dict[str, str]:
        return {**PATIENCE, **self.settings, **READ_ONLY, "bootstrap.servers": self.bootstrap}

    def hide(self, text: str) -> str:
        return redacted(text, self.settings)


def with_log_of(
    session: Session, source: Source, kafka: Kafka, folder: Path, say: Callable[[str], None], so_far: SoFar
) -> Source:
    """The run with the log that the cluster holds now, in place of a copy of it."""
    if session.connected:
        raise CannotHere("a log cannot be read from Kafka through Spark Connect; give a Spark master")
    names = dict(enumerate(source.record.topics))
    if source.record.mirrors:
        raise CannotHere("a run with a mirror has two clusters; its log cannot be read from one of them")
    say(f"asking {kafka.bootstrap} how far the log goes")
    try:
        with _asking(session, kafka, names, source) as look:
            ends = settled(look)
            say(f"reading {_span(ends):,} records of {_partitions(ends)} from {kafka.bootstrap}")
            with _followed(session, Pace(so_far, "records read"), _span(ends)):
                times = _read(session, kafka, names, ends, source, folder / "log")
            ends = looked_at_again(ends, look())
    except Exception as error:  # noqa: BLE001  whatever Java or Spark say, without what the settings hold
        why = first_line(error, kafka.hide)
        more = [hint for word, hint in HINTS.items() if word in why]
        raise CannotHere(f"the log could not be read from {kafka.bootstrap}:", [why, *more]) from None
    (folder / "ends").mkdir()
    path = folder / "ends" / "kafka.parquet"
    pq.write_table(pa.Table.from_pylist(ends, TABLES["ends"].schema), path)
    log = tuple(sorted((folder / "log").glob("*.parquet")))
    rows = sum(pq.read_metadata(each).num_rows for each in log)
    words = f"The log was read from Kafka itself: {rows:,} records of {_partitions(ends)}."
    others = tuple(remark for remark in source.remarks if not is_about_the_copy(remark))
    return replace(
        source,
        files={**source.files, "log": log, "ends": (path,)},
        rows={**source.rows, "log": rows, "ends": len(ends)},
        remarks=(*others, Fitness("journal", True, words), *of_another_time(source.record, times)),
        small={**source.small, "ends": ends},
        has_epochs=False,
    )


def of_another_time(record: RunRecord, times: Times) -> list[Fitness]:
    """Nothing in a message tells another run of the same scenario from this one; when it was written does, by a clock
    that may have been set meanwhile: by how much is known where both clocks were read at the run's end."""
    if times is None:
        return []
    began, ended = record.began, record.ended_at
    if ended is None:
        words = "When the log's records were written says nothing: whether the wall clock was set is not known."
        return [Fitness("journal", True, words)]
    set_ns = (ended.wall_ns - began.wall_ns) - (ended.monotonic_ns - began.monotonic_ns)
    apart_ms = APART_MS + abs(set_ns) // 10**6
    began_ms, ended_ms = began.wall_ns // 10**6, ended.wall_ns // 10**6
    if began_ms - apart_ms <= times[0] and times[1] <= ended_ms + apart_ms:
        return []
    overlaps = began_ms - apart_ms <= times[1] and times[0] <= ended_ms + apart_ms
    what = "not all of them are its own" if overlaps else "it is not its log"
    told = (f"{datetime.fromtimestamp(ms // 1000, UTC):%F %T}" for ms in (*times, began_ms, ended_ms))
    words = "The log's records were written from {} to {}, and the run went from {} to {} UTC: "
    return [Fitness("journal", False, f"{words.format(*told)}{what}.")]


def _partitions(ends: Ends) -> str:
    return "1 partition" if len(ends) == 1 else f"{len(ends):,} partitions"


def is_about_the_copy(remark: Fitness) -> bool:
    return any(remark.text.startswith(f"{table}/") or f"`{table}`" in remark.text for table in ("log", "ends"))


def _span(ends: Ends) -> int:
    return sum(end["high_watermark"] - end["log_start"] for end in ends)


def settled(look: Callable[[], Ends], still_s: float = STILL_S, patience_s: float = SETTLE_S) -> Ends:
    """Every partition once it stands still with every replica in sync, which is when its log ends at its high watermark
    (Kafka tells clients no other end); `log_end` is null where time ran out before."""
    begun = time.monotonic()
    since: dict[tuple[int, int], tuple[Any, float]] = {}
    while True:
        found, now = look(), time.monotonic()
        for end in found:
            place, state = (end["topic"], end["partition"]), (end["high_watermark"], end["leader"], end["isr"])
            if place not in since or since[place][0] != state:
                since[place] = state, now
            if now - since[place][1] >= still_s and {*end["replicas"]} <= {*end["isr"]}:
                end["log_end"] = end["high_watermark"]
        if all(end["log_end"] is not None for end in found) or now - begun > patience_s:
            return found
        time.sleep(still_s / 4)


def looked_at_again(read: Ends, after: Ends) -> Ends:
    """What was read, beside what the cluster says afterwards: a log that moved meanwhile does not end where it did."""
    later = {(end["topic"], end["partition"]): end for end in after}
    told = []
    for end in read:
        now = later[end["topic"], end["partition"]]
        moved = now["high_watermark"] != end["high_watermark"]
        told.append({**end, "high_watermark": now["high_watermark"], "log_end": None if moved else end["log_end"]})
    return told


@contextmanager
def _asking(session: Session, kafka: Kafka, names: Mapping[int, str], source: Source) -> Iterator[Callable[[], Ends]]:
    """A way to ask the cluster for every partition, again and again."""
    java: Any = session.spark.sparkContext._jvm
    settings = java.java.util.HashMap()
    for name, value in kafka.all_settings().items():
        settings.put(name, value)
    admin = java.org.apache.kafka.clients.admin.Admin.create(settings)
    try:
        configs = {number: _config(java, admin, topic) for number, topic in names.items()}
        yield lambda: _ends(java, admin, names, configs, source)
    finally:
        admin.close()


def _ends(java: Any, admin: Any, names: Mapping[int, str], configs: Mapping[int, Any], source: Source) -> Ends:
    """Every partition as its cluster tells it."""
    told = admin.describeTopics(list_of(java, names.values())).allTopicNames().get()
    partitions = [(number, each) for number, topic in names.items() for each in told.get(topic).partitions()]
    places = [(names[number], each.partition()) for number, each in partitions]
    starts, marks = (_offsets_of(java, admin, places, which) for which in ("earliest", "latest"))
    transactional = _transactional(source)
    return [
        {
            "run": source.record.run,
            "topic": number,
            "partition": each.partition(),
            "log_start": start,
            "high_watermark": mark,
            "log_end": None,
            "read_to": mark,
            "leader": None if each.leader() is None else each.leader().id(),
            "leader_epoch": None,
            "replicas": [replica.id() for replica in each.replicas()],
            "isr": [replica.id() for replica in each.isr()],
            "min_isr": int(configs[number]("min.insync.replicas")),
            "compacted": "compact" in configs[number]("cleanup.policy"),
            "transactional": number in transactional,
            "at_ns": source.record.ended_at.monotonic_ns if source.record.ended_at else 0,
        }
        for (number, each), start, mark in zip(partitions, starts, marks, strict=True)
    ]


def list_of(java: Any, values: Iterable[str]) -> Any:
    made = java.java.util.ArrayList()
    for value in values:
        made.add(value)
    return made


def _offsets_of(java: Any, admin: Any, places: Sequence[tuple[str, int]], which: str) -> list[int]:
    asked = java.java.util.HashMap()
    partitions = [java.org.apache.kafka.common.TopicPartition(*place) for place in places]
    for partition in partitions:
        asked.put(partition, getattr(java.org.apache.kafka.clients.admin.OffsetSpec, which)())
    answers = admin.listOffsets(asked)
    return [int(answers.partitionResult(partition).get().offset()) for partition in partitions]


def _config(java: Any, admin: Any, topic: str) -> Any:
    kinds = getattr(java.org.apache.kafka.common.config, "ConfigResource$Type")
    resource = java.org.apache.kafka.common.config.ConfigResource(kinds.TOPIC, topic)
    asked = java.java.util.ArrayList()
    asked.add(resource)
    found = admin.describeConfigs(asked).all().get().get(resource)
    return lambda name: str(found.get(name).value())


def _transactional(source: Source) -> set[int]:
    return {source.record.topics.index(topic) for topic in source.record.plan.transactional}


@contextmanager
def _followed(session: Session, pace: Pace, records: int) -> Iterator[None]:
    """Word of how far Spark is, as far as one can tell from the parts that are done."""
    tracker, over = session.spark.sparkContext.statusTracker(), Event()

    def follow() -> None:
        while not over.wait(FOLLOW_S):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            for stage in filter(None, stages):
                pace(records * stage.numCompletedTasks // stage.numTasks, records)

    following = Thread(target=follow, daemon=True)
    following.start()
    try:
        yield
    finally:
        over.set()
        following.join()


def _read(session: Session, kafka: Kafka, names: Mapping[int, str], ends: Ends, source: Source, into: Path) -> Times:
    """Each partition from its start to its end, by Spark's workers, into files like those of a journal; and when the
    first and the last record was written."""
    first, last = (_offsets(names, ends, column) for column in ("log_start", "high_watermark"))
    options = {f"kafka.{name}": value for name, value in kafka.all_settings().items()}
    options |= {
        "assign": json.dumps({topic: sorted(map(int, own)) for topic, own in first.items()}),
        "startingOffsets": json.dumps(first),
        "endingOffsets": json.dumps(last),
        "failOnDataLoss": "true",
        "kafka.isolation.level": "read_committed",
        "minPartitions": str(1 + _span(ends) // RECORDS_A_TASK),
    }
    written, when = Observation(), F.unix_millis("timestamp")
    records = session.spark.read.format("kafka").options(**options).load()
    records = records.observe(written, F.min(when).alias("first"), F.max(when).alias("last"))
    foreign = [producer.id for producer in source.record.producers if _is_foreign(source, producer.id)]
    rows = parsed(records, source.record.run, {topic: number for number, topic in names.items()}, foreign)
    rows.write.option("parquet.block.size", str(ROW_GROUP)).parquet(str(into))
    first, last = written.get["first"], written.get["last"]
    return None if first is None else (first, last)


def _is_foreign(source: Source, producer: int) -> bool:
    plans = source.record.plan.each_producer
    return producer < len(plans) and bool(plans[producer].command)


def _offsets(names: Mapping[int, str], ends: Ends, column: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for end in ends:
        found.setdefault(names[end["topic"]], {})[str(end["partition"])] = end[column]
    return found


def parsed(records: DataFrame, run: int, topics: Mapping[str, int], foreign: Sequence[int]) -> DataFrame:
    """Records of Kafka as rows of the journal's log: the same as `unpack` reads in them, in Spark's own functions."""
    ours = (F.length("value") >= MESSAGE.size) & (F.substring("value", 1, len(MAGIC)) == F.lit(bytearray(MAGIC)))
    text = F.col("value").cast("string")
    theirs = ~ours & text.rlike(TEXT_VALUE) & (_number(text, 1) - 1).isin(list(foreign))
    known = F.create_map(*(F.lit(part) for topic in topics.items() for part in topic))
    made = {
        "run": F.lit(run),
        "topic": known[F.col("topic")],
        "partition": F.col("partition"),
        "offset": F.col("offset"),
        "leader_epoch": F.lit(None),
        "producer": F.when(ours, _bytes(5, 4)).when(theirs, _number(text, 1) - 1).otherwise(-1),
        "seq": F.when(ours, _bytes(9, 8)).when(theirs, _number(text, 2)).otherwise(-1),
        "digest": F.lit(None),
    }
    return records.select(*(made[field.name].cast(field.dataType).alias(field.name) for field in spark_schema("log")))


def _bytes(first: int, count: int) -> Column:
    """So many bytes of the value as a number."""
    return F.conv(F.hex(F.substring("value", first, count)), 16, 10).cast("long")


def _number(text: Column, which: int) -> Column:
    return F.regexp_extract(text, TEXT_VALUE, which).try_cast("long")
