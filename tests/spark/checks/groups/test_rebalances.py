"""rebalances: how often a group rebalanced, and how long its partitions had no owner."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("group", "rebalances", "unowned_partition_s", "disturbed")


def _load() -> History:
    """A load from 1 s to 100 s."""
    return History().send(0, 0, sent=1_000, done=100_000).log(0, 0)


CASES: Cases = {
    "one, reported in several events": (
        _load()
        .group(0, "assigned")
        .group(40_000, "revoked")
        .group(40_500, "assigned", 1)
        .group(40_600, "revoked", 1)
        .group(41_000, "assigned", 1),
        [(0, 1, 0.9, True)],
    ),
    "two, one after the other": (
        _load().group(0, "assigned").group(40_000, "revoked").group(42_000, "assigned", 1),
        [(0, 2, 2.0, True)],
    ),
    "one, reported in two events a second apart": (
        _load().group(0, "assigned").group(40_000, "revoked").group(41_000, "assigned", 1),
        [(0, 1, 1.0, True)],
    ),
    "two, a nanosecond more apart": (
        _load().group(0, "assigned").group(40_000, "revoked").group(41_000.000001, "assigned", 1),
        [(0, 2, 1.000000001, True)],
    ),
    "of one of two groups": (
        _load()
        .group(0, "assigned")
        .group(0, "assigned", 1, group=1)
        .group(50_000, "revoked", 1, group=1)
        .group(50_000, "assigned", 2, group=1),
        [(0, 0, 0.0, False), (1, 1, 0.0, True)],
    ),
    "of each of two groups": (
        _load()
        .group(0, "assigned")
        .group(40_000, "revoked")
        .group(42_000, "assigned", 1)
        .group(0, "assigned", 2, group=1)
        .group(60_000, "revoked", 2, group=1)
        .group(63_000, "assigned", 3, group=1),
        [(0, 2, 2.0, True), (1, 2, 3.0, True)],
    ),
    "just after another group's": (
        _load().group(0, "assigned").group(39_500, "assigned", 1, group=1).group(40_000, "revoked"),
        [(0, 1, 60.0, True), (1, 0, 0.0, False)],
    ),
    "near miss: only the initial assignment": (_load().group(0, "assigned"), [(0, 0, 0.0, False)]),
    "near miss: before the load, while the consumers join": (
        _load().group(-9_000, "assigned").group(-5_000, "revoked").group(-4_900, "assigned"),
        [(0, 0, 0.0, False)],
    ),
    "near miss: after the load, when the consumers leave": (
        _load().group(0, "assigned").group(101_000, "revoked"),
        [(0, 0, 0.0, False)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rebalances(case: str) -> None:
    assert found("rebalances", case, CASES, *COLUMNS) == CASES[case][1]
