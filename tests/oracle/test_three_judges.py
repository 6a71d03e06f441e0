"""Three judges that share no code: Spark's, one in plain Python and one in DuckDB's SQL. Random small histories, all of
them in one Spark job for each check, and every witness of each judge must be a witness of the others. Some are judged
by Spark once more, in the way that it has for large journals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from ackproof.judge.fates import FATES
from ackproof.judge.frames import Tables
from ackproof.judge.sequence_audit import producers_of, unreported
from ackproof.model.checks import CHECKS
from tests.support.asking import spark, tables_of
from tests.support.histories import FIRST_RUN, History
from tests.support.oracles import reference, sql_judge
from tests.support.oracles.reference import Rows
from tests.support.oracles.three_judges import Judges, some_of
from tests.support.proving import size

pytestmark = pytest.mark.timeout(size(400, 6 * 3600))  # the first of them judges all histories
HISTORIES = size(1_000, 20_000)
AT_LARGE = size(40, 1_000)  # as many are judged as large journals are, too
ASKED_OF = (
    "sends",
    "blocks",
    "log",
    "ends",
    "reads",
    "groups",
    "commits",
    "state",
    "nodes",
    "transactions",
    "stable",
)
GROUP_OF = (0, 0, 1)  # of each consumer
PLACES = ((0, 0), (0, 1), (1, 0), (1, 1))  # topic and partition: numbers that mean something else in the other topic


def made(run: int) -> History:
    """Few values, few offsets, few moments, so that everything collides with everything."""
    lots = Random(run)  # noqa: S311 - the same histories every time
    history = History(
        run=run,
        topics=("orders", "payments"),
        starts=lots.choice(["earliest", "latest"]),
        producers=[{"transactions": {"input": "orders"}}],
        consumers=[{"isolation": lots.choice(["read_committed", "read_uncommitted"])} for _ in GROUP_OF],
    )
    _send(history, lots)
    if run >= FIRST_RUN + AT_LARGE and run % 4 == 0:
        _die(history, Random(-run))  # noqa: S311
    _hold(history, lots)
    _read(history, lots)
    _own(history, lots)
    _observe(history, lots)
    if lots.random() < 0.7:
        _transact(history, lots)
        _hold_up(history, lots)
    return history


def _moment(lots: Random) -> float:
    return 400.0 * lots.randint(0, 12)


def _topic(lots: Random) -> int:
    return lots.choice([0, 0, 0, 0, 1])


def _send(history: History, lots: Random) -> None:
    for producer in range(lots.randint(1, 2)):
        for seq in range(lots.randint(0, 5)):
            outcome = lots.choice(["ok", "ok", "ok", "info", "fail"])
            said = outcome == "ok" or lots.random() < 0.5
            sent = _moment(lots)
            history.send(
                seq,
                lots.randint(0, 6) if outcome == "ok" and lots.random() < 0.9 else None,
                producer=producer,
                outcome=outcome,
                topic=_topic(lots),
                partition=lots.choice([0, 0, 0, 1]) if said else -1,
                key=lots.choice([None, None, 0, 1]),
                sent=sent,
                done=sent + _moment(lots),
                never_done=outcome == "info" and lots.random() < 0.5,
            )


def _die(history: History, lots: Random) -> None:
    """A producer that never closed its last block, and of its numbers did not report all; the other lived."""
    dead = lots.randint(0, 1)
    for producer in range(2):
        sent = sum(row["producer"] == producer for row in history.rows["sends"])
        closed = lots.randint(0, sent) if producer == dead else sent
        if closed:
            history.block(0, closed, closed, producer=producer)
        if producer == dead:
            history.block(closed, sent - closed + lots.randint(1, 3), producer=producer)
            history.rows["sends"] = [
                row
                for row in history.rows["sends"]
                if row["producer"] != producer or row["seq"] < closed or lots.random() < 0.7
            ]


def _hold(history: History, lots: Random) -> None:
    for topic, partition in PLACES:
        if topic == 1 and lots.random() < 0.8:
            continue
        start = lots.randint(0, 2)
        end = start + lots.randint(0, 5)
        for offset in range(start, end):
            if lots.random() < 0.8:
                history.log(
                    offset,
                    lots.randint(0, 5),
                    producer=lots.randint(0, 1),
                    topic=topic,
                    partition=partition,
                    epoch=lots.choice([None, 0, 0, 1, 1, 2]),
                )
        if partition == 0 or lots.random() < 0.5:
            kind = lots.choice(["plain", "plain", "compacted", "transactional"])
            history.end(
                end,
                topic=topic,
                partition=partition,
                log_start=start,
                epoch=lots.choice([None, 1, 2]),
                compacted=kind == "compacted",
                transactional=kind == "transactional",
            )


def _read(history: History, lots: Random) -> None:
    """Some of it stands in the log, most of it does not."""
    held = history.rows["log"]
    for _ in range(lots.randint(0, 7)):
        consumer = lots.randint(0, 2)
        by = {"consumer": consumer, "group": GROUP_OF[consumer], "assignment": lots.randint(1, 2)}
        if held and lots.random() < 0.35:
            stands = lots.choice(held)
            history.read(**{name: stands[name] for name in ("offset", "seq", "producer", "topic", "partition")}, **by)
            continue
        history.read(
            lots.randint(0, 6),
            lots.randint(0, 5),
            producer=lots.choice([0, 0, 0, 1]),
            topic=_topic(lots),
            partition=lots.choice([0, 0, 0, 1]),
            **by,
        )
    for place in range(lots.randint(0, 4)):
        consumer, outcome = lots.choice([0, 0, 1, 2]), lots.choice(["ok", "ok", "fail"])
        history.commit(
            100 * place,
            lots.randint(0, 4),
            consumer=consumer,
            group=GROUP_OF[consumer],
            topic=_topic(lots),
            partition=lots.choice([0, 0, 0, 1]),
            outcome=outcome,
        )


def _own(history: History, lots: Random) -> None:
    """Partitions are given and given back, some at the very moment at which another consumer is given them."""
    when, consumer, at_once = _moment(lots) - 2_000, 0, False
    for _ in range(lots.randint(0, 9)):
        consumer = (consumer + lots.randint(1, 2)) % 3 if at_once else lots.randint(0, 2)
        event = lots.choice(["assigned", "assigned", "assigned", "revoked", "lost", "gone"])
        if event == "gone":
            history.gone(when, consumer)
        else:
            history.group(
                when,
                event,
                consumer,
                group=GROUP_OF[consumer],
                topic=_topic(lots),
                partition=lots.choice([0, 0, 1]),
                position=lots.choice([None, 0, 1, 3]),
            )
        at_once = event != "assigned" and not at_once and lots.random() < 0.4
        when += 0 if at_once else lots.choice([100, 400, 1_000, 1_001, 1_600])


def _observe(history: History, lots: Random) -> None:
    pace = lots.choice([100, 100, 400])
    for place in range(lots.choice([0, 8, 12, 16])):
        broker = lots.randint(1, 2)
        topic, partition = lots.choice([(0, 0)] * 14 + [(0, 1), (1, 0)])
        error = lots.choice([None, None, None, None, "REQUEST_TIMED_OUT"])
        history.state(
            pace * place,
            broker,
            leader=lots.choice([None, 3 - broker, broker, broker, broker]) if error is None else None,
            epoch=lots.choice([None, 0, 1, 1, 2]) if error is None else None,
            high_watermark=lots.choice([None, 2, 3, 5]) if error is None else None,
            took=lots.choice([0, 0, 50, 250]),
            topic=topic,
            partition=partition,
            error=error,
        )


def _transact(history: History, lots: Random) -> None:
    """Messages in transactions of three numbers, of which some are not used; each ends in one way, or in none."""
    for producer in range(2):
        for number in range(1, lots.randint(0, 3) + 1):
            first, timeout = 3 * (number - 1), lots.choice([1_000, 1_000, 2_000])
            begun = lots.randint(0, 3)
            asked = begun + lots.randint(1, 3)
            ends = {
                "committed": [("committing", asked), ("committed", asked + 1)],
                "aborted": [("aborting", asked), ("aborted", asked + 1)],
                "aborted in vain": [("committing", asked), ("aborted", asked + 1)],
                "unknown": [("committing", asked), ("aborting", asked + 1), ("unknown", asked + 2)],
                "asked": [("committing", asked)],
                "begun": [],
            }
            told = ends[lots.choice([*ends])]
            used = first + lots.randint(-1, 2)
            history.transaction(number, first, first + 2, ("begun", begun), producer=producer, timeout=timeout)
            history.transaction(number, first, used, *told, producer=producer, timeout=timeout)


def _hold_up(history: History, lots: Random) -> None:
    """How far readers of committed messages may read: as far as the high watermark, or as it was, or a step further.
    Now and then it falls back, where another leader knows of less, and may come to where it had stood before."""
    for topic, partition in PLACES:
        when, stable = 0, lots.randint(0, 3)
        end = stable + lots.randint(0, 2)
        for _ in range(lots.randint(0, 5)):
            history.stable(when, stable, end, broker=lots.randint(1, 2), topic=topic, partition=partition)
            when += lots.choice([500, 5_000, 6_000, 11_000, 11_001, 12_000, 12_001])
            end += lots.choice([0, 0, 1])
            stable = lots.choice([stable, stable, stable, stable, min(stable + 1, end), end, max(stable - 1, 0)])
            end = lots.choice([end, end, end, end, stable])


def members(history: History) -> Rows:
    """The groups that read it and the topics that are written, which are a matter of `run.json`."""
    return {
        "writers": [{"producer": p.id, "topic": p.topic} for p in history.record().producers],
        "members_of": [
            {
                "consumer": c.id,
                "name": c.name,
                "group": c.group,
                "topic": c.topic,
                "start": c.start,
                "isolation": history.consumers[c.id]["isolation"],
            }
            for c in history.record().consumers
        ],
    }


READ = ("consumer", "read_ns", "topic", "partition", "offset", "producer", "seq")
COLUMNS = {
    "lost": ("producer", "seq", "fate"),
    "duplicated": ("producer", "seq", "copies"),
    "reordered": ("topic", "partition", "producer", "seq"),
    "inconsistent_offset": ("topic", "partition", "offset"),
    "unstable_read": READ,
    "phantom": ("by", "topic", "partition", "offset", "producer", "seq"),
    "aborted_read": READ,
    "resurrected": ("producer", "seq", "copies"),
    "offset_gap": ("topic", "partition", "first_missing", "missing"),
    "realtime_order": ("producer", "seq", "acked_before"),
    "poll_skip": ("consumer", "poll", "skipped"),
    "nonmonotonic_poll": ("consumer", "poll"),
    "dual_leader": (
        "topic",
        "partition",
        "from_ns",
        "to_ns",
        "one_broker",
        "one_epoch",
        "other_broker",
        "other_epoch",
    ),
    "watermark_regression": ("topic", "partition", "leader_epoch", "before", "after"),
    "unavailable": ("topic", "partition", "from_ns", "to_ns"),
    "undelivered": ("group", "topic", "partition", "offset", "producer", "seq"),
    "delivered_twice": ("group", "topic", "partition", "offset", "times", "consumers"),
    "commit_regression": ("group", "topic", "partition", "consumer", "at_ns", "highest", "offset"),
    "stale_leader_ack": ("producer", "seq", "fate", "older_than", "seen_ns"),
    "dual_ownership": ("group", "topic", "partition", "one_consumer", "other_consumer", "from_ns", "to_ns"),
    "ownership_gap": ("group", "topic", "partition", "from_ns", "to_ns"),
    "rebalances": ("group", "rebalances", "unowned_partition_s", "disturbed"),
    "torn_transaction": ("producer", "transaction", "topic", "outcome", "in_log", "missing", "first_missing"),
    "uncommitted_read": (*READ, "transaction", "outcome", "commit_asked_ns"),
    "hanging_transaction": (
        "topic",
        "partition",
        "last_stable",
        "producer",
        "transaction",
        "from_ns",
        "to_ns",
        "ms",
        "limit_ms",
    ),
    "fates": ("producer", "seq", "fate"),
}
Told = Callable[[str, object], None]


class OfAnyRun(Judges):
    def tables_of(self, histories: Sequence[History], small: bool) -> Tables:
        """As large, without a join where no producer's numbers have a hole, and none of these has one."""
        plain = super().tables_of(histories, small=True)
        if small:
            odd = unreported(plain.sends, plain.blocks, plain.blocks.select("run", "producer").distinct())
            return tables_of(spark(), *histories, unreported=odd.drop("closed").cache())
        producers = producers_of(plain.sends, plain.blocks)
        assert all(each.unbroken for each in producers)
        numbers = [(each.run, each.producer, each.first_seq, each.last_seq) for each in producers]
        return tables_of(spark(small=False), *histories, small=False, numbers=numbers)

    def question(self, check: str, tables: Tables) -> DataFrame:
        return tables.fates if check == "fates" else super().question(check, tables)


JUDGES = OfAnyRun(
    COLUMNS,
    plain=reference,
    sql=sql_judge,
    made=made,
    journal=ASKED_OF,
    planned=members,
    schemas={
        "writers": {"producer": pa.int32(), "topic": pa.int32()},
        "members_of": {
            **dict.fromkeys(("consumer", "group", "topic"), pa.int32()),
            **dict.fromkeys(("name", "start", "isolation"), pa.string()),
        },
    },
    histories=HISTORIES,
    at_large=AT_LARGE,
)


@pytest.mark.proves("C3")
@pytest.mark.parametrize("check", [name for name in COLUMNS if name != "fates"])
def test_all_judges_find_the_same(check: str, record_property: Told) -> None:
    hits = JUDGES.hits(check, JUDGES.agreed(check))
    assert len(hits) >= HISTORIES // 20, "the histories hardly ever have this anomaly: they prove little"
    asked = {run for run, own in JUDGES.rows.items() if all(own[table] for table in CHECKS[check].needs)}
    assert len(asked - hits) >= HISTORIES // 40, "the histories hardly ever lack this anomaly: they prove little"
    told = f"{HISTORIES:,} histories judged alike by all three, for {len(COLUMNS) - 1} checks and fates"
    record_property("figure", told)


@pytest.mark.proves("C3")
def test_last_stable_offsets_fall_back_and_stand_again_where_they_stood() -> None:
    again = 0
    for own in JUDGES.rows.values():
        for place in PLACES:
            stood = [row["last_stable"] for row in own["stable"] if (row["topic"], row["partition"]) == place]
            turns = [after for before, after in pairwise([None, *stood]) if before != after]
            again += len(turns) > len(set(turns))
    assert again >= HISTORIES // 40, "the histories hardly ever have this: they prove little"


@pytest.mark.proves("C3")
def test_all_judges_give_every_send_the_same_fate_and_only_one() -> None:
    agreed = JUDGES.agreed("fates")
    sends = Counter({run: len(own["sends"]) + len(reference.unreported(own)) for run, own in JUDGES.rows.items()})
    assert Counter({run: own.total() for run, own in agreed.items()}) == sends
    assert {fate for own in agreed.values() for _, _, fate in own} == set(FATES)


@pytest.mark.proves("C3")
def test_producers_die_and_some_of_what_they_reserved_stands_in_the_log() -> None:
    agreed = JUDGES.agreed("fates")
    dead = {run: lost for run, own in JUDGES.rows.items() if (lost := reference.unreported(own))}
    told = [{fate for *who, fate in agreed[run] if tuple(who) in lost} for run, lost in dead.items()]
    for fate in ("recovered", "not_written"):
        assert sum(fate in own for own in told) >= HISTORIES // 20, "the histories hardly ever have this"


@pytest.mark.proves("C3")
@pytest.mark.parametrize("check", some_of(COLUMNS))
def test_what_is_judged_as_large_is_judged_alike(check: str, record_property: Told) -> None:
    JUDGES.assert_agreed_at_large(check)
    record_property("figure", f"{AT_LARGE:,} of them judged alike in the way of large journals")
