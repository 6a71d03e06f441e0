"""receivers: what each receiver accepted, dropped and cost, beside what the scenario expects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.asking import Cases, found, witnesses
from tests.support.histories import FIRST_RUN, History

COLUMNS = ("consumer", "messages", "accepted", "duplicate_accepted", "wrongly_dropped", "wrong")


def _expecting(copies: str, drops: str, *received: tuple[int, bool]) -> History:
    """Messages 0 and 1, with a copy of 0; the numbers that the receiver was given, and whether it accepted them."""
    history = History().send(0, 0).send(1, 1).log(0, 0).log(1, 1).log(2, 0).receiver("ids", copies, drops)
    for offset, (seq, accepted) in enumerate(received):
        history.received(offset, seq, accepted=accepted)
    return history


RIGHT = ((0, True), (1, True), (0, False))
COPY = ((0, True), (1, True), (0, True))
DROP = ((0, True), (1, False), (0, False))

CASES: Cases = {
    "a copy, forbidden": (_expecting("forbidden", "forbidden", *COPY), [(0, 3, 3, 1, 0, True)]),
    "a drop, forbidden": (_expecting("forbidden", "forbidden", *DROP), [(0, 3, 1, 0, 1, True)]),
    "no copy, required": (_expecting("required", "forbidden", *RIGHT), [(0, 3, 2, 0, 0, True)]),
    "no drop, required": (_expecting("forbidden", "required", *RIGHT), [(0, 3, 2, 0, 0, True)]),
    "one that did nothing": (_expecting("forbidden", "forbidden"), [(0, 0, 0, 0, 2, True)]),
    "one of two": (
        _expecting("forbidden", "forbidden", *RIGHT).receiver("nothing", "required").received(0, 0, consumer=1),
        [(0, 3, 2, 0, 0, False), (1, 1, 1, 0, 1, True)],
    ),
    "each of two, with copies and drops": (
        _expecting("forbidden", "forbidden", *COPY, (1, True))
        .log(3, 1)
        .send(2, 4)
        .log(4, 2)
        .receiver("nothing", "forbidden")
        .received(0, 0, consumer=1)
        .received(2, 0, consumer=1),
        [(0, 4, 4, 2, 1, True), (1, 2, 2, 1, 2, True)],
    ),
    "near miss: neither, forbidden": (_expecting("forbidden", "forbidden", *RIGHT), [(0, 3, 2, 0, 0, False)]),
    "near miss: a copy, required": (_expecting("required", "forbidden", *COPY), [(0, 3, 3, 1, 0, False)]),
    "near miss: a drop, required": (_expecting("forbidden", "required", *DROP), [(0, 3, 1, 0, 1, False)]),
    "near miss: a copy, allowed": (_expecting("allowed", "forbidden", *COPY), [(0, 3, 3, 1, 0, False)]),
    "near miss: a drop, allowed": (_expecting("forbidden", "allowed", *DROP), [(0, 3, 1, 0, 1, False)]),
}


@pytest.mark.parametrize("case", CASES)
def test_receivers(case: str) -> None:
    assert found("receivers", case, CASES, *COLUMNS) == CASES[case][1]


def test_the_cost_of_a_receiver_without_messages() -> None:
    history = replace(_expecting("forbidden", "forbidden"), run=FIRST_RUN + 101)
    (row,) = witnesses("receivers", history.cost(1, messages=0, deciding=0, handling=0, memory=100, disk=5))
    assert (row["us_each"], row["deciding_us_each"], row["memory_bytes"]) == (None, None, 100)


def test_the_cost_of_a_receiver() -> None:
    history = replace(_expecting("forbidden", "forbidden", *RIGHT), run=FIRST_RUN + 100)
    history.cost(1, messages=10, deciding=20, handling=50, memory=100, disk=5)
    history.cost(2, messages=30, deciding=20, handling=150, memory=160, disk=9)
    history.receiver("nothing").cost(3, messages=10, deciding=90, handling=90, memory=900, disk=90)
    history.rows["costs"][-1]["consumer"] = 1
    row, _ = sorted(witnesses("receivers", history), key=lambda row: int(row["consumer"]))
    names = ("us_each", "deciding_us_each", "memory_bytes", "grown_bytes", "disk_bytes")
    assert tuple(row[name] for name in names) == (5.0, 1.0, 160, 60, 9)
