"""Shares: what each member of a group read."""

from __future__ import annotations

import pytest
from asking import Cases, found
from histories import History

COLUMNS = ("group", "consumer", "read", "partitions", "share")


def _read(*reads: tuple[int, int, int]) -> History:
    """(group, consumer, partition) of each read."""
    history = History().send(0, 0).log(0, 0)
    for offset, (group, consumer, partition) in enumerate(reads):
        history.read(offset, offset, group=group, consumer=consumer, partition=partition)
    return history


CASES: Cases = {
    "two share": (_read((0, 0, 0), (0, 0, 1), (0, 0, 1), (0, 1, 2)), [(0, 0, 3, 2, 0.75), (0, 1, 1, 1, 0.25)]),
    "two groups, each for itself": (_read((0, 0, 0), (1, 1, 0)), [(0, 0, 1, 1, 1.0), (1, 1, 1, 1, 1.0)]),
    "near miss: nobody reads": (_read(), []),
}


@pytest.mark.parametrize("case", CASES)
def test_shares(case: str) -> None:
    assert found("shares", case, CASES, *COLUMNS) == CASES[case][1]
