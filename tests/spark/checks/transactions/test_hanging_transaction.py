"""hanging_transaction: an open transaction holds up readers for longer than any transaction may last."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("partition", "last_stable", "producer", "transaction", "ms")
PLAN = [{"transactions": {"input": "orders"}}]
BEGUN = ("begun", 0.0)


def _run(timeout: int = 10_000) -> History:
    """Message 3, of transaction 2, stands at offset 7; limits are the time-out and ten seconds."""
    return (
        History(producers=PLAN)
        .send(3, 7)
        .log(7, 3)
        .end(8, transactional=True)
        .transaction(2, 3, 3, BEGUN, timeout=timeout)
    )


CASES: Cases = {
    "past the limit": (_run().stable(0, 7, 8).stable(20_001, 7, 9), [(0, 7, 0, 2, 20_001.0)]),
    "reported by two leaders": (
        _run().stable(0, 7, 8).stable(20_001, 7, 9, broker=2),
        [(0, 7, 0, 2, 20_001.0)],
    ),
    "past the limit, of an unknown transaction": (
        _run().stable(0, 6, 8).stable(20_001, 6, 9),
        [(0, 6, None, None, 20_001.0)],
    ),
    "past the limit, with two messages of one transaction acknowledged there": (
        _run().send(4, 7).transaction(2, 3, 4, BEGUN).stable(0, 7, 8).stable(20_001, 7, 9),
        [(0, 7, 0, 2, 20_001.0)],
    ),
    "past a shorter limit": (_run(1_000).stable(0, 7, 8).stable(11_001, 7, 9), [(0, 7, 0, 2, 11_001.0)]),
    "near miss: just as long as allowed": (_run().stable(0, 7, 8).stable(20_000, 7, 9), []),
    "past the limit, at a message without a transaction": (
        _run().send(2, 6).stable(0, 6, 8).stable(20_001, 6, 9),
        [(0, 6, None, None, 20_001.0)],
    ),
    "near miss: the longest time-out counts": (
        _run(1_000).transaction(3, 4, 4, BEGUN).stable(0, 7, 8).stable(11_001, 7, 9),
        [],
    ),
    "near miss: nothing is open": (_run().stable(0, 8, 8).stable(30_000, 8, 8), []),
    "near miss: it moves on": (_run().stable(0, 6, 8).stable(15_000, 7, 9).stable(30_000, 7, 9), []),
    "near miss: it was at rest before the transaction began": (
        _run().stable(0, 7, 7).stable(15_000, 7, 8).stable(30_000, 7, 9),
        [],
    ),
    "near miss: it moves on and falls back later": (
        _run().stable(0, 7, 8).stable(1_000, 8, 8).stable(30_000, 7, 8),
        [],
    ),
    "the offset falls back, and stands still from there on": (
        _run().stable(0, 7, 8).stable(1_000, 6, 8).stable(30_000, 7, 8).stable(51_000, 7, 9),
        [(0, 7, 0, 2, 21_000.0)],
    ),
    "near miss: two partitions": (_run().stable(0, 7, 8).stable(20_001, 7, 8, partition=1), []),
    "near miss: two topics": (_run().stable(0, 7, 8).stable(20_001, 7, 8, topic=1), []),
    "while another partition is at rest": (
        _run().stable(0, 7, 8).stable(9_000, 8, 8, partition=1).stable(20_001, 7, 9),
        [(0, 7, 0, 2, 20_001.0)],
    ),
    "while another topic is at rest": (
        _run().stable(0, 7, 8).stable(9_000, 8, 8, topic=1).stable(20_001, 7, 9),
        [(0, 7, 0, 2, 20_001.0)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_hanging_transaction(case: str) -> None:
    assert found("hanging_transaction", case, CASES, *COLUMNS) == CASES[case][1]
