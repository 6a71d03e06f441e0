"""Three judges that share no code, for measures and for checks with time: failover, ack_latency, rate, dips, alerts,
partition_shares, throughput, phases and eligible_leaders.

As in `test_three_judges.py`: random small histories, all in one Spark job for each check. Spark's judge is given
phases, moments, and the times that faults cover and in which alerts are due. The other two judges get the faults and
the plan as they are, and find these out by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from ackproof.judge.frames import Tables
from ackproof.model.checks import CHECKS
from ackproof.model.run_record import Marks
from ackproof.spark.session import few_rows
from tests.support.asking import spark, tables_of
from tests.support.histories import History, at
from tests.support.oracles import reference_measures, sql_measures
from tests.support.oracles.reference import Rows
from tests.support.oracles.three_judges import Answers, Judges, some_of
from tests.support.proving import size

pytestmark = pytest.mark.timeout(size(400, 6 * 3600))  # the first of them judges all histories
HISTORIES = size(300, 20_000)
AT_LARGE = size(20, 300)  # as many are judged as large journals are, too
ASKED_OF = ("sends", "log", "ends", "reads", "state", "faults", "alerts", "eligible")
OF_THE_PLAN = {
    "plan": {
        **dict.fromkeys(("rate_line", "late_ms", "dip_s"), pa.float64()),
        **dict.fromkeys(("load_begun_ns", "load_ended_ns", "healed_ns", "drained_ns"), pa.int64()),
    },
    "planned_faults": {"fault": pa.int32(), "kind": pa.string(), "asked": pa.list_(pa.string())},
    "expected": {
        "rule": pa.string(),
        **dict.fromkeys(("fault", "undone_by"), pa.int32()),
        **dict.fromkeys(("within_s", "clears_within_s"), pa.float64()),
    },
    "members_of": dict.fromkeys(("consumer", "group", "readers"), pa.int32()),
    "tables_of": dict.fromkeys(("producer", "table", "threads"), pa.int32()),
}
GROUP_OF = (0, 0, 1)  # of each consumer
LEADER_OF = (1, 2, 3, 1)  # of each epoch: it has but one
RULES = ("rate", "no-leader", "under-replicated")
LAST = 12_000  # milliseconds, of nearly everything
TOOK = (0, 0.0005, 0.127, 0.128, 1, 63.999999, 64, 255.5, 256.9, 999.999999, 1000, 1000.000001, 1500, 2500, 4000)


def made(run: int) -> History:
    """Few values and few moments, so that everything meets: a second ends as a fault begins, and so on."""
    lots = Random(run)  # noqa: S311 - the same histories every time
    lines: dict[str, tuple[float | None, ...]] = {
        "rate_line": (None, 0, 1, 1, 1.5, 2),
        "late_ms": (None, 0, 1, 64, 1000),
        "dip_s": (None, 0, 0, 0.5, 1, 2),
    }
    history = History(
        run=run,
        topics=("orders", "answers"),
        settings={name: lots.choice(own) for name, own in lines.items()},  # type: ignore[misc]
        producers=lots.choice([[], [{"copies": 1, "threads": 4}, {"copies": 2, "after": 1}]]),
        consumers=[{"readers": lots.choice([None, 1, 2])}] * 2 + [{"readers": lots.choice([None, 0, 1])}],
        marks=_marks(lots),
    )
    _send(history, lots)
    _hold(history, lots)
    _read(history, lots)
    _disturb(history, lots)
    _observe(history, lots)
    _alert(history, lots)
    return history


def _moment(lots: Random, last: int = LAST) -> float:
    return 500.0 * lots.randint(0, last // 500)


def _marks(lots: Random) -> Marks:
    """Where nothing says when the load ended, something says that all was healed."""
    begun, ended, healed, drained = (at(lots.choice(each)) for each in ((0, 1_000), (8_000, LAST), (LAST,), (15_000,)))
    known = lots.random() < 0.9
    return Marks(
        load_begun_ns=begun if lots.random() < 0.9 else None,
        load_ended_ns=ended if known else None,
        healed_ns=healed if not known or lots.random() < 0.5 else None,
        drained_ns=drained if lots.random() < 0.8 else None,
    )


def _send(history: History, lots: Random) -> None:
    many = lots.random() < 0.02
    for producer in range(lots.choice([1, 1, 2, 3, 4])):
        for seq in range(lots.choice([100, 101, 1_000, 1_001]) if many and producer == 0 else lots.randint(0, 7)):
            outcome = lots.choice(["ok", "ok", "ok", "info", "fail"])
            said = outcome == "ok" or lots.random() < 0.5
            sent = _moment(lots)
            history.send(
                seq,
                lots.randint(0, 9) if outcome == "ok" and lots.random() < 0.9 else None,
                producer=producer,
                outcome=outcome,
                topic=lots.choice([0, 0, 0, 1]),
                partition=lots.choice([0, 0, 0, 1]) if said else -1,
                due=sent + lots.choice([0, 0, -0.25, -1_500, 300]),
                sent=sent,
                done=sent + (lots.choice(TOOK) if lots.random() < 0.8 else _moment(lots)),
                never_done=outcome == "info" and lots.random() < 0.5,
            )


def _hold(history: History, lots: Random) -> None:
    for topic, partition in ((0, 0), (0, 1), (1, 0)):
        start = lots.randint(0, 1)
        end = start + lots.randint(0, 7)
        for offset in range(start, end):
            if lots.random() < 0.8:
                epoch = lots.choice([None, 0, 1, 2, 3])
                value = {"seq": lots.randint(0, 7), "producer": lots.choice([0, 0, 1, 2])}
                history.log(offset, topic=topic, partition=partition, epoch=epoch, **value)
        if lots.random() < 0.6:
            history.end(end, topic=topic, partition=partition, log_start=start)


def _read(history: History, lots: Random) -> None:
    """Some members idle, and in some runs all of them do."""
    for consumer in range(lots.choice([0, 1, 2, 3, 3])):
        history.group(0, "assigned", consumer, group=GROUP_OF[consumer])
        for _ in range(lots.choice([0, 0, 1, 2, 8])):
            place = {"topic": lots.choice([0, 0, 1]), "partition": lots.randint(0, 1)}
            when = _moment(lots) - lots.choice([0, 0, 0, 2_000])
            history.read(lots.randint(0, 9), 0, consumer=consumer, group=GROUP_OF[consumer], when=when, **place)


def _disturb(history: History, lots: Random) -> None:
    """Faults one after the other, as far as each got; what lasts may last past the next one."""
    when = _moment(lots, 3_000)
    for _ in range(lots.randint(0, 3)):
        proved = when + lots.choice([0, 500, 1_000])
        healing = proved + lots.choice([0, 500, 2_000, 5_000])
        asked_for: list[tuple[str, float]] = [("asked", when), ("proved", proved)]
        over = ("healed", healing + lots.choice([0, 500]))
        stories: dict[str, list[tuple[str, float]]] = {
            "it never began": [],
            "not proved": [("asked", when), ("not proved", proved)],
            "proved, and nobody knows who asked": [("proved", proved)],
            "it stands": asked_for,
            "not healed": [*asked_for, ("healing", healing), ("not healed", healing + 500)],
            "healed": [*asked_for, ("broken", proved + 250), ("healing", healing), over],
            "healed, and nobody knows who asked": [*asked_for, over],
            "done": [*asked_for, ("healed", proved)],
        }
        story = lots.choice([*stories, "healed", "healed", "done"])
        kind = lots.choice(["isolate", "kill", "pause"] * 4 + ["start", "resize", "seek", "caught-up", "translated"])
        hit = lots.choice(["kafka1", "kafka1", "kafka1", "consumer2"])
        history.fault(*stories[story], kind=kind, asked=lots.choice(["leader:orders/0", "kafka1"]), became=hit)
        for row in [row for row in history.rows["faults"] if row["fault"] == len(history.faults)]:
            row["by"] = None if row["event"] != "healed" else "done" if story == "done" else "the scenario"
            row["targets"] = [] if row["event"] == "asked" else row["targets"]
        when = proved + lots.choice([500, 1_000, 3_000])


def _observe(history: History, lots: Random) -> None:
    pace = lots.choice([250, 500, 1_000])
    for place in range(lots.choice([0, 6, 12, 24])):
        for broker in lots.sample([1, 2, 3], lots.randint(1, 2)):
            epoch = lots.choice([None, 0, 0, 1, 1, 2, 3])
            leads = 1 if epoch is None else LEADER_OF[epoch]  # who knows of no epoch believes in the first broker
            leader = lots.choice([None, -1, 0, leads, leads, leads])
            history.state(
                pace * place,
                broker,
                leader=leader,
                epoch=epoch,
                isr=lots.choice([None, (1, 2), (1, 2, 3), (1, 2, 3)]),
                took=lots.choice([0, 700]),
                partition=lots.choice([0, 0, 0, 1]),
            )
            if lots.random() < 0.1:
                history.rows["state"][-1]["replicas"] = lots.choice([None, [1, 2]])
    for place in range(lots.choice([0, 1, 4])):
        row = {"at_ns": at(_moment(lots) + 0.1 * place), "broker": lots.randint(1, 3)}
        who = {"topic": lots.randint(0, 1), "partition": lots.randint(0, 1)}
        names = {name: lots.choice([[], [], [2], [3, 1]]) for name in ("eligible", "last_known")}
        history.rows["eligible"].append({**row, **who, **names})


def _alert(history: History, lots: Random) -> None:
    """What is raised is cleared before it is raised again, or never."""
    for rule in RULES:
        history.alert(0, rule, "watching")
        when = _moment(lots, 6_000)
        for place in range(lots.choice([0, 1, 2, 2, 3, 4])):
            history.alert(when, rule, "cleared" if place % 2 else "raised")
            if lots.random() < 0.2:
                history.alert(when + 100, rule, lots.choice(["query_restarted", "offset_fell"]))
            when += lots.choice([500, 500, 1_000, 2_000, 4_000])
        for fault in range(1, len(history.faults) + 1):
            if lots.random() < 0.5:
                undone = lots.choice([None, None, *range(fault + 1, len(history.faults) + 1)])
                within, clears = lots.choice([500, 1_000, 3_000]), lots.choice([500, 1_000, 4_000])
                history.expects(rule, fault, within=within, clears=clears, undone_by=undone)


def _planned(history: History) -> Rows:
    """What `run.json` says of it."""
    record, marks = history.record(), history.marks
    copies = [
        (number, plan) for number, plan in enumerate(history.producers, start=1) for _ in range(plan.get("copies", 1))
    ]
    of_producer = {
        number: {"table": table, "threads": plan.get("threads")} for number, (table, plan) in enumerate(copies)
    }
    none = {"table": None, "threads": None}
    return {
        "plan": [
            {
                **{name: history.settings.get(name) for name in ("rate_line", "late_ms", "dip_s")},
                **{
                    name: getattr(marks, name) for name in ("load_begun_ns", "load_ended_ns", "healed_ns", "drained_ns")
                },
            }
        ],
        "planned_faults": [{"fault": each.id, "kind": each.kind, "asked": each.asked} for each in record.faults],
        "expected": history.alerts,
        "members_of": [
            {"consumer": each.id, "group": each.group, **history.consumers[each.id]} for each in record.consumers
        ],
        "tables_of": [{"producer": each.id, **of_producer.get(each.id, none)} for each in record.producers],
    }


COLUMNS = {
    "failover": (
        "fault",
        "kind",
        "topic",
        "partition",
        "proved_ns",
        "old_epoch",
        "new_epoch",
        "first_error_ms",
        "new_epoch_ms",
        "first_ack_ms",
        "isr_full_ms",
    ),
    "ack_latency": ("basis", "sends", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms", "late"),
    "rate": ("second", "at_ns", "sent", "acked", "read", "fault", "below"),
    "dips": ("second", "at_ns", "sent", "acked", "read", "unacked", "fault", "uncovered"),
    "alerts": ("rule", "fault", "result", "raised_ns", "cleared_ns", "after_s", "stood_s", "told", "bad"),
    "partition_shares": ("group", "consumer", "read", "partitions", "share", "reading", "readers", "wrong"),
    "throughput": ("table", "producers", "threads", "acked", "begin_ns", "seconds", "per_second"),
    "phases": ("topic", "phase", "after", "sent", "written", "refused", "unknown", "lost", "settled"),
    "eligible_leaders": ("topic", "partition", "place", "moment", "eligible", "last_known"),
}
Told = Callable[[str, object], None]


class Measuring(Judges):
    def tables_of(self, histories: Sequence[History], small: bool) -> Tables:
        """To every other run belongs a number that was reserved and never reported: it has no time, and counts
        nowhere. (As large, what was never reported is left out before.)"""
        if not small:
            return super().tables_of(histories, small)
        long, integer = T.LongType(), T.IntegerType()
        schema = T.StructType([T.StructField(*each) for each in (("run", long), ("producer", integer), ("seq", long))])
        unreported = few_rows(spark(), [(history.run, 0, 10_000) for history in histories[::2]], schema)
        return tables_of(spark(), *histories, unreported=unreported)


JUDGES = Measuring(
    COLUMNS,
    plain=reference_measures,
    sql=sql_measures,
    made=made,
    journal=ASKED_OF,
    planned=_planned,
    schemas=OF_THE_PLAN,
    histories=HISTORIES,
    at_large=AT_LARGE,
)


@pytest.mark.proves("C3")
@pytest.mark.parametrize("check", COLUMNS)
def test_all_judges_measure_the_same(check: str, record_property: Told) -> None:
    agreed, marked = JUDGES.agreed(check), CHECKS[check].counted_column
    counts = [bool(marked is None or each[COLUMNS[check].index(marked)]) for own in agreed.values() for each in own]
    assert sum(counts) >= HISTORIES // 5, "the histories hardly ever have this: they prove little"
    assert marked or not all(agreed.values()), "each history has it: who finds it always is right"
    assert marked is None or counts.count(False) >= HISTORIES // 10, "each of them counts: the mark proves little"
    assert not _never_seen(check, agreed), "what no history comes to is not compared"
    record_property("figure", f"{HISTORIES:,} histories measured alike by all three, for {len(COLUMNS)} more checks")


@pytest.mark.proves("C3")
@pytest.mark.parametrize("check", some_of(COLUMNS))
def test_what_is_measured_as_large_is_measured_alike(check: str, record_property: Told) -> None:
    JUDGES.assert_agreed_at_large(check)
    record_property("figure", f"{AT_LARGE:,} of them measured alike in the way of large journals")


SEEN: dict[str, dict[str, set[Any]]] = {
    "alerts": {"result": {"hit", "unfinished", "missed", "late", "stuck", "false"}},
    "phases": {"settled": {"lost", "written", "refused", "unavailable"}},
}


def _never_seen(check: str, plain: Answers) -> list[tuple[str, Any]]:
    """Columns that are never known, or never null where they may be; and words that no history comes to."""
    witnesses = [each for own in plain.values() for each in own]
    missing: list[tuple[str, Any]] = []
    for place, name in enumerate(COLUMNS[check]):
        values = {each[place] for each in witnesses}
        missing += [(name, word) for word in SEEN.get(check, {}).get(name, set()) - values]
        missing += [(name, "two values")] if len(values) < 2 else []
        missing += [(name, None)] if name.endswith("_ms") and check == "failover" and None not in values else []
    return missing
