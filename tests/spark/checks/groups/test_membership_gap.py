"""membership_gap: a broker that was a member, and then was not for a while."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History, at

COLUMNS = ("source", "broker", "from_ns", "to_ns")


def _said(*answers: tuple[float, str, list[int]]) -> History:
    history = History().send(0, 0).log(0, 0)
    for when, source, brokers in answers:
        history.rows["members"].append({"at_ns": at(when), "source": source, "brokers": brokers})
    return history


CASES: Cases = {
    "gone and back": (
        _said((1, "zk1", [1, 2]), (2, "zk1", [1]), (3, "zk1", [1]), (4, "zk1", [1, 2])),
        [("zk1", 2, at(2), at(4))],
    ),
    "gone for good": (_said((1, "zk1", [1, 2]), (2, "zk1", [1])), [("zk1", 2, at(2), None)]),
    "twice": (
        _said((1, "zk1", [1]), (2, "zk1", []), (3, "zk1", [1]), (4, "zk1", []), (5, "zk1", [1])),
        [("zk1", 1, at(2), at(3)), ("zk1", 1, at(4), at(5))],
    ),
    "each source for itself": (
        _said((1, "zk1", [1, 2]), (1, "kafka1", [1, 2]), (2, "zk1", [1]), (5, "kafka1", [1])),
        [("kafka1", 2, at(5), None), ("zk1", 2, at(2), None)],
    ),
    "near miss: not yet there": (_said((1, "zk1", [1]), (2, "zk1", [1, 2])), []),
    "near miss: always there": (_said((1, "zk1", [1, 2]), (2, "zk1", [2, 1])), []),
    "near miss: only another source had named it": (_said((1, "kafka1", [1, 2]), (2, "zk1", [1])), []),
}


@pytest.mark.parametrize("case", CASES)
def test_membership_gap(case: str) -> None:
    assert found("membership_gap", case, CASES, *COLUMNS) == CASES[case][1]
