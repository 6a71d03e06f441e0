"""exit_codes: a producer with unexpected exit codes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History, at

COLUMNS = ("node", "found")


def _plan(expected: list[int], *codes: int | None, node: str = "producer0") -> History:
    history = History(producers=[{"copies": 1, "exits": expected}]).send(0, 0).log(0, 0)
    for place, code in enumerate(codes):
        row: dict[str, Any] = {"node": node, "at_ns": at(place), "event": "exited", "by_itself": True}
        history.rows["nodes"].append({**row, "code": code, "signal": 9 if code is None else None})
    return history


CASES: Cases = {
    "another code": (_plan([69], 0), [("producer0", [0])]),
    "one life too few": (_plan([75, 0], 75), [("producer0", [75])]),
    "one life too many": (_plan([75], 75, 0), [("producer0", [75, 0])]),
    "killed": (_plan([0], None), [("producer0", [-1])]),
    "in another order": (_plan([75, 0], 0, 75), [("producer0", [0, 75])]),
    "never ended": (_plan([0]), [("producer0", None)]),
    "only another producer ended": (_plan([69], 69, node="producer9"), [("producer0", None)]),
    "near miss: as expected": (_plan([75, 0], 75, 0), []),
    "near miss: nothing is expected": (_plan([], 3), []),
}


@pytest.mark.parametrize("case", CASES)
def test_exit_codes(case: str) -> None:
    assert found("exit_codes", case, CASES, *COLUMNS) == CASES[case][1]
