"""uncommitted_read: a `read_committed` consumer is given an uncommitted message."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("consumer", "offset", "seq", "transaction", "outcome")
PLAN = [{"transactions": {"input": "orders"}}]
COMMITTED, UNCOMMITTED = {"isolation": "read_committed"}, {"isolation": "read_uncommitted"}


def _read(outcome: str, when: float, *events: tuple[str, float], consumer: int = 0) -> History:
    """One message of one transaction, read once. The first consumer asks for committed messages, the second for all."""
    made = History(producers=PLAN, consumers=[COMMITTED, UNCOMMITTED])
    made.send(0, 0, outcome=outcome).read(0, 0, when=when, consumer=consumer).transaction(1, 0, 0, *events)
    return made.group(0, "assigned", 0).group(0, "assigned", 1)


ABORTED = (("begun", 0.0), ("aborting", 5.0), ("aborted", 6.0))
DONE = (("begun", 0.0), ("committing", 5.0), ("committed", 7.0))
UNKNOWN = (("begun", 0.0), ("committing", 5.0), ("aborting", 6.0), ("unknown", 7.0))

CASES: Cases = {
    "aborted, before and read after": (_read("fail", 9, *ABORTED), [(0, 0, 0, 1, "aborted")]),
    "aborted later": (_read("fail", 2, *ABORTED), [(0, 0, 0, 1, "aborted")]),
    "aborted although its commit had been asked for": (
        _read("fail", 9, ("begun", 0.0), ("committing", 5.0), ("aborted", 7.0)),
        [(0, 0, 0, 1, "aborted")],
    ),
    "before its commit was asked for": (_read("ok", 4, *DONE), [(0, 0, 0, 1, "committed")]),
    "its producer died before it could ask": (_read("info", 9, ("begun", 0.0)), [(0, 0, 0, 1, None)]),
    "its outcome is unknown, and it was read before its commit was asked for": (
        _read("info", 4, *UNKNOWN),
        [(0, 0, 0, 1, "unknown")],
    ),
    "near miss: committed": (_read("ok", 9, *DONE), []),
    "near miss: between the question and its answer": (_read("ok", 6, *DONE), []),
    "near miss: at the moment of the question": (_read("ok", 5, *DONE), []),
    "near miss: after the first question of two": (
        _read("ok", 6, ("begun", 0.0), ("committing", 5.0), ("committing", 7.0), ("committed", 8.0)),
        [],
    ),
    "near miss: its outcome is unknown": (_read("info", 9, *UNKNOWN), []),
    "near miss: by a reader of uncommitted messages": (_read("fail", 9, *ABORTED, consumer=1), []),
    "near miss: of no transaction": (History(producers=PLAN).send(0, 0).read(0, 0), []),
    "near miss: the number of another producer": (
        _read("fail", 9, *ABORTED, consumer=1).send(0, 1, producer=1).read(1, 0, producer=1),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_uncommitted_read(case: str) -> None:
    assert found("uncommitted_read", case, CASES, *COLUMNS) == CASES[case][1]
