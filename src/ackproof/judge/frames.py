"""The tables that checks are written against: the journal's own, with an explicit schema, and a few made from them.

A *value* is (producer, seq); a *tp* is topic and partition. Every frame has a column `run`, and every grouping and
every join is by `run` too, so that one job judges many runs. `sends` holds one row for each number that may have
reached the wire: those that the producers reported, and those that they had reserved on disk and did not live to
report, which are `info` and have no times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ackproof.core.sites import placed
from ackproof.judge.fates import arrivals, fates
from ackproof.judge.schemas import (
    AWAITED,
    CLAIMS,
    CONSUMERS,
    COVERS,
    EXITS,
    LIVES,
    MIRRORS,
    MOMENTS,
    NUMBERS,
    PHASES,
    PRODUCERS,
    RECEIVERS,
    RUNS,
    SITES,
    spark_schema,
)
from ackproof.judge.transacted import uncommitted
from ackproof.model.check_conditions import has_transactions
from ackproof.model.journal_tables import TABLES
from ackproof.model.run_record import RunRecord
from ackproof.spark.session import few_rows

VALUE = ("run", "producer", "seq")
POSITION = ("run", "topic", "partition", "offset")
TP = ("run", "topic", "partition")

LINES = {
    "unavailable_ms": 1_000.0,  # a wait for an acknowledgement that a person would call an outage
    "late_ms": 1_000.0,
    "rate_line": 0.0,  # messages a second below which a person should be alerted; none unless the scenario says one
}
READ_COMMITTED = "read_committed"  # the isolation level of a consumer without a setting


Span = tuple[int | None, int | None, int | None]  # of a run's load: its first send, its last send, its last outcome
NO_SPAN: Span = (None, None, None)


@dataclass(frozen=True)
class Layout:
    """The brokers of a run as they were asked for."""

    mode: str
    brokers: tuple[int, ...]
    racks: Mapping[int, str]
    partitions: Mapping[int, int]  # of each planned topic, at the beginning


@dataclass(frozen=True)
class Tables:
    """Everything that a check may look at."""

    sends: DataFrame
    blocks: DataFrame
    reads: DataFrame
    log: DataFrame
    ends: DataFrame
    state: DataFrame
    faults: DataFrame
    probes: DataFrame
    nodes: DataFrame
    groups: DataFrame
    commits: DataFrame
    outbox: DataFrame
    members: DataFrame
    topics: DataFrame
    eligible: DataFrame
    places: DataFrame
    seeks: DataFrame
    transactions: DataFrame
    stable: DataFrame
    received: DataFrame
    costs: DataFrame
    alerts: DataFrame
    oddities: DataFrame
    mirrored: DataFrame
    mirror_ends: DataFrame
    translated: DataFrame
    positions: DataFrame
    lateness: DataFrame
    runs: DataFrame  # run, rate_line, unavailable_ns, late_ns; begin_ns, last_ns (first and last send), end_ns
    producers: DataFrame  # run, producer, topic, acks, rate, outbox, refused, input; its [[producers]] table, threads
    consumers: DataFrame  # run, consumer, group, topic, start, readers, isolation
    receivers: DataFrame  # run, consumer, topic, strategy; copies and drops as the scenario expects them
    moments: DataFrame  # run, place, moment, moment_ns
    phases: DataFrame  # run, phase, after (what began it), from_ns, to_ns
    claims: DataFrame  # run, claim, at, topic, partition, and what is claimed
    covers: DataFrame  # run, fault, from_ns, to_ns: in which rates may dip
    awaited: DataFrame  # run, rule, fault, and by when the alert is to be raised, and cleared; the end of watching
    lives: DataFrame  # run, consumer, gone: when its processes ended
    exits: DataFrame  # run, node, expected: the exit codes expected of a producer
    sites: DataFrame  # run, topic, site
    mirrors: DataFrame  # run, topic, mirror: the topic that a mirror made from it
    layouts: Mapping[int, Layout]  # by run
    arrivals: DataFrame  # one row for each value and tp of the final log: first_offset, last_offset, copies
    fates: DataFrame  # `sends` with `fate`, `copies`, and what stands at the acknowledged offset
    uncommitted: DataFrame | None = None  # the values of transactions not known to be committed, where there are any
    numbers: DataFrame | None = None  # of each producer the first and the last number, where none has a hole between
    small: bool = False  # each table is one partition
    seconds: DataFrame | None = None  # of a large journal what was counted as it was folded: see `sums`
    latencies: DataFrame | None = None
    stretches: DataFrame | None = None  # only where each is whole
    given: DataFrame | None = None  # to each consumer
    produced: DataFrame | None = None  # by each producer
    steps: DataFrame | None = None  # of consumers, other than to the very next offset
    waits: DataFrame | None = None  # for an acknowledgement, longer than the threshold

    def small_side(self, frame: DataFrame) -> DataFrame:
        """The small side of a join. It is always kept whole in memory, however large the other side is."""
        return frame.hint("shuffle_hash" if self.small else "broadcast")

    def reserved(self, values: DataFrame) -> DataFrame:
        """Those of these values that a producer of their run reserved."""
        return self._by_number(values, "left_semi")

    def unreserved(self, values: DataFrame) -> DataFrame:
        """Those of these values that no producer of their run reserved."""
        return self._by_number(values, "left_anti")

    def _by_number(self, values: DataFrame, how: str) -> DataFrame:
        if self.numbers is None:
            return values.join(self.sends.select(*VALUE), on=list(VALUE), how=how)
        own = self.numbers.withColumnsRenamed({"run": "own_run", "producer": "own_producer"})
        within = (F.col("seq") >= F.col("first_seq")) & (F.col("seq") <= F.col("last_seq"))
        same = (F.col("run") == F.col("own_run")) & (F.col("producer") == F.col("own_producer"))
        return values.join(self.small_side(own), on=same & within, how=how)

    def union(self, *frames: DataFrame) -> DataFrame:
        """All rows of frames of the same columns, and still in one partition where each is."""
        return union(self.small, *frames)


def union(small: bool, *frames: DataFrame) -> DataFrame:
    rows = reduce(DataFrame.unionByName, frames)
    return rows.coalesce(1) if small else rows


def read_table(spark: SparkSession, table: str, paths: Sequence[str], small: bool = False) -> DataFrame:
    """A table of the journal, of all runs given; in one partition where it is small."""
    schema = spark_schema(table)
    if not paths:
        return few_rows(spark, [], schema)
    # An option of this read and not of the session, because the session may belong to another program.
    frame = spark.read.option("parquet.page.verify-checksum.enabled", "true").schema(schema).parquet(*paths)
    return frame.coalesce(1) if small else frame


def make_tables(
    spark: SparkSession,
    journal: Mapping[str, DataFrame],
    records: Sequence[RunRecord],
    spans: Mapping[int, Span],
    unreported: DataFrame | None = None,
    compacted: bool = True,
    small: bool = True,
    moments: Sequence[tuple[Any, ...]] = (),
    phases: Sequence[tuple[Any, ...]] = (),
    claims: Sequence[tuple[Any, ...]] = (),
    lives: Sequence[tuple[Any, ...]] = (),
    exits: Sequence[tuple[Any, ...]] = (),
    covers: Sequence[tuple[Any, ...]] = (),
    awaited: Sequence[tuple[Any, ...]] = (),
    numbers: Sequence[tuple[Any, ...]] | None = None,
) -> Tables:
    """`unreported` holds the (run, producer, seq) that were reserved and never reported; null where none were.
    `compacted` says whether any topic is, for the question whether a record rightly vanished costs a join."""
    producers = few_rows(spark, [row for record in records for row in _producers(record)], PRODUCERS)
    sends = journal["sends"]
    if unreported is not None:
        sends = union(small, sends, unreported_sends(unreported, producers))
    arrived = arrivals(journal["log"], small)
    return Tables(
        **{name: journal[name] for name in TABLES if name != "sends"},
        sends=sends,
        small=small,
        numbers=None if numbers is None else few_rows(spark, numbers, NUMBERS),
        runs=few_rows(spark, [run_row(record, spans.get(record.run, NO_SPAN)) for record in records], RUNS),
        producers=producers,
        consumers=few_rows(spark, [row for record in records for row in _consumers(record)], CONSUMERS),
        uncommitted=uncommitted(journal["transactions"]) if any(map(has_transactions, records)) else None,
        moments=few_rows(spark, moments, MOMENTS),
        phases=few_rows(spark, phases, PHASES),
        claims=few_rows(spark, claims, CLAIMS),
        receivers=few_rows(spark, [row for record in records for row in receivers(record)], RECEIVERS),
        layouts={record.run: _layout(record) for record in records},
        exits=few_rows(spark, exits, EXITS),
        lives=few_rows(spark, lives, LIVES),
        covers=few_rows(spark, covers, COVERS),
        awaited=few_rows(spark, awaited, AWAITED),
        sites=few_rows(spark, [row for record in records for row in _sites(record)], SITES),
        mirrors=few_rows(spark, [row for record in records for row in _mirrors(record)], MIRRORS),
        arrivals=arrived,
        fates=fates(sends, journal["log"], journal["ends"], compacted, small),
    )


def looking_closer(
    tables: Tables, sends: DataFrame, log: DataFrame, reads: DataFrame, unreported: DataFrame | None = None
) -> Tables:
    """The same tables with a part of the sends, the log and the reads; of no compacted topic."""
    if unreported is not None:
        sends = tables.union(sends, unreported_sends(unreported.drop("closed"), tables.producers))
    return replace(
        tables,
        sends=sends,
        log=log,
        reads=reads,
        arrivals=arrivals(log, tables.small),
        fates=fates(sends, log, tables.ends, False, tables.small),
    )


def unreported_sends(unreported: DataFrame, producers: DataFrame) -> DataFrame:
    """Reserved numbers that no producer reported: they may have been sent, so their outcome is `info`."""
    topics = producers.select("run", "producer", "topic")
    return (
        unreported.join(F.broadcast(topics), on=["run", "producer"], how="left")
        .withColumn("outcome", F.lit("info"))
        .withColumn("error", F.lit("reserved and never reported"))
        .withColumn("partition", F.lit(-1))
        .select(
            *(
                _column_or_null(field, {*unreported.columns, "topic", "outcome", "error", "partition"})
                for field in spark_schema("sends")
            )
        )
    )


def _column_or_null(field: T.StructField, known: set[str]) -> Any:
    column = F.col(field.name) if field.name in known else F.lit(None)
    return column.cast(field.dataType).alias(field.name)


def _layout(record: RunRecord) -> Layout:
    brokers = tuple(sorted(number for number, name in record.nodes.items() if name.startswith("kafka")))
    racks = record.plan.cluster.racks
    in_rack = {each: racks[(each - 1) % len(racks)] for each in brokers} if racks else {}
    planned = {number: topic.partitions for number, topic in enumerate(record.plan.topics)}
    return Layout(record.mode, brokers, in_rack, planned)


def _sites(record: RunRecord) -> list[tuple[int, int, str]]:
    return [(record.run, number, placed(name)[0]) for number, name in enumerate(record.topics)]


def _mirrors(record: RunRecord) -> list[tuple[int, int, int]]:
    return [(record.run, source, made) for made, source in record.mirrors.items()]


def _producers(record: RunRecord) -> list[tuple[Any, ...]]:
    plans, tables = record.plan.each_producer, [table for table, _ in record.plan.producer_places]
    rows = []
    for p in record.producers:
        known: tuple[Any, ...] = (False, False, None, None, None)
        if p.id < len(plans):
            plan = plans[p.id]
            processed = record.topics.index(plan.transactions.input) if plan.transactions else None
            known = (plan.outbox is not None, plan.refused, processed, tables[p.id], plan.threads)
        rows.append((record.run, p.id, p.topic, p.acks, p.rate, *known))
    return rows


def receivers(record: RunRecord) -> list[tuple[Any, ...]]:
    return [
        (record.run, consumer.id, consumer.topic, plan.receiver.strategy, plan.receiver.copies, plan.receiver.drops)
        for consumer, plan in record.planned_consumers
        if plan.receiver is not None
    ]


def _consumers(record: RunRecord) -> list[tuple[Any, ...]]:
    plans = dict(enumerate(record.plan.each_consumer))
    return [
        (
            record.run,
            c.id,
            c.group,
            c.topic,
            c.start,
            plans[c.id].readers if c.id in plans else None,
            plans[c.id].isolation if c.id in plans else READ_COMMITTED,
        )
        for c in record.consumers
    ]


def run_row(record: RunRecord, span: Span) -> tuple[Any, ...]:
    """Thresholds: ours, unless the scenario has a table `judge` that says otherwise."""
    unavailable = int(line_of(record, "unavailable_ms") * 1e6)
    late = int(line_of(record, "late_ms") * 1e6)
    return (record.run, line_of(record, "rate_line"), unavailable, late, *span)


def line_of(record: RunRecord, name: str) -> float:
    value = getattr(record.plan.judge, name)
    return LINES[name] if value is None else float(value)
