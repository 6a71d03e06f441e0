"""ownership_gap: a period in which a partition has no owner."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("partition", "gap_ns")


MS = 1_000_000


def _load() -> History:
    """A load that lasts until 100."""
    return History().send(0, 0, done=100).log(0, 0)


CASES: Cases = {
    "between two owners": (
        _load().group(0, "assigned").group(40, "revoked").group(50, "assigned", 1),
        [(0, 10 * MS)],
    ),
    "after a death": (_load().group(0, "assigned").gone(30, 0).group(50, "assigned", 1), [(0, 20 * MS)]),
    "to the end": (_load().group(0, "assigned").group(80, "revoked"), [(0, 20 * MS)]),
    "while another group owns it": (
        _load().group(0, "assigned").group(40, "revoked").group(0, "assigned", 1, group=1),
        [(0, 60 * MS)],
    ),
    "never": (
        _load().log(0, 9, partition=1).group(0, "assigned"),
        [(1, 100 * MS)],
    ),
    "never, by a group of two": (
        _load().log(0, 9, partition=1).group(0, "assigned").read(0, 0, consumer=1),
        [(1, 100 * MS)],
    ),
    "only after the load": (_load().group(120, "assigned"), [(0, 100 * MS)]),
    "only as the load ends": (_load().group(100, "assigned"), [(0, 100 * MS)]),
    "near miss: given to it again at the moment of its death": (
        _load().group(0, "assigned").gone(40, 0).group(40, "assigned", assignment=2),
        [],
    ),
    "near miss: nothing was sent": (History().log(0, 9, partition=1).group(0, "assigned"), []),
    "near miss: a load of no length": (
        History().send(0, 0, sent=0, done=0).log(0, 0).log(0, 9, partition=1).group(0, "assigned"),
        [],
    ),
    "near miss: a topic that the group does not read": (_load().log(0, 9, topic=1).group(0, "assigned"), []),
    "near miss: one owner all the time": (_load().group(0, "assigned"), []),
    "near miss: handed over at once": (_load().group(0, "assigned").group(50, "revoked").group(50, "assigned", 1), []),
    "near miss: two owners, one inside the other's time": (
        _load().group(0, "assigned").group(20, "assigned", 1).group(30, "revoked", 1),
        [],
    ),
    "near miss: while the consumers join, before the load": (
        History()
        .send(0, 0, sent=50, done=100)
        .log(0, 0)
        .group(0, "assigned")
        .group(10, "revoked")
        .group(40, "assigned", 1),
        [],
    ),
    "only what lies in the load": (
        History()
        .send(0, 0, sent=50, done=100)
        .log(0, 0)
        .group(0, "assigned")
        .group(10, "revoked")
        .group(70, "assigned", 1),
        [(0, 20 * MS)],
    ),
    "near miss: before the first owner": (_load().group(50, "assigned"), []),
    "of its own partition only": (
        _load()
        .log(0, 9, partition=1)
        .group(0, "assigned")
        .group(0, "assigned", 1, partition=1)
        .group(40, "revoked", 1, partition=1)
        .group(60, "assigned", partition=1),
        [(1, 20 * MS)],
    ),
    "while that partition of another topic has an owner": (
        _load()
        .group(0, "assigned")
        .group(40, "revoked")
        .group(50, "assigned", 1)
        .log(0, 9, topic=1)
        .group(0, "assigned", 2, topic=1),
        [(0, 10 * MS)],
    ),
    "never, while that partition of another topic has an owner": (
        _load().group(0, "assigned", topic=1),
        [(0, 100 * MS)],
    ),
    "never, where another group owns it": (
        _load().group(0, "assigned").read(0, 0, consumer=1, group=1),
        [(0, 100 * MS)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_ownership_gap(case: str) -> None:
    assert found("ownership_gap", case, CASES, *COLUMNS) == CASES[case][1]
