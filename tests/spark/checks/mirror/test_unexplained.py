"""unexplained: messages missing from the mirror at a move that its lag does not explain."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("seq", "offset", "copied_to")


def _moved(*copied: int) -> History:
    """Four messages are acknowledged at dc1. The mirror holds those in `copied` when producers move to dc2 at 100."""
    history = History(topics=("orders", "dc2:dc1.orders", "dc2:orders"))
    for seq in range(4):
        history.send(seq, seq).log(seq, seq)
    for offset, seq in enumerate(copied):
        history.copied(offset, seq)
    history.state(90, 4, leader=4, epoch=0, topic=1, high_watermark=len(copied))
    return history.send(0, 0, producer=1, topic=2, sent=99, done=100).log(0, 0, producer=1, topic=2)


CASES: Cases = {
    "the mirror passed over one": (_moved(0, 2, 3), [(1, 1, 3)]),
    "the mirror passed over one and lagged by another": (_moved(0, 2), [(1, 1, 2)]),
    "the mirror passed over two": (_moved(2, 3), [(0, 0, 3), (1, 1, 3)]),
    "near miss: the mirror lagged by two": (_moved(0, 1), []),
    "near miss: the mirror had nothing yet": (_moved(), []),
    "near miss: the mirror had everything": (_moved(0, 1, 2, 3), []),
}


@pytest.mark.parametrize("case", CASES)
def test_unexplained(case: str) -> None:
    assert found("unexplained", case, CASES, *COLUMNS) == CASES[case][1]
