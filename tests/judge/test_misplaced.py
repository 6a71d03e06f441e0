"""Misplaced: a log that was not put into a directory with the fewest."""

from __future__ import annotations

import pytest
from asking import Cases, found
from histories import History, at

COLUMNS = ("broker", "step", "directory", "held", "fewest")


def _held(*looks: list[int], broker: int = 1, also: dict[int, list[list[int]]] | None = None) -> History:
    """Each look is how many logs each directory holds; logs never move."""
    history = History().send(0, 0).log(0, 0)
    for number, steps in {broker: list(looks), **(also or {})}.items():
        for step, counts in enumerate(steps):
            for directory, count in enumerate(counts, start=1):
                names = [f"t{directory}-{log}" for log in range(count)]
                row = {"step": step, "at_ns": at(step), "broker": number, "directory": directory, "partitions": names}
                history.rows["places"].append(row)
    return history


CASES: Cases = {
    "all in one": (_held([0, 0], [2, 0]), [(1, 1, 1, 2, 0)]),
    "past the empty third": (_held([4, 4], [4, 5, 0]), [(1, 1, 2, 5, 0)]),
    "of another broker": (_held([0, 0], [1, 1], also={2: [[0, 0], [0, 3]]}), [(2, 1, 2, 3, 0)]),
    "at a later step": (_held([0, 0], [1, 1], [1, 3]), [(1, 2, 2, 3, 1)]),
    "near miss: even": (_held([0, 0], [2, 2]), []),
    "near miss: one more, for somebody has to be first": (_held([0, 0], [2, 1]), []),
    "near miss: the third catches up": (_held([4, 4], [4, 4, 3]), []),
    "near miss: the third has caught up, and all go on": (_held([4, 4], [5, 4, 5]), []),
    "near miss: it was uneven before": (_held([6, 0], [6, 3]), []),
    "near miss: the first look is at what was there": (_held([6, 0]), []),
}


@pytest.mark.parametrize("case", CASES)
def test_misplaced(case: str) -> None:
    assert found("misplaced", case, CASES, *COLUMNS) == CASES[case][1]
