"""Three judges that share no code, about what a scenario plans: keys, seeks, directories, members, outboxes, exit
codes, refusals, inputs, claims and replicas. As in `test_three_judges`, with random histories of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from ackproof.judge.replica_placement import documented
from ackproof.model.run_record import FaultRecord, Marks, ProducerRecord, RunRecord
from tests.support.histories import History, at
from tests.support.oracles import reference_plans, sql_plans
from tests.support.oracles.reference import Rows
from tests.support.oracles.three_judges import Judges, some_of
from tests.support.proving import size

pytestmark = pytest.mark.timeout(size(400, 6 * 3600))  # the first of them judges all histories
HISTORIES = size(300, 20_000)
AT_LARGE = size(40, 500)  # as many are judged as large journals are, too

ORDERS, ANSWERS, MIRROR = range(3)
TOPICS = ("orders", "answers", "dc2:orders")
NOT_ALLOWED = ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")
ERRORS = (None, *NOT_ALLOWED, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "MSG_SIZE_TOO_LARGE")
CLAIMS = ("leader", "not_leader", "isr", "isr_without", "isr_full", "preferred", "no_leader", "same_leader_as", "acked")
GROUP_OF = (0, 0, 1)  # of each consumer
JOURNAL = ("sends", "log", "ends", "mirror_ends", "reads", "nodes", "members", "places", "seeks", "state", "faults")


@dataclass
class Planned(History):
    """A history with as many brokers as it likes; its producers are those of its plan, whether they sent or not."""

    brokers: int = 3

    def record(self, name: str = "a-run") -> RunRecord:
        nodes = {number: f"kafka{number}" for number in range(1, self.brokers + 1)}
        producers = [
            ProducerRecord(row["producer"], row["name"], row["topic"], "1", 100, None)
            for row in self.planned_producers()
        ]
        return replace(super().record(name), nodes=nodes, producers=producers)

    def planned_producers(self) -> list[dict[str, Any]]:
        each = [plan for plan in self.producers for _ in range(plan["copies"])]
        return [
            {
                "producer": number,
                "name": f"producer{number + 1}",
                "topic": TOPICS.index(plan["topic"]),
                "outbox": bool(plan.get("outbox")),
                "refused": bool(plan.get("refused")),
                "input": (plan.get("transactions") or {}).get("input"),
                "exits": plan.get("exits", []),
            }
            for number, plan in enumerate(each)
        ]


def made(run: int) -> Planned:
    """Few values, few offsets, few moments, so that everything collides with everything."""
    lots = Random(run)  # noqa: S311 - the same histories every time
    history = Planned(
        run=run,
        topics=TOPICS,
        brokers=lots.randint(2, 5),
        planned=lots.choice([None, 1, 3, 6]),
        mode=lots.choice(["zookeeper", "zookeeper", "kraft"]),
        racks=lots.choice([[], ["a"], ["a", "b"], ["b", "a", "b"], ["c", "a", "b"]]),
        producers=_producers(lots),
        own_blocks=True,
    )
    _send(history, lots)
    _answer(history, lots)
    _read(history, lots)
    _exit(history, lots)
    _hear_of_members(history, lots)
    _fill_directories(history, lots)
    _seek(history, lots)
    _place(history, lots)
    _disturb(history, lots)
    _lead(history, lots)
    _claim(history, lots)
    for rows in history.rows.values():
        lots.shuffle(rows)
    return history


def _producers(lots: Random) -> list[dict[str, Any]]:
    """The first two write orders, as one table or as two; the others answer them."""
    plain: dict[str, Any] = {"topic": "orders", "copies": lots.choice([1, 2])}
    several = [plain] if plain["copies"] == 2 else [plain, {**plain}]
    for plan in several:
        plan["outbox"] = lots.choice([None, {"give_up_after": 3}])
        plan["refused"] = lots.random() < 0.5
    answering = {"topic": "answers", "copies": 1, "transactions": {"input": "orders"}}
    processors = [{**answering, "transactions": lots.choice([None, {"input": "orders"}])}, {**answering}]
    for plan in (*several, *processors):
        plan["exits"] = lots.choice([[], [0], [75, 0], [0, 75]])
    return [*several, *processors[: lots.randint(1, 2)]]


def _send(history: Planned, lots: Random) -> None:
    """Orders, and what the log holds of them: some twice, some of no producer, some unreadable."""
    held = [[lots.randint(0, 2)] * 2, [0] * 2]  # of each partition, where it begins and where it ends so far
    for producer in (0, 1):
        refused = history.planned_producers()[producer]["refused"]
        for seq in range(lots.randint(0, 4)):
            outcome = lots.choice(["fail"] * 6 + ["info", "ok"] if refused else ["ok", "ok", "ok", "info", "fail"])
            error = lots.choice(NOT_ALLOWED * 4 + ERRORS) if outcome != "ok" else None
            partition, offset = lots.choice([0, 0, 1]), lots.choice([None, 0, 1, 2, 3, 7])
            if lots.random() < {"ok": 0.8, "info": 0.5, "fail": 0.1}[outcome]:
                offset = held[partition][1]
                history.log(offset, seq, producer=producer, partition=partition)
                held[partition][1] += 1
            history.send(
                seq,
                offset if outcome == "ok" else None,
                producer=producer,
                outcome=outcome,
                partition=lots.choice([partition, partition, partition, -1]),
                key=lots.choice([None, 0, 0, 0, 1]),
                sent=_moment(lots),
                done=_moment(lots),
                never_done=outcome == "info" and lots.random() < 0.5,
                error=error,
            )
    for partition, (start, end) in enumerate(held):
        for offset in range(end, end + lots.choice([0, 0, 0, 1])):
            value = lots.choice([(0, 0), (1, 0), (1, 9), (-1, -1)])
            history.log(offset, value[1], producer=value[0], partition=partition)
            end = offset + 1
        if lots.random() < 0.8:
            history.end(end, partition=partition, log_start=start, compacted=lots.random() < 0.3)


def _moment(lots: Random) -> float:
    return 500.0 * lots.randint(0, 24)


def _answer(history: Planned, lots: Random) -> None:
    """Each order is answered once, or not, or twice; aborted answers are not in the log."""
    offset, careless = 0, lots.choice([0, 0, 0.2])
    inputs = [row["seq"] for row in history.rows["log"]]
    for producer in range(2, len(history.planned_producers())):
        keys = [key for key in inputs for _ in range(lots.choice([0, 1, 2]) if lots.random() < careless else 1)]
        for seq, key in enumerate(keys):
            stands = lots.random() >= careless
            told = None if lots.random() < careless / 4 else key
            partition = lots.choice([0, 0, 1, -1])
            outcome = lots.choice(["ok", "ok", "info"] if stands else ["fail", "info"])
            history.send(
                seq,
                offset,
                producer=producer,
                topic=ANSWERS,
                partition=partition,
                key=told,
                outcome=outcome,
                done=_moment(lots),
            )
            for _ in range(2 if lots.random() < careless / 2 else 1):
                if stands:
                    topic, offset = (ORDERS, offset + 100) if lots.random() < careless / 4 else (ANSWERS, offset)
                    history.log(offset, seq, producer=producer, topic=topic)
                    offset += 1
    if lots.random() < 0.3:
        history.end(offset, topic=ANSWERS, log_start=lots.choice([0, 1]))


def _read(history: Planned, lots: Random) -> None:
    keyed = [(row["producer"], row["seq"]) for row in history.rows["sends"]]
    for _ in range(lots.randint(0, 12)):
        producer, seq = lots.choice(keyed) if keyed and lots.random() < 0.9 else (0, lots.randint(0, 9))
        consumer = lots.randint(0, 2)
        history.read(
            seq, seq, producer=producer, consumer=consumer, group=GROUP_OF[consumer], when=100.0 * lots.randint(0, 5)
        )


def _exit(history: Planned, lots: Random) -> None:
    names = [(row["name"], row["exits"]) for row in history.planned_producers()]
    for name, expected in [*names, ("producer10", [0]), ("consumer1", [0])]:
        codes = lots.choice([expected] * 9 + [expected[:1], [*expected, 0], expected[::-1], [None], []])
        for when, code in zip(sorted(lots.sample(range(9), len(codes))), codes, strict=True):
            row = {"node": name, "at_ns": at(when), "event": "exited", "by_itself": code is not None}
            history.rows["nodes"].append({**row, "code": code, "signal": 9 if code is None else None})


def _hear_of_members(history: Planned, lots: Random) -> None:
    steady = lots.random() < 0.3
    for source in lots.sample(["zk1", "kafka1", "kafka2"], lots.randint(0, 3)):
        for when in lots.sample(range(8), lots.randint(0, 6)):
            members = [1, 2] if steady else lots.choice([[], [1], [2, 1], [1, 2], [1, 2, 3], [3]])
            history.rows["members"].append({"at_ns": at(when), "source": source, "brokers": members})


def _fill_directories(history: Planned, lots: Random) -> None:
    """Logs stay where they are; a directory may be added, and some broker may do as it likes."""
    for broker in range(1, lots.randint(0, 2) + 1):
        held: list[list[str]] = [[f"old-{place}-{each}" for each in range(lots.randint(0, 2))] for place in range(2)]
        strays, number = lots.choice([0, 0.4]), 0
        for step in range(lots.randint(1, 4)):
            if step > 0:
                held += [[] for _ in range(lots.choice([0, 0, 1]))]
                for _ in range(lots.choice([0, 1, 2, 5])):
                    number += 1
                    fewest = min(len(names) for names in held)
                    right = [names for names in held if len(names) == fewest]
                    lots.choice(held if lots.random() < strays else right).append(f"new-{number}")
            for directory, names in enumerate(held, start=1):
                row = {"step": step, "at_ns": at(step), "broker": broker, "directory": directory}
                history.rows["places"].append({**row, "partitions": lots.sample(names, len(names))})


def _seek(history: Planned, lots: Random) -> None:
    for fault in range(lots.randint(0, 3)):
        start = lots.randint(1, 3)
        end = start + lots.randint(0, 3)
        by = lots.choice(["offset", "time"])
        start_after, end_after = start + lots.choice([0, 0, 1, 2]), end + lots.choice([0, 0, 1, 2])
        asked, answer = lots.randint(0, 8), lots.choice([None, *range(start, end)]) if by == "time" else None
        wanted = asked if by == "offset" else answer
        landed = lots.choice([wanted, wanted, wanted, None, start, start_after, end, end_after, 0, 9])
        time_of = landed is not None and lots.random() < 0.9
        before = by == "time" and lots.random() < 0.5
        history.rows["seeks"].append(
            {
                "fault": fault,
                "at_ns": at(fault),
                "topic": ORDERS,
                "partition": lots.randint(0, 1),
                "by": by,
                "asked": asked,
                "policy": lots.choice(["earliest", "latest", "error"]),
                "answer": answer,
                "landed": landed,
                "landed_ms": asked + lots.choice([-1, 0, 0, 1]) if time_of else None,
                "before_ms": asked + lots.choice([-2, -1, -1, 0]) if before else None,
                "log_start": start,
                "log_end": end,
                "log_start_after": start_after,
                "log_end_after": end_after,
                "error": lots.choice([None, "_AUTO_OFFSET_RESET", "_TIMED_OUT"]) if landed is None else None,
            }
        )


def _place(history: Planned, lots: Random) -> None:
    """The first answers about each partition: by the rule, nearly so, or anyhow."""
    brokers = range(1, history.brokers + 1)
    racks = {each: history.racks[(each - 1) % len(history.racks)] for each in brokers} if history.racks else {}
    for topic in (ORDERS, ANSWERS, MIRROR):
        count, replication = lots.choice([0, 1, 3, 7]), lots.randint(1, min(3, history.brokers))
        draw = lots.randrange(history.brokers), lots.randrange(history.brokers)
        exact = history.mode == "zookeeper" or lots.random() < 0.5
        assignment = documented(brokers, count, replication, *draw, racks)
        for partition, right in enumerate(assignment):
            anyhow = [lots.choice(brokers) for _ in range(replication)]
            shuffled = lots.sample(right, len(right))
            replicas = lots.choice([right] * (20 if exact else 1) + [shuffled, anyhow])
            if lots.random() < 0.97:
                _tell(history, lots, -500 + partition, topic, partition, replicas=replicas)
            if lots.random() < 0.1:
                _tell(history, lots, -600 + partition, topic, partition, replicas=None)


def _tell(history: Planned, lots: Random, when: float, topic: int, partition: int, **told: Any) -> None:
    broker = lots.randint(1, history.brokers)
    history.state(when, broker, leader=None, epoch=None, isr=None, topic=topic, partition=partition)
    history.rows["state"][-1] |= told


def _disturb(history: Planned, lots: Random) -> None:
    """Faults that last and faults that do not, one after the other, at once, or one in the other."""
    for fault in range(1, lots.randint(0, 3) + 1):
        history.faults.append(FaultRecord(fault, "isolate", ["kafka1"]))
        begun = _moment(lots)
        ended = begun + 500.0 * lots.randint(0, 4)
        ends: list[tuple[str, float, str]] = lots.choice(
            [
                [
                    ("proved", begun + 1, ""),
                    ("healing", ended, "the scenario"),
                    ("healed", ended + 700, "the scenario"),
                ],
                [("proved", begun + 1, ""), ("healed", ended, "the interrupt")],
                [("proved", begun + 1, ""), ("healed", begun + 1, "done")],
                [("proved", begun + 1, ""), ("healing", ended, "the scenario"), ("not healed", ended, "the scenario")],
                [("proved", begun + 1, "")],
                [("not proved", begun + 1, "")],
            ]
        )
        for event, when, by in [("asked", begun, ""), *ends]:
            history.rows["faults"].append(
                {
                    "fault": fault,
                    "at_ns": at(when),
                    "event": event,
                    "kind": "isolate",
                    "asked": ["kafka1"],
                    "targets": lots.choice([["kafka1"], ["kafka2"], ["kafka1", "kafka2"], ["zk1"]]),
                    "by": by or None,
                }
            )
    moments = [at(_moment(lots)) if lots.random() < 0.9 else None for _ in range(4)]
    history.marks = Marks(None, *moments)


def _lead(history: Planned, lots: Random) -> None:
    """What brokers said, no two of them at the same moment of the same partition."""
    for topic, partition in ((ORDERS, 0), (ORDERS, 0), (ORDERS, 1), (ANSWERS, 0), (MIRROR, 0)):
        taken = {
            row["at_ns"] for row in history.rows["state"] if (row["topic"], row["partition"]) == (topic, partition)
        }
        moments = [when for when in range(0, 13_000, 250) if at(when) not in taken]
        replicas = lots.sample(range(1, history.brokers + 1), lots.randint(1, history.brokers))
        for when in lots.sample(moments, lots.choice([12, 24])):
            _tell(
                history,
                lots,
                when,
                topic,
                partition,
                leader=lots.choice([None, -1, 0, 1, 1, 1, 2, 2]),
                leader_epoch=lots.choice([None, 0, 1, 1, 1, 2]),
                isr=lots.choice([None, [], *[replicas] * 9, replicas[::-1], *[replicas[:1]] * 3]),
                replicas=lots.choice([None, replicas, replicas, replicas]),
                error=lots.choice([None] * 6 + ["LEADER_NOT_AVAILABLE", "REQUEST_TIMED_OUT"]),
            )
    if lots.random() < 0.5:
        history.copied(0, 0, topic=MIRROR)


def _claim(history: Planned, lots: Random) -> None:
    begun = [f"{when} {fault.id}" for fault in history.faults for when in ("before", "during", "during")]
    moments = ["start", "end"] * 3 + begun * 2 + ["during 3"]
    nodes = [["kafka1"], ["kafka2", "kafka1"], ["target:1"], ["target:1", "kafka1"], ["target:2", "target:3"], ["zk1"]]
    for _ in range(lots.randint(0, 3)):
        claimed: dict[str, Any] = {}
        for what in lots.sample(CLAIMS, lots.choice([1, 1, 1, 1, 2])):
            of_nodes = what in ("leader", "not_leader", "isr", "isr_without")
            said = {"same_leader_as": lots.choice(moments), "acked": lots.random() < 0.5}
            claimed[what] = lots.choice(nodes) if of_nodes else said.get(what, True)
        partitions = lots.choice(["orders/*"] + ["orders/0"] * 9 + ["orders/7", "answers/*", "dc2:orders/*"])
        history.claim(lots.choice(moments), partitions, **claimed)


# -- as the judges see them --------------------------------------------------------------------------------------------


def planned(history: Planned) -> Rows:
    """What `run.json` says, in rows."""
    racks: list[str | None] = [*history.racks] or [None]
    marks = history.marks
    names = ("load_begun_ns", "load_ended_ns", "healed_ns", "drained_ns")
    return {
        "producers_of": history.planned_producers(),
        "topics_of": [{"topic": t, "name": name, "partitions": history.planned} for t, name in enumerate(TOPICS)],
        "brokers_of": [
            {"broker": broker, "name": f"kafka{broker}", "rack": racks[(broker - 1) % len(racks)]}
            for broker in range(1, history.brokers + 1)
        ],
        "mode_of": [{"mode": history.mode}],
        "claims_of": [{"claim": number, **claim} for number, claim in enumerate(history.claims, start=1)],
        "marks_of": [{name: getattr(marks, name) for name in names}],
    }


_INT, _LONG, _TEXT, _BOOL = pa.int32(), pa.int64(), pa.string(), pa.bool_()
PLANNED = {
    "producers_of": {
        "producer": _INT,
        "name": _TEXT,
        "topic": _INT,
        "outbox": _BOOL,
        "refused": _BOOL,
        "input": _TEXT,
        "exits": pa.list_(_INT),
    },
    "topics_of": {"topic": _INT, "name": _TEXT, "partitions": _INT},
    "brokers_of": {"broker": _INT, "name": _TEXT, "rack": _TEXT},
    "mode_of": {"mode": _TEXT},
    "claims_of": {
        "claim": _INT,
        "at": _TEXT,
        "partitions": _TEXT,
        **dict.fromkeys(("leader", "not_leader", "isr", "isr_without"), pa.list_(_TEXT)),
        **dict.fromkeys(("isr_full", "preferred", "no_leader", "acked"), _BOOL),
        "same_leader_as": _TEXT,
    },
    "marks_of": dict.fromkeys(("load_begun_ns", "load_ended_ns", "healed_ns", "drained_ns"), _LONG),
}


PLACE = ("producer", "topic", "key")
COLUMNS = {
    "key_moved": (*PLACE, "seq_before", "partition_before", "offset_before", "seq", "partition", "offset"),
    "key_reordered": (
        "group",
        "topic",
        "key",
        "producer",
        "seq",
        "partition",
        "read_ns",
        "overtaken_ns",
        "late_ms",
    ),
    "log_dir_placement": ("broker", "step", "before", "after", "documented", "given", "wrong"),
    "seek_mismatch": (
        "topic",
        "partition",
        "fault",
        "by",
        "asked",
        "policy",
        "landed",
        "landed_ms",
        "before_ms",
        "log_start",
        "log_end",
        "error",
    ),
    "membership_gap": ("source", "broker", "from_ns", "to_ns"),
    "unpublished": ("topic", "producer", "seq", "fate", "outcome", "error", "sent_ns"),
    "exit_codes": ("node", "expected", "found"),
    "refusals": ("topic", "producer", "seq", "fate", "outcome", "error"),
    "claims": ("claim", "topic", "partition", "at", "leader", "isr", "replicas", "acks"),
    "allocation": ("topic", "partition", "replicas", "documented", "start", "shift", "wrong", "problem"),
    "not_exactly_once": ("producer", "key", "records", "answers", "seq"),
}
ASKED_OF = {  # where these hold nothing, nothing can be found
    "key_moved": "sends",
    "key_reordered": "reads",
    "log_dir_placement": "places",
    "seek_mismatch": "seeks",
    "membership_gap": "members",
    "unpublished": "sends",
    "exit_codes": "nodes",
    "refusals": "sends",
    "claims": "claims_of",
    "allocation": "state",
    "not_exactly_once": "log",
}
Told = Callable[[str, object], None]
JUDGES = Judges(
    COLUMNS,
    plain=reference_plans,
    sql=sql_plans,
    made=made,
    journal=JOURNAL,
    planned=planned,
    schemas=PLANNED,
    histories=HISTORIES,
    at_large=AT_LARGE,
)


@pytest.mark.proves("C3")
@pytest.mark.parametrize("check", COLUMNS)
def test_all_judges_find_the_same(check: str, record_property: Told) -> None:
    hits = JUDGES.hits(check, JUDGES.agreed(check))
    assert len(hits) >= HISTORIES // 20, "the histories hardly ever have this anomaly: they prove little"
    asked = {run for run, own in JUDGES.rows.items() if own[ASKED_OF[check]]}
    assert len(asked - hits) >= HISTORIES // 40, "the histories hardly ever lack this anomaly: they prove little"
    record_property("figure", f"{HISTORIES:,} histories judged alike by all three, for {len(COLUMNS)} checks of plans")


@pytest.mark.proves("C3")
@pytest.mark.parametrize("check", some_of(COLUMNS))
def test_what_is_judged_as_large_is_judged_alike(check: str, record_property: Told) -> None:
    JUDGES.assert_agreed_at_large(check)
    record_property("figure", f"{AT_LARGE:,} of them judged alike in the way of large journals")
