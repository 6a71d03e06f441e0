"""torn_transaction: some messages of a transaction are in the healed log, and some are not."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("transaction", "topic", "outcome", "in_log", "missing", "first_missing")
PLAN = [{"transactions": {"input": "orders"}}]
COMMITTED = (("begun", 0.0), ("committing", 5.0), ("committed", 6.0))
ABORTED = (("begun", 0.0), ("aborting", 5.0), ("aborted", 6.0))
UNKNOWN = (("begun", 0.0), ("committing", 5.0), ("aborting", 6.0), ("unknown", 7.0))


def _two(outcome: str = "ok") -> History:
    """Two messages of one transaction, to two partitions."""
    return History(producers=PLAN).send(0, 0, outcome=outcome).send(1, 0, outcome=outcome, partition=1)


CASES: Cases = {
    "committed, and half of it is gone": (
        _two().log(0, 0).end(1, partition=1).transaction(1, 0, 1, *COMMITTED),
        [(1, 0, "committed", 1, 1, 1)],
    ),
    "aborted, and half of it stayed": (
        _two("fail").log(0, 1, partition=1).transaction(1, 0, 1, *ABORTED),
        [(1, 0, "aborted", 1, 1, 0)],
    ),
    "of unknown outcome, and half of it is there": (
        _two("info").log(0, 0).transaction(1, 0, 1, *UNKNOWN),
        [(1, 0, "unknown", 1, 1, 1)],
    ),
    "its producer died, and half of it is there": (
        _two("info").log(0, 0).transaction(1, 0, 1, ("begun", 0.0)),
        [(1, 0, None, 1, 1, 1)],
    ),
    "most of it is gone, and it went to two topics": (
        _two().send(2, 0, topic=1).log(0, 2, topic=1).end(1).end(1, partition=1).transaction(1, 0, 2, *COMMITTED),
        [(1, 0, "committed", 1, 2, 0)],
    ),
    "that of one of two producers": (
        _two()
        .log(0, 0)
        .log(0, 1, partition=1)
        .transaction(1, 0, 1, *COMMITTED)
        .send(0, 1, producer=1)
        .send(1, 1, producer=1, partition=1)
        .log(1, 0, producer=1)
        .transaction(1, 0, 1, *COMMITTED, producer=1),
        [(1, 0, "committed", 1, 1, 1)],
    ),
    "near miss: all in the log": (_two().log(0, 0).log(0, 1, partition=1).transaction(1, 0, 1, *COMMITTED), []),
    "near miss: nothing there": (_two("fail").transaction(1, 0, 1, *ABORTED), []),
    "near miss: of unknown outcome, and all of it is there": (
        _two("info").log(0, 0).log(0, 1, partition=1).transaction(1, 0, 1, *UNKNOWN),
        [],
    ),
    "near miss: retention took half of it": (
        _two().log(0, 1, partition=1).end(1, log_start=1).transaction(1, 0, 1, *COMMITTED),
        [],
    ),
    "near miss: one transaction complete and the next missing": (
        _two().log(0, 0).transaction(1, 0, 0, *COMMITTED).transaction(2, 1, 1, *COMMITTED),
        [],
    ),
    "near miss: an empty transaction between a complete one and a missing one": (
        History(producers=PLAN)
        .send(0, 0)
        .send(1, outcome="fail")
        .log(0, 0)
        .transaction(1, 0, 0, *COMMITTED)
        .transaction(2, 1, 0, *COMMITTED)
        .transaction(3, 1, 1, *ABORTED),
        [],
    ),
    "near miss: the same numbers of another producer": (
        _two().log(0, 0).log(0, 1, partition=1).send(1, producer=1, outcome="fail").transaction(1, 0, 1, *COMMITTED),
        [],
    ),
    "near miss: some numbers were reserved and not used": (
        _two()
        .log(0, 0)
        .log(0, 1, partition=1)
        .send(2, outcome="fail")
        .transaction(1, 0, 2, ("begun", 0.0))
        .transaction(1, 0, 1, ("committing", 5.0), ("committed", 6.0)),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_torn_transaction(case: str) -> None:
    assert found("torn_transaction", case, CASES, *COLUMNS) == CASES[case][1]
