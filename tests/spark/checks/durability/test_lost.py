"""lost: every `lost_*` fate is a witness, and nothing else is."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("producer", "seq", "fate", "holder_seq")
CASES: Cases = {
    "acknowledged and overwritten": (History().send(0, 0).log(0, 9), [(0, 0, "lost_overwritten", 9)]),
    "acknowledged and truncated": (History().send(0, 3).log(0, 9), [(0, 0, "lost_truncated", None)]),
    "acknowledged and missing where the log has a hole": (
        History().send(0, 0).log(1, 9),
        [(0, 0, "lost_hole", None)],
    ),
    "acks=0, not in the log": (History(acks="0").send(0).log(0, 9), [(0, 0, "lost_unplaced", None)]),
    "one of two producers with the same number": (
        History().send(0, 0).send(0, 1, producer=1).log(0, 0),
        [(1, 0, "lost_truncated", None)],
    ),
    "near miss: there, at another offset": (History().send(0, 3).log(0, 0), []),
    "near miss: of unknown outcome and not there": (History().send(0, outcome="info").log(0, 9), []),
    "near miss: failed and not there": (History().send(0, outcome="fail").log(0, 9), []),
    "near miss: taken away by retention": (History().send(0, 0).log(1, 9).end(2, log_start=1), []),
}


@pytest.mark.parametrize("case", CASES)
def test_lost(case: str) -> None:
    assert found("lost", case, CASES, *COLUMNS) == CASES[case][1]
