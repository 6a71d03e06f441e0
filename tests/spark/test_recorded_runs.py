"""Real runs that were recorded once and are judged again: the same journal gives the same numbers.

`tests/recorded/runs/NAME` holds the `run.json` and the `journal/` of a run as it left them, without its logs; small
ones, many of them of the slow shape. `tests/recorded/verdicts/NAME.json` is the `verdict.json` of each, whole, with
the witnesses. To record another: copy these two, judge it, keep its `verdict.json` there, and write down here what was
found.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ackproof.judge import verdict_builder
from ackproof.judge.pipeline import judge
from ackproof.model.verdict import Verdict
from tests.support.asking import session

RUNS = Path(__file__).parents[1] / "recorded" / "runs"
KEPT = Path(__file__).parents[1] / "recorded" / "verdicts"

# result, sent, acknowledged, high watermark, lost; the fates that are not zero; the checks that found something
EXPECTED: dict[str, tuple[tuple[Any, ...], dict[str, int], dict[str, int]]] = {
    "loss-isolated": (
        ("confirmed", 100, 100, 45, 55),
        {"survived": 45, "lost_overwritten": 25, "lost_truncated": 30},
        {
            "lost": 55,
            "inconsistent_offset": 25,
            "realtime_order": 25,
            "stale_leader_ack": 49,
            "dual_leader": 1,
            "failover": 1,
        },
    ),
    "loss-without-zookeeper": (
        ("confirmed", 100, 100, 51, 49),
        {"survived": 51, "lost_overwritten": 25, "lost_truncated": 24},
        {
            "lost": 49,
            "inconsistent_offset": 25,
            "realtime_order": 25,
            "stale_leader_ack": 49,
            "dual_leader": 1,
            "failover": 1,
        },
    ),
    "loss-isolated-kraft": (
        ("confirmed", 100, 100, 41, 59),
        {"survived": 41, "lost_overwritten": 21, "lost_truncated": 38},
        {
            "lost": 59,
            "inconsistent_offset": 21,
            "realtime_order": 21,
            "stale_leader_ack": 53,
            "dual_leader": 1,
            "failover": 1,
        },
    ),
    "loss-quick": (
        ("confirmed", 400, 400, 100, 300),
        {"survived": 100, "lost_truncated": 300},
        {"lost": 300, "stale_leader_ack": 68, "dual_leader": 1, "failover": 1},
    ),
    "interrupted": (("unknown", 185, 185, None, None), {}, {}),
    "killed": (("unknown", 400, 183, None, None), {}, {}),
    "no-loss": (
        ("confirmed", 100, 100, 100, 0),
        {"survived": 100},
        {"dual_leader": 1, "unavailable": 1, "failover": 1, "ack_latency": 2},
    ),
    "consumer-killed": (
        ("confirmed", 300, 300, 300, 0),
        {"survived": 300},
        {"rebalances": 1, "ownership_gap": 4},
    ),
    "transactions": (  # the 184 messages were in transactions that were aborted on purpose
        ("confirmed", 1264, 1080, 1537, 0),
        {"survived": 1080, "rejected": 184},
        {
            "unstable_read": 184,
            "stale_leader_ack": 2,
            "unavailable": 28,
            "failover": 10,
            "ack_latency": 2,
            "membership_gap": 10,
        },
    ),
    "mirror-killed": (  # the mirror copied five records twice
        ("confirmed", 300, 300, 300, 0),
        {"survived": 300},
        {"mirror_differs": 5, "mirror_layout": 4, "failover": 4},
    ),
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    """Judge all recorded runs together, in copies, because a judge writes its verdict into the run."""
    folder = tmp_path_factory.mktemp("recorded")
    for name in EXPECTED:
        shutil.copytree(RUNS / name, folder / name)
    found = judge([folder / name for name in EXPECTED], session=session())
    return dict(zip(EXPECTED, found, strict=True))


@pytest.mark.proves("B6")
@pytest.mark.parametrize("name", EXPECTED)
def test_a_recorded_run_is_judged_as_before(verdicts: dict[str, Verdict], name: str) -> None:
    verdict = verdicts[name]
    numbers, fates, found = EXPECTED[name]
    assert (verdict.result, verdict.sent, verdict.acked, verdict.high_watermark, verdict.lost) == numbers
    assert {fate: count for fate, count in verdict.fates.items() if count} == fates
    assert {
        check.name: check.found for check in verdict.checks if check.found and check.name != "leadership_history"
    } == found


@pytest.mark.proves("B6")
@pytest.mark.parametrize("name", EXPECTED)
def test_a_recorded_run_has_the_same_verdict_as_before(
    verdicts: dict[str, Verdict], name: str, record_property: Callable[[str, object], None]
) -> None:
    """Every number, sentence and witness is the same. Newer checks are left out."""
    then = json.loads((KEPT / f"{name}.json").read_text())
    now = json.loads(msgspec.json.encode(verdicts[name]))
    asked = {check["name"]: check for check in then.pop("checks")}
    answered = {check["name"]: check for check in now.pop("checks")}
    assert now == then
    for check, told in asked.items():
        assert answered[check] == told
    witnesses = sum(len(check["witnesses"]) for check in asked.values())
    record_property("figure", f"{name}: {len(asked)} checks and {witnesses} witnesses as they were")


def test_owners_beyond_the_bound_are_counted_and_left_out(
    verdicts: dict[str, Verdict], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_builder, "OWNERS_SHOWN", 3)
    shutil.copytree(RUNS / "consumer-killed", tmp_path / "run")
    (verdict,) = judge([tmp_path / "run"], session=session())
    owners = verdicts["consumer-killed"].owners
    assert owners == sorted(owners, key=lambda owned: owned.from_ns)
    assert (verdict.owners, verdict.owners_left_out) == (owners[:3], len(owners) - 3)


def test_this_file_knows_every_recorded_run() -> None:
    assert {path.name for path in RUNS.iterdir()} == set(EXPECTED)
    assert {path.stem for path in KEPT.iterdir()} == set(EXPECTED)


def test_a_run_that_did_not_finish_says_so_first(verdicts: dict[str, Verdict]) -> None:
    assert verdicts["interrupted"].sentence.startswith("Unknown: the run did not go to its end: it was interrupted")
    assert verdicts["killed"].sentence.startswith("Unknown: the run was killed before it ended")
