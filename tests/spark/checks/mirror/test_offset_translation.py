"""offset_translation: where a group would continue at a mirror."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("mirror_offset", "offset", "again", "missed", "ahead")


def _copied() -> History:
    """Four records; the mirror's offsets are ten higher."""
    history = History()
    for seq in range(4):
        history.log(seq, seq).copied(seq + 10, seq)
    return history


def _copied_anew() -> History:
    """The same; then the mirror was killed, and copied the last two once more, to 14 and 15."""
    return _copied().copied(14, 2).copied(15, 3)


def _everywhere() -> History:
    """The same of two partitions, and in one of them of two groups."""
    history = _copied().stands(13, 1).stands(13, 1, partition=1)
    for seq in range(4):
        history.log(seq, seq, partition=1).copied(seq + 10, seq, partition=1)
    history.rows["translated"].append({**history.rows["translated"][0], "group": 1})
    return history


CASES: Cases = {
    "each partition and each group by itself": (_everywhere(), [(13, 1, 0, 2, True)] * 3),
    "too high, and another group had moved there before": (
        _copied()
        .stands(13, 1, when=900)
        .read(10, 0, topic=1, when=800, group=1, consumer=1)
        .read(13, 3, topic=1, when=901),
        [(13, 1, 0, 2, True)],
    ),
    "too high: two would be missed": (_copied().stands(13, 1), [(13, 1, 0, 2, True)]),
    "too high by one": (_copied().stands(12, 1), [(12, 1, 0, 1, True)]),
    "each look for itself": (
        _copied().stands(13, 1).stands(11, 1, when=950),
        [(11, 1, 0, 0, False), (13, 1, 0, 2, True)],
    ),
    "too high before the group moved there": (
        _copied().stands(13, 1, when=900).read(13, 3, topic=1, when=901),
        [(13, 1, 0, 2, True)],
    ),
    "too high for the second copy, too": (_copied_anew().stands(15, 2), [(15, 2, 0, 1, True)]),
    "near miss: the second copy is still to come": (_copied_anew().stands(14, 2), [(14, 2, 0, 0, False)]),
    "near miss: the second copy would be read again": (_copied_anew().stands(14, 4), [(14, 4, 2, 0, False)]),
    "near miss: a copy that the topic holds, too": (
        _copied().log(4, 1).copied(14, 1).stands(12, 2),
        [(12, 2, 0, 0, False)],
    ),
    "too high, but not for what the group had before, of which a copy is to come": (
        _copied().log(4, 1).copied(14, 1).stands(15, 2),
        [(15, 2, 0, 2, True)],
    ),
    "near miss: what the mirror never held is not read again": (
        _copied().log(4, 9).stands(14, 5),
        [(14, 5, 0, 0, False)],
    ),
    "near miss: nor does an offset at the mirror miss it": (_copied().log(4, 9).stands(14, 4), [(14, 4, 0, 0, False)]),
    "near miss: the group reads at the mirror, and committed there by itself": (
        _copied().stands(13, 1, when=900).read(10, 0, topic=1, when=800),
        [],
    ),
    "near miss: the group reads there at that moment": (
        _copied().stands(13, 1, when=900).read(10, 0, topic=1, when=900),
        [],
    ),
    "near miss: the group reads there, before and after": (
        _copied().stands(13, 1, when=900).read(10, 0, topic=1, when=800).read(11, 1, topic=1, when=950),
        [],
    ),
    "near miss: neither holds anything": (_copied().stands(0, 0, partition=1), [(0, 0, 0, 0, False)]),
    "near miss: it still reads here": (
        _copied().stands(12, 2, when=900).read(0, 0, when=800),
        [(12, 2, 0, 0, False)],
    ),
    "near miss: exactly at its offset": (_copied().stands(12, 2), [(12, 2, 0, 0, False)]),
    "near miss: at both ends": (_copied().stands(14, 4), [(14, 4, 0, 0, False)]),
    "near miss: too low: two would be read again": (_copied().stands(10, 2), [(10, 2, 2, 0, False)]),
    "near miss: the group has no offset there": (_copied().stands(None, 2), [(None, 2, 0, 0, False)]),
    "near miss: nor here": (_copied().stands(12, None), [(12, None, 0, 0, False)]),
    "near miss: another partition's": (
        _copied().log(0, 9, partition=1).copied(0, 9, partition=1).stands(0, 0, partition=1),
        [(0, 0, 0, 0, False)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_offset_translation(case: str) -> None:
    assert found("offset_translation", case, CASES, *COLUMNS) == CASES[case][1]
