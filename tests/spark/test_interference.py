"""Interference by outsiders during a run: journals written by hand, with near misses beside hits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ackproof.judge.evidence import interference
from ackproof.judge.evidence.facts import Evidence
from ackproof.judge.run_source import opened
from ackproof.model.run_record import Marks
from ackproof.model.verdict import Fitness
from tests.support.histories import History, at
from tests.support.plans import plan_of

pytestmark = pytest.mark.proves("C7")

Rows = list[dict[str, Any]]


def evidence(folder: Path, tables: dict[str, Rows], **record: Any) -> Evidence:
    """Return the evidence of a run of ten messages whose load began at 1,000 ms."""
    history = History()
    history.marks = Marks(load_begun_ns=at(1_000))
    history.mirrors = record.pop("mirrors", {})
    for seq in range(10):
        history.send(seq, seq, sent=seq * 3).log(seq, seq)
    for table, rows in tables.items():
        history.rows[table] += rows
    with opened(history.write(folder / "run")) as source:
        changed = msgspec.structs.replace(source.record, **record)
        return Evidence(replace(source, record=changed), [], {}, {}, {})


def happened(when: float, node: str, event: str, text: str | None = None) -> dict[str, Any]:
    row = {"at_ns": at(when), "node": node, "event": event, "text": text}
    return row | {"by_itself": False, "code": 0 if event == "exited" else None}


DISTURBED: dict[str, tuple[Rows, list[Fitness]]] = {
    "near miss: a node that exited as it was asked to": ([happened(1_500, "kafka2", "exited")], []),
    "a broker that is stopped to the end": (
        [happened(2_700, "kafka2", "disturbed", "kafka2 is stopped")],
        [Fitness("disturbed", False, "An outsider disturbed kafka2 1.7 s after the load began: kafka2 is stopped.")],
    ),
    "a node of ZooKeeper that goes on, and another that goes on before and after": (
        [
            happened(500, "kafka1", "goes on", "kafka1 goes on"),
            happened(800, "zk1", "goes on", "zk1 goes on, before"),
            happened(900, "zk1", "disturbed", "zk1 is stopped"),
            happened(1_100, "zk1", "goes on", "zk1 goes on, 0.2 s later"),
            happened(1_150, "kafka1", "goes on", "kafka1 goes on"),
            happened(1_200, "zk1", "goes on", "zk1 goes on, once more"),
        ],
        [
            Fitness(
                "disturbed",
                False,
                "An outsider disturbed zk1 0.1 s before the load began: zk1 is stopped; zk1 goes on, 0.2 s later.",
            )
        ],
    ),
    "the relay by which clients on the host reach a broker": (
        [happened(2_700, "relay-kafka2", "disturbed", "relay-kafka2 is stopped")],
        [
            Fitness(
                "disturbed",
                False,
                "An outsider disturbed relay-kafka2 1.7 s after the load began: relay-kafka2 is stopped.",
            )
        ],
    ),
    "near miss: a client, which is a remark": (
        [happened(1_000, "producer1", "disturbed", "producer1 is stopped")],
        [
            Fitness(
                "disturbed", True, "An outsider disturbed producer1 0.0 s after the load began: producer1 is stopped."
            )
        ],
    ),
}


@pytest.mark.parametrize("case", DISTURBED)
def test_a_server_that_somebody_disturbed_makes_a_run_unfit(tmp_path: Path, case: str) -> None:
    rows, lines = DISTURBED[case]
    assert interference.disturbed(evidence(tmp_path, {"nodes": rows})) == lines


def test_a_stranger_in_a_group_of_the_run_makes_it_unfit(tmp_path: Path) -> None:
    rows = [
        happened(2_700, "rdkafka", "joined", "is a member of the group readers, from 127.0.0.1"),
        happened(1_100, "kafka1", "goes on", "kafka1 goes on"),
    ]
    told = (
        "A client from outside the run, 'rdkafka', is a member of the group readers, from 127.0.0.1, "
        "noticed 1.7 s after the load began."
    )
    assert interference.joined(evidence(tmp_path, {"nodes": rows})) == [Fitness("joined", False, told)]
    assert interference.joined(evidence(tmp_path / "again", {"nodes": rows[1:]})) == []


def said(when: float, source: str = "kafka1", topic: int = 0, **what: Any) -> dict[str, Any]:
    return {"at_ns": at(when), "source": source, "topic": topic, **what}


def end(when: float, topic_id: str | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "topic": 0,
        "partition": 0,
        "log_start": 0,
        "high_watermark": 10,
        "log_end": 10,
        "read_to": 10,
    }
    row |= {"leader": 1, "leader_epoch": 0, "replicas": [1], "isr": [1], "min_isr": 1}
    return row | {"compacted": False, "transactional": False, "at_ns": at(when), "topic_id": topic_id}


ANEW = (
    "The topic orders was deleted and created again during the run (its id was one, then two), "
    "noticed {} the load began."
)
IDS: dict[str, tuple[dict[str, Rows], str | None]] = {
    "near miss: one id, and brokers that do not tell": (
        {
            "topics": [said(1, topic_id="one"), said(2, topic_id=None), said(3, "kafka2", topic_id="one")],
            "ends": [end(9, "one")],
        },
        None,
    ),
    "near miss: two topics, each with its own": (
        {"topics": [said(1, topic_id="one"), said(2, topic=1, topic_id="two")]},
        None,
    ),
    "near miss: a run of older times": ({"ends": [end(9_000, None)]}, None),
    "another id, told by two": (
        {"topics": [said(500, topic_id="one"), said(3_500, "kafka2", topic_id="two"), said(3_400, topic_id="two")]},
        ANEW.format("2.4 s after"),
    ),
    "another id than at its creation": (
        {"topics": [said(900, topic_id="two"), said(100, "creation", topic_id="one")]},
        ANEW.format("0.1 s before"),
    ),
    "another id in the final read alone": (
        {"topics": [said(500, topic_id="one")], "ends": [end(9_000, "two")]},
        ANEW.format("8.0 s after"),
    ),
    "another id of what a mirror made": (
        {"topics": [said(500, topic_id="one")], "mirror_ends": [end(9_000, "two")]},
        ANEW.format("8.0 s after"),
    ),
    "another id, and with it other settings, replicas and partitions": (
        {
            "topics": [
                said(500, topic_id="one", replicas=["1,2"]),
                said(501, settings='{"retention.ms":"1"}'),
                said(3_400, topic_id="two", replicas=["2,1", "1,2"]),
                said(3_500, settings="{}"),
            ]
        },
        ANEW.format("2.4 s after"),
    ),
}


GONE = "The topic orders was deleted during the run, and does not exist at its end, noticed {} s after the load began."
WITH_IT: dict[str, Any] = {"replicas": ["1,2"]}
WITHOUT: dict[str, Any] = {"replicas": []}
PRESENCE: dict[str, tuple[Rows, list[str]]] = {
    "near miss: not there yet, then there": ([said(1, **WITHOUT), said(2, **WITH_IT)], []),
    "near miss: a broker that starts again does not know of it at first": (
        [said(1, **WITH_IT), said(2_000, **WITHOUT), said(2_500, **WITH_IT), said(2_400, "kafka2", **WITH_IT)],
        [],
    ),
    "near miss: never there": ([said(1, **WITHOUT)], []),
    "near miss: another broker knows it at the end": (
        [said(1, **WITH_IT), said(9_000, **WITHOUT), said(4_001, "kafka2", **WITH_IT)],
        [],
    ),
    "gone at the end, after it had come, gone and come again": (
        [
            said(1, **WITHOUT),
            said(2, **WITH_IT),
            said(1_500, **WITHOUT),
            said(1_600, **WITH_IT),
            said(3_000, **WITHOUT),
        ],
        [GONE.format("2.0")],
    ),
    "gone at the end, by all that were still asked": (
        [
            said(1, **WITH_IT),
            said(3_000, **WITHOUT),
            said(9_000, **WITHOUT),
            said(1, "kafka2", **WITH_IT),
            said(2_900, "kafka2", **WITHOUT),
            said(4_000, "kafka3", **WITH_IT),
        ],
        [GONE.format("2.0")],
    ),
    "gone at the end, by one that never knew it, and those that did no longer answer": (
        [said(1, **WITH_IT), said(9_000, "kafka2", **WITHOUT)],
        [GONE.format("8.0")],
    ),
}


@pytest.mark.parametrize("case", PRESENCE)
def test_a_topic_that_was_deleted_for_good_makes_a_run_unfit(tmp_path: Path, case: str) -> None:
    rows, told = PRESENCE[case]
    assert texts(tmp_path, {"topics": rows}) == told


@pytest.mark.parametrize("case", IDS)
def test_a_topic_that_was_deleted_and_created_again_makes_a_run_unfit(tmp_path: Path, case: str) -> None:
    tables, told = IDS[case]
    assert texts(tmp_path, tables) == ([] if told is None else [told])


def texts(folder: Path, tables: dict[str, Rows], **record: Any) -> list[str]:
    lines = interference.topics(evidence(folder, tables, **record))
    assert all((line.name, line.fit) == ("topics", False) for line in lines)
    return [line.text for line in lines]


CHANGED = "An outsider changed {}, noticed {} s after the load began."
SETTINGS: dict[str, tuple[Rows, list[str]]] = {
    "near miss: each source goes by its own": (
        [said(1, settings='{"retention.ms":"1"}'), said(2, "kafka2", settings='{"retention.ms":"2"}')],
        [],
    ),
    "near miss: the same again, and topics of other settings": (
        [
            said(1, settings='{"retention.ms":"1"}'),
            said(2, settings='{"retention.ms":"1"}'),
            said(3, topic=1, settings="{}"),
        ],
        [],
    ),
    "near miss: a row that tells of something else": (
        [said(1, settings="{}"), said(2, topic_id="one"), said(3, settings="{}")],
        [],
    ),
    "another value, told by two brokers, and one that is taken back": (
        [
            said(1_900, "kafka2", settings='{"min.insync.replicas":"1"}'),
            said(100, settings='{"min.insync.replicas":"2"}'),
            said(100, "kafka2", settings='{"min.insync.replicas":"2"}'),
            said(1_500, settings='{"min.insync.replicas":"1"}'),
            said(3_000, settings='{"min.insync.replicas":"2"}'),
        ],
        [
            CHANGED.format("min.insync.replicas of orders from 2 to 1", "0.5"),
            CHANGED.format("min.insync.replicas of orders from 1 to 2", "2.0"),
        ],
    ),
    "set, and set back to what it is by default, for all brokers too": (
        [
            said(100, "zk1", settings="{}"),
            said(1_500, "zk1", settings='{"flush.ms":"7"}'),
            said(1_600, "zk1", settings="{}"),
            said(100, "zk1", -1, settings="{}"),
            said(1_700, "zk1", -1, settings='{"log.retention.ms of <default>":"7"}'),
        ],
        [
            CHANGED.format("flush.ms of orders from the default to 7", "0.5"),
            CHANGED.format("flush.ms of orders from 7 to the default", "0.6"),
            CHANGED.format("log.retention.ms of <default> from the default to 7", "0.7"),
        ],
    ),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_a_changed_setting_that_decides_about_loss_makes_a_run_unfit(tmp_path: Path, case: str) -> None:
    rows, told = SETTINGS[case]
    assert texts(tmp_path, {"topics": rows}) == told


def test_settings_that_a_mirror_changes_on_its_topics_are_no_interference(tmp_path: Path) -> None:
    rows = [said(1, topic=topic, settings=text) for topic in (0, 1) for text in ("{}", '{"flush.ms":"7"}')]
    rows = [{**row, "at_ns": at(1_000 + place)} for place, row in enumerate(rows)]
    (told,) = texts(tmp_path, {"topics": rows}, topics=["orders", "copy"], mirrors={1: 0})
    assert told == CHANGED.format("flush.ms of orders from the default to 7", "0.0")


def planned(**fault: Any) -> dict[str, Any]:
    return {"topics": [{"name": "orders", "partitions": 2}], "faults": [fault] if fault else []}


RESIZED = planned(to_partitions=3, partitions=["orders/*"])
GREW = "The topic orders has 3 partitions, but the scenario has 2, noticed 1.0 s after the load began."
REPLICAS: dict[str, tuple[dict[str, Any], list[list[str]], list[str]]] = {
    "near miss: the same again": (planned(), [["1,2", "2,1"]] * 2, []),
    "near miss: all partitions are not told of yet": (planned(), [["1,2"], ["1,2", "2,1"]], []),
    "near miss: the scenario makes it grow": (RESIZED, [["1,2", "2,1"], ["1,2", "2,1", "3,1"]], []),
    "near miss: a run without a plan": ({}, [["1"], ["1", "2"]], []),
    "it grew": (planned(), [["1,2", "2,1"], ["1,2", "2,1", "3,1"]], [GREW]),
    "another order": (
        planned(),
        [["1,2", "2,1"], ["1,2", "1,2"]],
        ["An outsider moved orders/1 from replicas 2,1 to 1,2, noticed 1.0 s after the load began."],
    ),
    "one more while it grows": (
        RESIZED,
        [["1,2", "2,1"], ["1,2,3", "2,1", "3,1"]],
        ["An outsider moved orders/0 from replicas 1,2 to 1,2,3, noticed 1.0 s after the load began."],
    ),
}


@pytest.mark.parametrize("case", REPLICAS)
def test_partitions_that_somebody_moved_or_added_make_a_run_unfit(tmp_path: Path, case: str) -> None:
    plan, views, told = REPLICAS[case]
    rows = [
        said(1_000 * place, name, replicas=own) for name in ("kafka1", "kafka2") for place, own in enumerate(views, 1)
    ]
    assert texts(tmp_path, {"topics": rows}, plan=plan_of(plan)) == told


def test_an_unnamed_topic_is_called_by_its_number_and_without_a_load_no_time_is_given(
    tmp_path: Path,
) -> None:
    rows = [said(1, topic=1, topic_id="one"), said(2, topic=1, topic_id="two")]
    (told,) = texts(tmp_path, {"topics": rows}, marks=Marks(), topics=["orders"])
    assert told.startswith("The topic 1 was deleted")
    assert told.endswith("noticed before the load began.")
