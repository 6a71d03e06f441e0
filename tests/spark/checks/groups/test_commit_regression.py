"""commit_regression: a group's committed offset goes back."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("highest", "offset")


CASES: Cases = {
    "by the same consumer": (History().commit(1, 5).commit(2, 3), [(5, 3)]),
    "by another consumer": (History().commit(1, 5).commit(2, 3, consumer=1), [(5, 3)]),
    "below the highest, not below the last": (History().commit(1, 5).commit(2, 3).commit(3, 4), [(5, 3), (5, 4)]),
    "near miss: the same again": (History().commit(1, 5).commit(2, 5), []),
    "near miss: forward": (History().commit(1, 3).commit(2, 5), []),
    "near miss: written down in another order": (History().commit(2, 5).commit(1, 3), []),
    "near miss: another partition": (History().commit(1, 5).commit(2, 3, partition=1), []),
    "near miss: another topic": (History().commit(1, 5).commit(2, 3, topic=1), []),
    "near miss: another group": (History().commit(1, 5).commit(2, 3, group=1), []),
    "near miss: the higher one was refused": (History().commit(1, 5, outcome="info").commit(2, 3), []),
    "near miss: the lower one was refused": (History().commit(1, 5).commit(2, 3, outcome="fail"), []),
}


@pytest.mark.parametrize("case", CASES)
def test_commit_regression(case: str) -> None:
    assert found("commit_regression", case, CASES, *COLUMNS) == CASES[case][1]
