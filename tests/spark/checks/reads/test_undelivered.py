"""undelivered: a record of the log that a group was never given."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("group", "offset", "seq")


def _beside(starts: Literal["earliest", "latest"]) -> History:
    """A group that owns partition 0 and never owned partition 1."""
    history = History(starts=starts).send(0, 0, partition=1).log(0, 0, partition=1)
    return history.send(1, 0).log(0, 1).group(0, "assigned").read(0, 1)


def _sent(count: int = 3, starts: Literal["earliest", "latest"] = "earliest") -> History:
    history = History(starts=starts)
    for seq in range(count):
        history.send(seq, seq).log(seq, seq)
    return history


CASES: Cases = {
    "a record that no consumer was given": (
        _sent().group(0, "assigned").read(0, 0).read(2, 2),
        [(0, 1, 1)],
    ),
    "given to another group only": (
        _sent(1).group(0, "assigned").group(0, "assigned", 1, group=1).read(0, 0, group=1, consumer=1),
        [(0, 0, 0)],
    ),
    "at the very beginning of the group's part": (
        _sent(2).group(0, "assigned", position=1).read(5, 9),
        [(0, 1, 1)],
    ),
    "another producer's message of that number was given": (
        _sent(1).group(0, "assigned").read(5, 0, producer=1),
        [(0, 0, 0)],
    ),
    "the beginning is where the first was placed, not a later one": (
        _sent(2).group(0, "assigned", position=0).group(9, "assigned", 1, position=2).read(1, 1),
        [(0, 0, 0)],
    ),
    "each partition, topic and group begins by itself": (
        History(topics=("orders", "payments"))
        .send(0, 0)
        .log(0, 0)
        .send(1, 0, partition=1)
        .log(0, 1, partition=1)
        .send(2, 0, topic=1)
        .log(0, 2, topic=1)
        .group(0, "assigned", position=1)
        .group(1, "assigned", position=1, partition=1)
        .group(2, "assigned", position=0, topic=1)
        .group(3, "assigned", 1, position=1, group=1)
        .group(4, "assigned", 1, position=1, group=1, partition=1),
        [(0, 0, 2)],
    ),
    "near miss: all given": (_sent(2).group(0, "assigned").read(0, 0).read(1, 1), []),
    "near miss: given by two consumers of the group": (
        _sent(2).group(0, "assigned").group(1, "assigned", 1).read(0, 0).read(1, 1, consumer=1),
        [],
    ),
    "near miss: before the group's part": (_sent(2).group(0, "assigned", position=1).read(1, 1), []),
    "near miss: lost, so it could not be delivered": (
        History().send(0, 0).send(1, 1).log(0, 0).group(0, "assigned").read(0, 0),
        [],
    ),
    "near miss: compacted away before the group came to it": (
        History().send(0, 0, key=5).send(1, 1, key=5).log(1, 1).end(2, compacted=True).group(0, "assigned").read(1, 1),
        [],
    ),
    "near miss: given at another offset, before it moved": (_sent(1).group(0, "assigned").read(7, 0), []),
    "a partition that no consumer of the group ever had": (_beside("earliest"), [(0, 0, 0)]),
    "near miss: the same, for a group that reads from the latest on": (_beside("latest"), []),
    "near miss: the beginning is unknown": (_sent(1, "latest").group(0, "assigned", position=None), []),
    "near miss: a record that is not ours": (
        History().send(0, 0).log(0, 0).log(1, -1, producer=-1).group(0, "assigned").read(0, 0),
        [],
    ),
    "near miss: a half readable record": (
        History().log(0, -1).log(1, 0, producer=-1).group(0, "assigned").read(5, 9),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_undelivered(case: str) -> None:
    assert found("undelivered", case, CASES, *COLUMNS) == CASES[case][1]
