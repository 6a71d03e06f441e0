"""phantom: a record with a number that no producer reserved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackproof.judge.registry import QUESTIONS
from ackproof.spark.session import collected
from tests.support.asking import Cases, found, spark, tables_of
from tests.support.histories import FIRST_RUN, History

COLUMNS = ("by", "offset", "producer", "seq")
CASES: Cases = {
    "in the log": (History().send(0, 0).log(0, 0).log(1, 5), [("log", 1, 0, 5)]),
    "of a producer that does not exist": (History().send(0, 0).log(0, 0).log(1, 0, producer=3), [("log", 1, 3, 0)]),
    "without a readable value": (History().send(0, 0).log(0, 0).log(1, -1, producer=-1), [("log", 1, -1, -1)]),
    "given to two consumers, and in no log": (
        History().send(0, 0).log(0, 0).read(1, 5).read(1, 5, consumer=1),
        [("read", 1, 0, 5)],
    ),
    "near miss: of unknown outcome": (History().send(0, outcome="info").log(0, 0).read(0, 0), []),
    "below the first number and above the last": (
        History().send(3, 0).send(4, 1).log(0, 2).log(1, 3).log(2, 4).log(3, 5),
        [("log", 0, 0, 2), ("log", 3, 0, 5)],
    ),
    "the number of another producer": (
        History().send(0, 0).send(7, 1, producer=1).log(0, 7).log(1, 0, producer=1),
        [("log", 0, 0, 7), ("log", 1, 1, 0)],
    ),
    "near miss: failed": (History().send(0, outcome="fail").log(0, 0), []),
}


@pytest.mark.parametrize("case", CASES)
def test_phantom(case: str) -> None:
    assert found("phantom", case, CASES, *COLUMNS) == CASES[case][1]


def test_phantom_where_no_number_is_missing() -> None:
    """A producer's first and last number say it all, and the sends are not asked."""
    histories = [replace(history, run=FIRST_RUN + place) for place, (history, _) in enumerate(CASES.values())]
    own = [(each.run, send["producer"], send["seq"]) for each in histories for send in each.rows["sends"]]
    numbers = [
        (*name, min(seqs), max(seqs))
        for name in sorted({value[:2] for value in own})
        for seqs in [[seq for *whose, seq in own if tuple(whose) == name]]
    ]
    tables = tables_of(spark(), *histories, numbers=numbers)
    told = [row.asDict() for row in collected(QUESTIONS["phantom"](tables))]
    for history, (_, expected) in zip(histories, CASES.values(), strict=True):
        assert sorted(tuple(row[name] for name in COLUMNS) for row in told if row["run"] == history.run) == expected
