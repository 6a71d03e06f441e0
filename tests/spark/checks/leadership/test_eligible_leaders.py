"""eligible_leaders: replicas that might have led without being in sync, at a moment."""

from __future__ import annotations

import pytest

from ackproof.model.run_record import Marks
from tests.support.asking import Cases, found
from tests.support.histories import History, at

COLUMNS = ("moment", "partition", "eligible", "last_known")


def _told(*answers: tuple[float, list[int], list[int]]) -> History:
    """A run from 5 s to 30 s, in which one broker reports the eligible replicas whenever they change."""
    history = History(marks=Marks(load_begun_ns=at(5_000), drained_ns=at(30_000))).send(0, 0).log(0, 0)
    return _also_told(history, *answers)


def _also_told(
    history: History, *answers: tuple[float, list[int], list[int]], topic: int = 0, partition: int = 0
) -> History:
    for when, eligible, last_known in answers:
        row = {"at_ns": at(when), "broker": 1, "topic": topic, "partition": partition}
        history.rows["eligible"].append({**row, "eligible": eligible, "last_known": last_known})
    return history


CASES: Cases = {
    "from then on": (_told((10_000, [2], [])), [("end", 0, [2], [])]),
    "from before the start on": (
        _told(
            (4_000, [2], []),
        ),
        [("end", 0, [2], []), ("start", 0, [2], [])],
    ),
    "the last answer counts": (_told((10_000, [2], []), (11_000, [], [3])), [("end", 0, [], [3])]),
    "each partition of each topic by itself": (
        _also_told(
            _also_told(_told((10_000, [2], [])), (11_000, [3], []), partition=1),
            (12_000, [1], []),
            topic=1,
            partition=1,
        ),
        [("end", 0, [2], []), ("end", 1, [1], []), ("end", 1, [3], [])],
    ),
    "at that very moment": (_told((30_000, [2], [])), [("end", 0, [2], [])]),
    "near miss: no replica any more": (_told((10_000, [2], []), (11_000, [], [])), []),
    "near miss: only after the end": (_told((31_000, [2], [])), []),
    "near miss: no replica was ever reported": (_told(), []),
}


@pytest.mark.parametrize("case", CASES)
def test_eligible_leaders(case: str) -> None:
    assert found("eligible_leaders", case, CASES, *COLUMNS) == CASES[case][1]
