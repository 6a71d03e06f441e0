"""poll_skip: a consumer jumps over records that exist."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("consumer", "previous_offset", "offset", "skipped", "first_skipped")


def _dense(count: int) -> History:
    history = History()
    for offset in range(count):
        history.log(offset, offset)
    return history


def _compacted(partition: int = 0) -> History:
    history = History().log(0, 0, partition=partition).log(2, 2, partition=partition)
    return history.end(3, partition=partition, compacted=True)


def _in_transaction(outcome: str, *events: tuple[str, float]) -> History:
    """One message of a transaction, between two others, that only the second consumer was given."""
    made = History(producers=[{"transactions": {"input": "orders"}}]).send(1, 1, outcome=outcome)
    made.transaction(1, 1, 1, *events).log(0, 0).log(2, 2)
    return made.read(0, 0).read(2, 2).read(1, 1, consumer=1)


def _everywhere() -> History:
    """Two consumers, each in two partitions of two topics, skip the same at the same moments."""
    history = History()
    places = [(consumer, topic, partition) for consumer in (0, 1) for topic in (0, 1) for partition in (0, 1)]
    for consumer, topic, partition in places:
        for offset in (0, 2):
            place: dict[str, Any] = {"topic": topic, "partition": partition}
            history.read(offset, offset, consumer=consumer, when=offset, **place)
            history.rows["reads"][-1]["poll"] = offset
            if consumer == 0:
                history.log(offset, offset, **place).log(offset + 1, offset + 1, **place)
    return history


CASES: Cases = {
    "each consumer in each partition of each topic": (_everywhere(), [(0, 0, 2, 1, 1)] * 4 + [(1, 0, 2, 1, 1)] * 4),
    "near miss: over a record that only one reader saw, whose producer died": (
        _in_transaction("info", ("begun", 0.0)),
        [],
    ),
    "over one record": (_dense(3).read(0, 0).read(2, 2), [(0, 0, 2, 1, 1)]),
    "over two of three offsets": (
        History().log(0, 0).log(1, 1).log(3, 3).log(4, 4).read(0, 0).read(4, 4),
        [(0, 0, 4, 2, 1)],
    ),
    "over a record that only another consumer saw": (
        History().log(0, 0).log(2, 2).read(0, 0).read(2, 2).read(1, 1, consumer=1),
        [(0, 0, 2, 1, 1)],
    ),
    "near miss: over a record that compaction removed after another consumer saw it": (
        _compacted().read(1, 1, consumer=1).read(0, 0).read(2, 2),
        [],
    ),
    "over what a compacted topic still holds": (_compacted().log(1, 1).read(0, 0).read(2, 2), [(0, 0, 2, 1, 1)]),
    "over a record that only another consumer saw, beside a compacted partition": (
        _compacted(partition=1).log(0, 0).log(2, 2).read(1, 1, consumer=1).read(0, 0).read(2, 2),
        [(0, 0, 2, 1, 1)],
    ),
    "over a record that only another consumer saw, beside a compacted topic": (
        History().end(0, topic=1, compacted=True).log(0, 0).log(2, 2).read(1, 1, consumer=1).read(0, 0).read(2, 2),
        [(0, 0, 2, 1, 1)],
    ),
    "over a record that only another consumer saw, whose number is aborted of another producer": (
        History(producers=[{"transactions": {"input": "orders"}}])
        .send(1, outcome="fail")
        .transaction(1, 1, 1, ("begun", 0.0), ("aborting", 1.0), ("aborted", 2.0))
        .log(0, 0)
        .log(2, 2)
        .read(0, 0)
        .read(2, 2)
        .read(1, 1, producer=1, consumer=1),
        [(0, 0, 2, 1, 1)],
    ),
    "over a record of a mirror": (
        History().copied(0, 0).copied(1, 1).copied(2, 2).read(0, 0, topic=1).read(2, 2, topic=1),
        [(0, 0, 2, 1, 1)],
    ),
    "near miss: over an offset that the mirror left free": (
        History().copied(0, 0).copied(2, 1).log(1, 5).read(0, 0, topic=1).read(2, 1, topic=1),
        [],
    ),
    "over many records": (_dense(600).read(10, 10).read(590, 590), [(0, 10, 590, 579, 11)]),
    "from the end of a block of offsets to the next": (
        _dense(260).read(254, 254).read(257, 257),
        [(0, 254, 257, 2, 255)],
    ),
    "and further": (_dense(260).read(254, 254).read(258, 258), [(0, 254, 258, 3, 255)]),
    "near miss: over a record that only a reader of uncommitted messages saw": (
        _in_transaction("fail", ("begun", 0.0), ("aborting", 1.0), ("aborted", 2.0)),
        [],
    ),
    "over what was committed and got lost, which another consumer saw": (
        _in_transaction("ok", ("begun", 0.0), ("committing", 1.0), ("committed", 2.0)),
        [(0, 0, 2, 1, 1)],
    ),
    "near miss: over a marker": (History().log(0, 0).log(2, 2).end(3, transactional=True).read(0, 0).read(2, 2), []),
    "near miss: one after the other": (_dense(3).read(0, 0).read(1, 1).read(2, 2), []),
    "near miss: under another assignment": (_dense(3).read(0, 0).read(2, 2, assignment=2), []),
    "near miss: another consumer reads on": (_dense(3).read(0, 0).read(2, 2, consumer=1), []),
    "near miss: another partition": (_dense(3).read(0, 0).read(2, 2, partition=1), []),
    "near miss: a step back": (_dense(3).read(2, 2).read(0, 0), []),
    "over a record that is in the log and that another consumer saw": (
        _dense(3).read(0, 0).read(2, 2).read(1, 1, consumer=1),
        [(0, 0, 2, 1, 1)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_poll_skip(case: str) -> None:
    assert found("poll_skip", case, CASES, *COLUMNS) == CASES[case][1]
