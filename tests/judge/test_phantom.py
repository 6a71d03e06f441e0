"""Phantom: a record that no producer reserved."""

from __future__ import annotations

import pytest
from asking import Cases, found
from histories import History

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
    "near miss: failed": (History().send(0, outcome="fail").log(0, 0), []),
}


@pytest.mark.parametrize("case", CASES)
def test_phantom(case: str) -> None:
    assert found("phantom", case, CASES, *COLUMNS) == CASES[case][1]
