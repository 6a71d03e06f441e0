"""Aborted read: given to a consumer although its send had certainly failed."""

from __future__ import annotations

import pytest
from asking import Cases, found
from histories import History

COLUMNS = ("offset", "producer", "seq")
CASES: Cases = {
    "failed and read": (History().send(0, outcome="fail").read(4, 0), [(4, 0, 0)]),
    "near miss: failed and not read": (History().send(0, outcome="fail").log(0, 0), []),
    "near miss: unknown and read": (History().send(0, outcome="info").read(0, 0), []),
    "near miss: acked and read": (History().send(0, 0).read(0, 0), []),
    "near miss: another producer's number was read": (
        History().send(0, outcome="fail").send(0, 0, producer=1).read(0, 0, producer=1),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_aborted_read(case: str) -> None:
    assert found("aborted_read", case, CASES, *COLUMNS) == CASES[case][1]
