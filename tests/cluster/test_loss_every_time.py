"""What the judge is for, live: a loss is found every time that there is one, and never where none can be."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from real_lab import User, added_up, ourselves

from proving import size

pytestmark = [pytest.mark.cluster, pytest.mark.long]
Told = Callable[[str, object], None]
RUNS = size(1, 20)
SMALL = ("--set", "producer.count=6000", "--set", "producer.rate=600", "--set", "faults.0.at_messages=2000")


@pytest.fixture(scope="module")
def us() -> Iterator[User]:
    with ourselves() as user:
        yield user


@pytest.mark.proves("B4", "C6")
@pytest.mark.timeout(260 * RUNS)
@pytest.mark.parametrize(
    ("scenario", "minimum", "loses"),
    [("acks1-leader-isolated", 1, True), ("acksall-leader-isolated", 2, False)],
    ids=["acks1", "all"],
)
def test_a_leader_that_is_cut_off(
    scenario: str, minimum: int, loses: bool, us: User, tmp_path: Path, record_property: Told
) -> None:
    settings = (*SMALL, "--set", f"topic.settings.min.insync.replicas={minimum}")
    done = us.run(
        "run", scenario, "--repeat", str(RUNS), "--out", str(tmp_path), "--json", *settings, timeout_s=240 * RUNS
    )
    runs = json.loads(done.stdout)["runs"]
    assert len(runs) == RUNS
    assert [run["result"] for run in runs] == ["confirmed"] * RUNS, done.stderr[-2000:]
    assert [run["lost"] > 0 for run in runs] == [loses] * RUNS
    record_property(
        "figure", f"{scenario}, minimum {minimum}: {'loss found' if loses else 'no loss'} in {RUNS} of {RUNS} runs"
    )
    directories = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert len(directories) == RUNS
    record_property("figure", f"{scenario}, {RUNS} runs: {added_up(*directories)}")
