"""partition_shares: what each member of a group read, and whether as many read as expected."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("group", "consumer", "read", "partitions", "share", "wrong")


def _read(*reads: tuple[int, int, int], idle: tuple[int, ...] = (), readers: int | None = None) -> History:
    """(group, consumer, partition) of each read; idle members of group 0."""
    history = History(readers=readers).send(0, 0).log(0, 0)
    for offset, (group, consumer, partition) in enumerate(reads):
        history.read(offset, offset, group=group, consumer=consumer, partition=partition)
    for consumer in idle:
        history.group(0, "assigned", consumer)
    return history


CASES: Cases = {
    "two share": (
        _read((0, 0, 0), (0, 0, 1), (0, 0, 1), (0, 1, 2)),
        [(0, 0, 3, 2, 0.75, False), (0, 1, 1, 1, 0.25, False)],
    ),
    "two groups, each for itself": (_read((0, 0, 0), (1, 1, 0)), [(0, 0, 1, 1, 1.0, False), (1, 1, 1, 1, 1.0, False)]),
    "one idles, and both should read": (
        _read((0, 0, 0), idle=(1,), readers=2),
        [(0, 0, 1, 1, 1.0, True), (0, 1, 0, 0, 0.0, True)],
    ),
    "both read, and one should idle": (
        _read((0, 0, 0), (0, 1, 1), readers=1),
        [(0, 0, 1, 1, 0.5, True), (0, 1, 1, 1, 0.5, True)],
    ),
    "near miss: one idles, as expected": (
        _read((0, 0, 0), idle=(1,), readers=1),
        [(0, 0, 1, 1, 1.0, False), (0, 1, 0, 0, 0.0, False)],
    ),
    "near miss: no member": (_read(), []),
}


@pytest.mark.parametrize("case", CASES)
def test_partition_shares(case: str) -> None:
    assert found("partition_shares", case, CASES, *COLUMNS) == CASES[case][1]
