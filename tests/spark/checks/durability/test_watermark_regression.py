"""watermark_regression: a later epoch shows a lower high watermark than an earlier one did."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History, at

COLUMNS = ("leader_epoch", "before", "after", "fell_by", "at_ns")


def _everywhere() -> History:
    history = History()
    for topic, partition in ((0, 0), (0, 1), (1, 0), (1, 1)):
        place: dict[str, Any] = {"topic": topic, "partition": partition}
        history.state(0, 1, leader=1, epoch=0, high_watermark=10, **place)
        history.state(9, 2, leader=2, epoch=1, high_watermark=7, **place)
    return history


CASES: Cases = {
    "in two partitions of two topics": (_everywhere(), [(1, 10, 7, 3, at(9))] * 4),
    "the new leader shows less": (
        History().state(0, 1, leader=1, epoch=0, high_watermark=10).state(9, 2, leader=2, epoch=1, high_watermark=7),
        [(1, 10, 7, 3, at(9))],
    ),
    "the final log is shorter": (
        History().state(0, 1, leader=1, epoch=0, high_watermark=10).end(8, epoch=1),
        [(1, 10, 8, 2, at(1_000_000))],
    ),
    "two epochs later": (
        History()
        .state(0, 1, leader=1, epoch=0, high_watermark=10)
        .state(5, 2, leader=2, epoch=1, high_watermark=12)
        .state(9, 1, leader=1, epoch=2, high_watermark=11),
        [(2, 12, 11, 1, at(9))],
    ),
    "near miss: its epoch is unknown": (
        History().state(0, 1, leader=1, epoch=None, high_watermark=10).state(9, 2, leader=2, epoch=1, high_watermark=7),
        [],
    ),
    "near miss: it rises": (
        History().state(0, 1, leader=1, epoch=0, high_watermark=10).state(9, 2, leader=2, epoch=1, high_watermark=10),
        [],
    ),
    "near miss: a broker that does not lead has no high watermark": (
        History().state(0, 1, leader=1, epoch=0, high_watermark=10).state(9, 2, leader=1, epoch=1, high_watermark=3),
        [],
    ),
    "near miss: two partitions": (
        History()
        .state(0, 1, leader=1, epoch=0, high_watermark=10)
        .state(9, 2, leader=2, epoch=1, high_watermark=3, partition=1),
        [],
    ),
    "near miss: two topics": (
        History()
        .state(0, 1, leader=1, epoch=0, high_watermark=10)
        .state(9, 2, leader=2, epoch=1, high_watermark=3, topic=1),
        [],
    ),
    "near miss: within one epoch": (
        History().state(0, 1, leader=1, epoch=0, high_watermark=10).state(9, 1, leader=1, epoch=0, high_watermark=9),
        [],
    ),
    "the highest of the old, the lowest of the new": (
        History()
        .state(0, 1, leader=1, epoch=0, high_watermark=5)
        .state(1, 1, leader=1, epoch=0, high_watermark=10)
        .state(8, 2, leader=2, epoch=1, high_watermark=7)
        .state(9, 2, leader=2, epoch=1, high_watermark=12),
        [(1, 10, 7, 3, at(8))],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_watermark_regression(case: str) -> None:
    assert found("watermark_regression", case, CASES, *COLUMNS) == CASES[case][1]
