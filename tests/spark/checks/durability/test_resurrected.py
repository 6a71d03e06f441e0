"""resurrected: a send that certainly failed, and is in the log."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("producer", "seq", "error")
CASES: Cases = {
    "failed and in the log": (
        History().send(0, outcome="fail", error="MSG_SIZE_TOO_LARGE").log(0, 0),
        [(0, 0, "MSG_SIZE_TOO_LARGE")],
    ),
    "near miss: failed and not in the log": (History().send(0, outcome="fail").log(0, 9), []),
    "near miss: unknown and in the log": (History().send(0, outcome="info").log(0, 0), []),
    "near miss: failed, and another producer's number is in the log": (
        History().send(0, outcome="fail").send(0, 0, producer=1).log(0, 0, producer=1),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_resurrected(case: str) -> None:
    assert found("resurrected", case, CASES, *COLUMNS) == CASES[case][1]
