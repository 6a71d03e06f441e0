"""dual_ownership: two consumers of a group believe that they own one partition."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History, at

COLUMNS = ("one_consumer", "other_consumer", "from_ns", "to_ns")


def _load() -> History:
    """A load that lasts until 100."""
    return History().send(0, 0, done=100).log(0, 0)


CASES: Cases = {
    "one never gave it back": (_load().group(0, "assigned").group(50, "assigned", 1), [(0, 1, at(50), at(100))]),
    "one gave it back late": (
        _load().group(0, "assigned").group(50, "assigned", 1).group(60, "revoked"),
        [(0, 1, at(50), at(60))],
    ),
    "near miss: one after the other": (
        _load().group(0, "assigned").group(40, "revoked").group(50, "assigned", 1),
        [],
    ),
    "near miss: at the very moment": (_load().group(0, "assigned").group(50, "revoked").group(50, "assigned", 1), []),
    "near miss: it was dead by then": (_load().group(0, "assigned").gone(40, 0).group(50, "assigned", 1), []),
    "dead only later": (_load().group(0, "assigned").group(50, "assigned", 1).gone(60, 0), [(0, 1, at(50), at(60))]),
    "dead once, and back": (
        _load().group(0, "assigned").gone(10, 0).group(20, "assigned", assignment=2).group(50, "assigned", 1),
        [(0, 1, at(50), at(100))],
    ),
    "near miss: two partitions": (_load().group(0, "assigned").group(50, "assigned", 1, partition=1), []),
    "near miss: two topics": (_load().group(0, "assigned").group(50, "assigned", 1, topic=1), []),
    "one gave back another partition": (
        _load().group(0, "assigned").group(40, "revoked", partition=1).group(50, "assigned", 1),
        [(0, 1, at(50), at(100))],
    ),
    "one gave back that partition of another topic": (
        _load().group(0, "assigned").group(40, "revoked", topic=1).group(50, "assigned", 1),
        [(0, 1, at(50), at(100))],
    ),
    "near miss: two groups": (_load().group(0, "assigned").group(50, "assigned", 1, group=1), []),
    "near miss: the same consumer again": (_load().group(0, "assigned").group(50, "assigned", assignment=2), []),
    "near miss: lost it": (_load().group(0, "assigned").group(40, "lost").group(50, "assigned", 1), []),
}


@pytest.mark.parametrize("case", CASES)
def test_dual_ownership(case: str) -> None:
    assert found("dual_ownership", case, CASES, *COLUMNS) == CASES[case][1]
