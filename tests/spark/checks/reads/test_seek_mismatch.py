"""seek_mismatch: a seek that ends at a wrong place."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.asking import Cases, found
from tests.support.histories import History, at

COLUMNS = ("by", "asked", "policy", "landed")
NOTHING: dict[str, Any] = {"answer": None, "landed": None, "landed_ms": None, "before_ms": None, "error": None}
HIT, MISS = True, False


def _sought(hit: bool, to: int, landed: int | None, policy: str = "error", by: str = "offset", **other: Any) -> Any:
    """In a log from 100 to 200; with `other` columns as given."""
    log = {"log_start": 100, "log_end": 200, "log_start_after": 100, "log_end_after": 200}
    place = {"fault": 1, "at_ns": at(1), "topic": 0, "partition": 0}
    row = {**NOTHING, **log, **place, "by": by, "asked": to, "policy": policy, "landed": landed, **other}
    history = History().send(0, 0).log(0, 0)
    history.rows["seeks"].append(row)
    return history, [(by, to, policy, landed)] if hit else []


CASES: Cases = {
    "another offset": _sought(HIT, 150, 151),
    "nothing, though it is there": _sought(HIT, 150, None, "latest"),
    "an error, although the offset exists": _sought(HIT, 150, None, error="_AUTO_OFFSET_RESET"),
    "nothing, though it is the first that is there": _sought(HIT, 100, None, "latest"),
    "gone, and not at the start": _sought(HIT, 50, 120, "earliest"),
    "gone, and no position although the policy is the start": _sought(HIT, 50, None, "earliest"),
    "gone, and silently at the start": _sought(HIT, 50, 100, "error"),
    "gone, and yet the seek ended there": _sought(HIT, 50, 50, "error"),
    "gone, and not at the end": _sought(HIT, 50, 100, "latest"),
    "gone, and an error although the policy is to wait": _sought(HIT, 50, None, "latest", error="_AUTO_OFFSET_RESET"),
    "gone, and no answer although the policy is to wait": _sought(HIT, 50, None, "latest", error="_TIMED_OUT"),
    "gone, and no answer although the policy is an error": _sought(HIT, 50, None, "error", error="_TIMED_OUT"),
    "not there yet, and at the start": _sought(HIT, 300, 100, "error"),
    "not there yet, and yet there": _sought(HIT, 210, 210, log_end_after=210),
    "by time, too old": _sought(HIT, 5_000, 150, by="time", answer=150, landed_ms=4_999),
    "by time, not the first": _sought(HIT, 5_000, 150, by="time", answer=150, landed_ms=5_002, before_ms=5_001),
    "by time, not the first record that is young enough": _sought(
        HIT, 5_000, 150, by="time", answer=150, landed_ms=5_001, before_ms=5_000
    ),
    "by time, not where the broker says": _sought(HIT, 5_000, 151, by="time", answer=150, landed_ms=5_000),
    "by time, no answer although a record is young enough": _sought(HIT, 5_000, None, by="time", answer=150),
    "by time, no answer although the first remaining record is young enough": _sought(
        HIT, 5_000, None, "latest", by="time", answer=120, log_start_after=120
    ),
    "by time, too old, though the start moved": _sought(
        HIT, 5_000, 110, "earliest", by="time", answer=110, landed_ms=4_999, log_start_after=120
    ),
    "by time, the named record is gone, and the seek is not at the start": _sought(
        HIT, 5_000, 130, "earliest", by="time", answer=110, landed_ms=5_000, log_start_after=120
    ),
    "by time, an error": _sought(HIT, 5_000, None, by="time", error="_TIMED_OUT"),
    "by time, to a place in the log although no record is as young": _sought(
        HIT, 5_000, 150, by="time", landed_ms=4_000
    ),
    "near miss: there": _sought(MISS, 150, 150),
    "near miss: the first": _sought(MISS, 100, 100),
    "near miss: the first, which went while it was sought": _sought(MISS, 100, 100, log_start_after=120),
    "near miss: the next, and waits for it": _sought(MISS, 200, None, "latest"),
    "near miss: gone, to the start": _sought(MISS, 50, 100, "earliest"),
    "near miss: gone, to a start that moved": _sought(MISS, 50, 110, "earliest", log_start_after=120),
    "near miss: gone during the seek": _sought(MISS, 110, 120, "earliest", log_start_after=120),
    "near miss: gone, to the end": _sought(MISS, 50, 205, "latest", log_end_after=210),
    "near miss: gone, to the very end": _sought(MISS, 50, 200, "latest", log_end_after=210),
    "near miss: gone, and waits at the end": _sought(MISS, 50, None, "latest"),
    "near miss: gone, and an error as the policy says": _sought(MISS, 50, None, "error", error="_AUTO_OFFSET_RESET"),
    "near miss: written while it was sought": _sought(MISS, 205, 205, log_end_after=210),
    "near miss: by time, the first": _sought(MISS, 5_000, 150, by="time", answer=150, landed_ms=5_000, before_ms=4_999),
    "near miss: by time, the first of all": _sought(MISS, 1, 100, by="time", answer=100, landed_ms=5_000),
    "near miss: by time, the named record went meanwhile, and the seek is at the start": _sought(
        MISS, 5_000, 120, "earliest", by="time", answer=110, landed_ms=5_003, log_start_after=120
    ),
    "near miss: by time, the named record went meanwhile, and the seek waits": _sought(
        MISS, 5_000, None, "latest", by="time", answer=110, log_start_after=120
    ),
    "near miss: by time, no record is as young, and the seek is at the very end": _sought(
        MISS, 9_000, 200, by="time", landed_ms=8_900, log_end_after=210
    ),
    "near miss: by time, no record is as young": _sought(MISS, 9_000, None, by="time"),
    "near miss: by time, no record is as young, and the next one is not either": _sought(
        MISS, 9_000, 203, by="time", landed_ms=8_900, log_end_after=210
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_seek_mismatch(case: str) -> None:
    assert found("seek_mismatch", case, CASES, *COLUMNS) == CASES[case][1]
