"""dips: seconds in which acks or reads fall below the line, or too many sends wait, without a fault."""

from __future__ import annotations

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History

COLUMNS = ("second", "acked", "unacked", "fault", "uncovered")


def _seconds(*acks_at: float, readers: bool = False, read_late: int | None = None, **settings: float) -> History:
    """Two messages a second, sent on time; acknowledged when told, or at once; those of one second read late."""
    history = History(settings={"rate_line": 2, **settings})
    for seq in range(12):
        at_once = seq * 500 + 1.0
        history.send(seq, seq, sent=seq * 500, done=acks_at[seq] if seq < len(acks_at) else at_once)
        if readers:
            history.read(seq, seq, when=4900 if seq // 2 == read_late else at_once)
    return history


def _refused(first: int, last: int) -> History:
    history = _seconds()
    for row in history.rows["sends"][first : last + 1]:
        row["outcome"] = "fail"
    return history


LATE = (1, 501, 3001, 3002)  # those of the second second are acknowledged in the fourth
FAULT = (("asked", 900), ("proved", 950), ("healed", 1000))
CASES: Cases = {
    "a dip that no fault explains": (_seconds(*LATE), [(1, 0, 2, None, True)]),
    "a dip below a line of one, with two open sends": (
        _seconds(*LATE, rate_line=1),
        [(1, 0, 2, None, True), (2, 2, 2, None, True)],
    ),
    "a dip that is over when a fault begins": (
        _seconds(*LATE).fault(("asked", 2000), ("healed", 2000)),
        [(1, 0, 2, None, True)],
    ),
    "a dip after a fault": (_seconds(*LATE, dip_s=1).fault(*FAULT), [(1, 0, 2, 1, False)]),
    "a dip just after a fault's time": (
        _seconds(1, 501, 1001, 1501, 4001, 4002, dip_s=1).fault(*FAULT),
        [(2, 0, 2, None, True)],
    ),
    "a dip just after a fault, with dip_s of 0": (
        _seconds(*LATE, dip_s=0).fault(*FAULT),
        [(1, 0, 2, None, True)],
    ),
    "near miss: a dip in the second in which the fault was healed, with dip_s of 0": (
        _seconds(*LATE, dip_s=0).fault(*FAULT[:2], ("healed", 1001)),
        [(1, 0, 2, 1, False)],
    ),
    "a dip while a fault still stands": (
        _seconds(*LATE, dip_s=1).fault(("asked", 100), ("proved", 100)),
        [(1, 0, 2, 1, False)],
    ),
    "the fault that began last covers it": (
        _seconds(*LATE).fault(("asked", 0), ("healed", 10)).fault(*FAULT),
        [(1, 0, 2, 2, False)],
    ),
    "acknowledgements at the usual rate, and too many open sends": (
        _seconds(1, 501, 3001, 3501, 4001, 4002, 4003, 4004),
        [(1, 0, 2, None, True), (2, 0, 4, None, True), (3, 2, 4, None, True)],
    ),
    "near miss: what was refused waits for nothing any more": (
        _refused(2, 4),
        [(1, 0, 0, None, True), (2, 1, 0, None, True)],
    ),
    "near miss: as many wait as the line says": (_seconds(*(seq * 500 + 1001 for seq in range(12))), []),
    "near miss: nothing dips": (_seconds(), []),
    "near miss: in the first second": (_seconds(1001, 1002), []),
    "near miss: no line": (_seconds(*LATE, rate_line=0), []),
    "reads that dip": (_seconds(readers=True, read_late=1), [(1, 2, 0, None, True)]),
    "a consumer that reads nothing at all": (
        _seconds(rate_line=1).group(0, "assigned"),
        [(second, 2, 0, None, True) for second in range(1, 5)],
    ),
    "two consumers that read nothing at all": (
        _seconds(rate_line=1).group(0, "assigned").group(0, "assigned", 1, partition=1),
        [(second, 2, 0, None, True) for second in range(1, 5)],
    ),
    "near miss: reads that do not dip": (_seconds(readers=True), []),
}


@pytest.mark.parametrize("case", CASES)
def test_dips(case: str) -> None:
    assert found("dips", case, CASES, *COLUMNS) == CASES[case][1]
