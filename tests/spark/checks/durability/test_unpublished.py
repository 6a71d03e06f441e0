"""unpublished: a message of an outbox that is missing from the log."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("seq", "fate")
OUTBOX = [{"copies": 1, "outbox": {"give_up_after": 3}}]


def _outbox() -> History:
    return History(producers=OUTBOX).send(0, 0).log(0, 0)


CASES: Cases = {
    "still in the outbox": (_outbox().send(1, outcome="fail"), [(1, "rejected")]),
    "of unknown outcome, and missing": (_outbox().send(1, outcome="info"), [(1, "not_written")]),
    "acknowledged, and lost": (_outbox().send(1, 1), [(1, "lost_truncated")]),
    "near miss: all in the log": (_outbox(), []),
    "near miss: of unknown outcome, and in the log": (_outbox().send(1, outcome="info").log(1, 1), []),
    "near miss: retention took it": (
        History(producers=OUTBOX).send(0, 0).send(1, 1).log(1, 1).end(2, log_start=1),
        [],
    ),
    "near miss: twice": (_outbox().log(1, 0), []),
    "near miss: without an outbox": (
        History(producers=[{"copies": 1}]).send(0, 0).log(0, 0).send(1, outcome="fail"),
        [],
    ),
    "near miss: of another producer, without an outbox": (
        History(producers=[*OUTBOX, {"copies": 1}]).send(0, 0).log(0, 0).send(0, outcome="fail", producer=1),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_unpublished(case: str) -> None:
    assert found("unpublished", case, CASES, *COLUMNS) == CASES[case][1]
