"""allocation: replicas at places where the rule does not put them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.asking import Cases, found, witnesses
from tests.support.histories import History

COLUMNS = ("partition", "problem", "wrong")


UNEXPLAINED = (-1, "no start and no shift explain this sequence")
DRAWN = ("replicas", "documented", "start", "shift")


NEIGHBOURS = "two neighbours among its replicas are in one rack"


def _placed(*replicas: list[int], later: list[int] | None = None, **others: Any) -> History:
    history = History(**others).send(0, 0).log(0, 0)
    for partition, each in enumerate(replicas):
        history.state(1, 1, leader=each[0], epoch=0, partition=partition)
        history.rows["state"][-1]["replicas"] = each
        if later is not None:
            history.state(2, 1, leader=each[0], epoch=0, partition=partition)
            history.rows["state"][-1]["replicas"] = later
    return history


def _never_seen(history: History, partition: int) -> History:
    history.rows["state"] = [row for row in history.rows["state"] if row["partition"] != partition]
    return history


def _said(history: History, replicas: list[int] | None, *, topic: int = 0) -> History:
    """One more answer, before all others."""
    history.state(0, 2, leader=None, epoch=None, isr=None, topic=topic)
    history.rows["state"][-1]["replicas"] = replicas
    return history


def _beside(history: History, *replicas: list[int]) -> History:
    """The same of another topic, which a broker reports later."""
    for partition, each in enumerate(replicas):
        history.state(2, 1, leader=each[0], epoch=0, topic=1, partition=partition)
        history.rows["state"][-1]["replicas"] = each
    return history


CASES: Cases = {
    "in one of two topics": (
        _beside(
            _placed([1, 2, 3], [2, 3, 1], [3, 1, 2], topics=("orders", "payments")), [1, 2, 3], [2, 1, 3], [3, 1, 2]
        ),
        [UNEXPLAINED],
    ),
    "a sequence that no draw explains": (_placed([1, 2, 3], [2, 1, 3], [3, 1, 2]), [UNEXPLAINED]),
    "first replicas that are not even": (
        _placed([1, 2, 3], [1, 3, 2], [1, 2, 3]),
        [(-1, "first replicas are not even over the brokers (1: 3, 2: 0, 3: 0)"), UNEXPLAINED],
    ),
    "a broker that holds it twice": (_placed([1, 1, 2]), [UNEXPLAINED, (0, "a broker holds it twice")]),
    "near miss: round robin": (_placed([1, 2, 3], [2, 3, 1], [3, 1, 2]), []),
    "near miss: from another start, with the shift rising": (
        _placed([2, 3, 1], [3, 1, 2], [1, 2, 3], [2, 1, 3]),
        [],
    ),
    "near miss: added partitions are placed anew": (
        _placed([1, 2, 3], [3, 1, 2], planned=1),
        [],
    ),
    "grown, and yet the first are wrong": (
        _placed([1, 2, 3], [2, 1, 3], [3, 1, 2], [1, 3, 2], planned=3),
        [UNEXPLAINED],
    ),
    "KRaft: neighbours in one rack": (_placed([1, 3, 2], mode="kraft", racks=["a", "b"]), [(0, NEIGHBOURS)]),
    "near miss: KRaft, where racks alternate": (_placed([1, 2, 3], mode="kraft", racks=["a", "b"]), []),
    "KRaft: first replicas uneven over racks": (
        _placed([1, 2], [1, 3], mode="kraft", racks=["a", "b", "c"]),
        [(-1, "first replicas are not even over the racks (a: 2, b: 0, c: 0)")],
    ),
    "KRaft: one rack, and first replicas uneven over brokers": (
        _placed([1, 2], [1, 3], mode="kraft", racks=["a"]),
        [(-1, "first replicas are not even over the brokers (1: 2, 2: 0, 3: 0)")],
    ),
    "near miss: KRaft, where racks of another size take turns": (
        _placed([1, 2], [2, 3], [3, 2], [2, 1], [1, 2], [2, 3], mode="kraft", racks=["a", "b"]),
        [],
    ),
    "ZooKeeper: its rule allows neighbours in one rack": (_placed([1, 3, 2], racks=["a", "b"]), [UNEXPLAINED]),
    "where the first was never seen, the second is named": (
        _never_seen(_placed([1, 2, 3], [2, 2, 1], [2, 1, 3]), 0),
        [(1, "a broker holds it twice")],
    ),
    "near miss: where the first was never seen, no sequence is known": (
        _never_seen(_placed([1, 2, 3], [2, 1, 3], [2, 3, 1]), 0),
        [],
    ),
    "near miss: an answer without replicas": (_said(_placed([1, 2, 3]), None), []),
    "near miss: a topic of another site, which other brokers hold": (
        _said(_placed([1, 2, 3], topics=("orders", "dc2:orders")), [4, 4, 4], topic=1),
        [],
    ),
    "near miss: moved later": (_placed([1, 2, 3], [2, 3, 1], [3, 1, 2], later=[3, 2, 1]), []),
}


@pytest.mark.parametrize("case", CASES)
def test_allocation(case: str) -> None:
    answers = found("allocation", case, CASES, *COLUMNS)
    assert [(partition, problem) for partition, problem, wrong in answers if wrong] == CASES[case][1]
    # Every partition that was there from the beginning is a row, right or wrong.
    told = {partition for partition, _, wrong in answers if not wrong}
    planned = CASES[case][0].planned or 1000
    assert told == {row["partition"] for row in CASES[case][0].rows["state"] if row["partition"] < planned}


def test_the_result_of_the_rule_stands_beside_the_answer() -> None:
    rows = witnesses("allocation", _placed([2, 3, 1], [3, 1, 2], [1, 2, 3], [2, 1, 3]))
    beside = {row["partition"]: tuple(row[name] for name in DRAWN) for row in rows}
    assert beside[0] == ([2, 3, 1], [2, 3, 1], 1, 0)
    assert beside[3] == ([2, 1, 3], [2, 1, 3], 1, 0)
