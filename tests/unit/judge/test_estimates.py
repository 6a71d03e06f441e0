"""How long a judge says that it will take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ackproof.judge.pipeline import _closer_words, _is_heavy, _words
from ackproof.judge.run_source import Source
from ackproof.model.run_record import Clock, ProducerRecord, RunRecord
from tests.support.plans import plan_of


def run_of(events: int, acks: str = "all", compacted: bool = False, plan: dict[str, Any] | None = None) -> Source:
    record = RunRecord(
        1, "a-run", "by-hand", "A", "", "base", "kraft", "4.3.1", 1, [], {}, {}, ["orders"], [],
        [ProducerRecord(0, "p", 0, acks, events, None)], [], [], {}, Clock(0, 0), plan_of(plan),
    )  # fmt: skip
    rows = {"sends": events, "log": 0, "reads": 0}
    return Source(Path(), None, record, {}, rows, small={"ends": [{"compacted": compacted}]})


@pytest.mark.parametrize(
    ("events", "told"),
    [
        (10_000_000, "judging 1 run"),
        (100_000_000, "judging 1 run of 100,000,000 events: about 1 min here"),
        (1_000_000_000, "judging 1 run of 1,000,000,000 events: about 7 min here"),
    ],
)
def test_what_is_folded_takes_as_long_as_was_measured(events: int, told: str) -> None:
    """On two processors `docs/performance.md` has 30, 74 and 442 seconds."""
    assert _words([run_of(events)], 2) == told


def test_of_what_is_small_nothing_is_said() -> None:
    assert _words([run_of(2_900_000), run_of(2_900_000)], 1) == "judging 2 runs"


@pytest.mark.parametrize("heavy", [{"compacted": True}, {"acks": "0"}, {"plan": {"producers": [{"keys": 5}]}}])
def test_where_folding_is_of_no_use_each_row_takes_its_time(heavy: dict[str, Any]) -> None:
    run = run_of(60_000_000, **heavy)
    assert _is_heavy(run)
    assert _words([run], 2) == "judging 1 run of 60,000,000 events: about 10 min here"
    assert _words([run], 20).endswith("about 2 min here")
    assert not _is_heavy(run_of(2_000_000, **heavy)), "Java's second compiler would not earn its time back"


def test_once_it_is_known_how_much_is_looked_at_closer_that_is_said() -> None:
    run = run_of(100_000_000)
    assert _closer_words([run], 1_000_000, 2) is None
    assert (
        _closer_words([run], 60_000_000, 2)
        == "60,000,000 of 100,000,000 events are looked at one by one: about 10 min more"
    )
    assert _closer_words([run_of(60_000_000, acks="0")], 60_000_000, 2) is None, "that was said before"
