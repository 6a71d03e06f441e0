"""log_dir_placement: a log that was not put into a directory with the fewest."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History, at

COLUMNS = ("broker", "step", "before", "after", "documented", "wrong")


def _held(*looks: list[int], broker: int = 1, also: dict[int, list[list[int]]] | None = None) -> History:
    """A broker whose directories hold this many logs at each look. Logs never move."""
    history = History().send(0, 0).log(0, 0)
    for number, steps in {broker: list(looks), **(also or {})}.items():
        for step, counts in enumerate(steps):
            for directory, count in enumerate(counts, start=1):
                names = [f"t{directory}-{log}" for log in range(count)]
                row = {"step": step, "at_ns": at(step), "broker": number, "directory": directory, "partitions": names}
                history.rows["places"].append(row)
    return history


CASES: Cases = {
    "all in one": (_held([0, 0], [2, 0]), [(1, 1, [0, 0], [2, 0], [1, 1], True)]),
    "past the empty third": (_held([4, 4], [4, 5, 0]), [(1, 1, [4, 4, 0], [4, 5, 0], [4, 4, 1], True)]),
    "of another broker": (
        _held([0, 0], [1, 1], also={2: [[0, 0], [0, 3]]}),
        [(1, 1, [0, 0], [1, 1], [1, 1], False), (2, 1, [0, 0], [0, 3], [2, 1], True)],
    ),
    "at a later step": (
        _held([0, 0], [1, 1], [1, 3]),
        [(1, 1, [0, 0], [1, 1], [1, 1], False), (1, 2, [1, 1], [1, 3], [2, 2], True)],
    ),
    "near miss: even": (_held([0, 0], [2, 2]), [(1, 1, [0, 0], [2, 2], [2, 2], False)]),
    "near miss: one more log, because one directory has to be first": (
        _held([0, 0], [1, 2]),
        [(1, 1, [0, 0], [1, 2], [2, 1], False)],
    ),
    "near miss: the third catches up": (_held([4, 4], [4, 4, 3]), [(1, 1, [4, 4, 0], [4, 4, 3], [4, 4, 3], False)]),
    "near miss: the third has caught up, and all go on": (
        _held([4, 4], [5, 4, 5]),
        [(1, 1, [4, 4, 0], [5, 4, 5], [5, 5, 4], False)],
    ),
    "near miss: it was uneven before": (_held([6, 0], [6, 3]), [(1, 1, [6, 0], [6, 3], [6, 3], False)]),
    "near miss: the first look shows the logs that were there before": (_held([6, 0]), []),
}


@pytest.mark.parametrize("case", CASES)
def test_log_dir_placement(case: str) -> None:
    assert found("log_dir_placement", case, CASES, *COLUMNS) == CASES[case][1]
