"""With real clusters a loss is found every time that there is one, and never where none can be."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.proving import size
from tests.support.real_lab import User, added_up, ourselves

pytestmark = [pytest.mark.cluster, pytest.mark.long]
Told = Callable[[str, object], None]
HALVES, RUNS = size((1, 1), (2, 10))
SMALL = ("--set", "producer.count=6000", "--set", "producer.rate=600", "--set", "faults.0.at_messages=2000")


@pytest.fixture(scope="module")
def us() -> Iterator[User]:
    with ourselves() as user:
        yield user


@pytest.mark.proves("B4", "C6")
@pytest.mark.timeout(360 + 260 * RUNS)
@pytest.mark.parametrize("half", range(HALVES), ids=["first", "second"][:HALVES])
@pytest.mark.parametrize(
    ("scenario", "minimum", "loses"),
    [("acks1-leader-isolated", 1, True), ("acksall-leader-isolated", 2, False)],
    ids=["acks1", "all"],
)
def test_an_isolated_leader_loses_messages_with_acks_1_and_none_with_acks_all(
    scenario: str, minimum: int, loses: bool, half: int, us: User, tmp_path: Path, record_property: Told
) -> None:
    """One Spark judges all runs of one kind, each by itself."""
    settings = (*SMALL, "--set", f"topic.settings.min.insync.replicas={minimum}", "--out", str(tmp_path))
    done = us.run("run", scenario, "--repeat", str(RUNS), "--no-judge", *settings, timeout_s=200 * RUNS)
    assert done.returncode == 0, done.stderr[-2000:]
    directories = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert len(directories) == RUNS
    judged = us.run("judge", "--json", *map(str, directories), timeout_s=240 + 30 * RUNS)
    runs = json.loads(judged.stdout)["runs"]
    assert [run["result"] for run in runs] == ["confirmed"] * RUNS, judged.stderr[-2000:]
    assert [run["lost"] > 0 for run in runs] == [loses] * RUNS
    found = "loss found" if loses else "no loss"
    which = f"{scenario}, minimum {minimum}, runs {half * RUNS + 1} to {(half + 1) * RUNS}"
    record_property("figure", f"{which}: {found} in {RUNS} of {RUNS}; {added_up(*directories)}")
