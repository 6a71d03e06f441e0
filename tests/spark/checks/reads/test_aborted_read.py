"""aborted_read: a consumer is given a message although its send certainly failed."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("offset", "producer", "seq")
ABORTED = (("begun", 0.0), ("aborting", 5.0), ("aborted", 6.0))


def _in_transaction(consumer: int) -> History:
    """The first consumer asks for committed messages, the second for all."""
    isolations = [{"isolation": "read_committed"}, {"isolation": "read_uncommitted"}]
    made = History(producers=[{"transactions": {"input": "orders"}}], consumers=isolations)
    made.send(0, 0, outcome="fail").read(0, 0, consumer=consumer).transaction(1, 0, 0, *ABORTED)
    return made.group(0, "assigned", 0).group(0, "assigned", 1)


CASES: Cases = {
    "of a transaction that was aborted": (_in_transaction(0), [(0, 0, 0)]),
    "near miss: by a reader of uncommitted messages": (_in_transaction(1), []),
    "of no transaction, by a reader of uncommitted messages": (
        _in_transaction(1).send(0, outcome="fail", producer=1).read(1, 0, producer=1, consumer=1),
        [(1, 1, 0)],
    ),
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
