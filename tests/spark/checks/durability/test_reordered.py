"""reordered: a step back in the order of one producer in one partition."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("producer", "seq", "offset", "previous_seq", "previous_offset")
CASES: Cases = {
    "sent second, stands first": (
        History().send(0, 1).send(1, 0).log(0, 1).log(1, 0),
        [(0, 1, 0, 0, 1)],
    ),
    "one that came late counts once": (
        History().send(0, 2).send(1, 0).send(2, 1).log(0, 1).log(1, 2).log(2, 0),
        [(0, 1, 0, 0, 2)],
    ),
    "a send of unknown outcome counts too": (
        History().send(0, outcome="info").send(1, 0).log(0, 1).log(1, 0),
        [(0, 1, 0, 0, 1)],
    ),
    "near miss: in order with a gap": (History().send(0, 0).send(2, 1).log(0, 0).log(1, 2), []),
    "near miss: a copy appended later is no step back": (
        History().send(0, 0).send(1, 1).log(0, 0).log(1, 1).log(2, 0),
        [],
    ),
    "near miss: two producers interleaved": (
        History().send(0, 1).send(1, 2).send(0, 0, producer=1).log(0, 0, producer=1).log(1, 0).log(2, 1),
        [],
    ),
    "near miss: two partitions": (
        History().send(0, 1).send(1, 0, partition=1).log(0, 9).log(1, 0).log(0, 1, partition=1),
        [],
    ),
    "near miss: a phantom is out of every order": (
        History().send(0, 1).send(1, 2).log(0, 7).log(1, 0).log(2, 1),
        [],
    ),
    "near miss: two topics": (
        History().send(0, 1).send(1, 0, topic=1).log(0, 9).log(1, 0).log(0, 1, topic=1),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_reordered(case: str) -> None:
    assert found("reordered", case, CASES, *COLUMNS) == CASES[case][1]
