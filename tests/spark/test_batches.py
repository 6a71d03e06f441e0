"""Which runs the judge puts into one job."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from ackproof.judge.pipeline import _batches
from ackproof.judge.run_source import Source
from ackproof.model.run_record import Clock, RunRecord
from ackproof.spark.session import LARGE_ROWS
from tests.support.plans import plan_of


def source(run: int, rows: int) -> Source:
    record = RunRecord(
        run, "a-run", "by-hand", "A", "", "base", "kraft", "4.3.1", 1, [], {}, {}, ["orders"], [], [], [], [], {},
        Clock(0, 0), plan_of(),
    )  # fmt: skip
    return Source(Path(), None, record, {}, {"sends": rows, "log": 0, "reads": 0})


def shared(*runs: tuple[int, int]) -> list[list[int]]:
    batches = _batches({place: source(*run) for place, run in enumerate(runs)})
    return [cast(list[int], list(batch)) for batch in batches]


def test_small_runs_share_a_job() -> None:
    assert shared((1, 10), (2, 10), (3, 10)) == [[0, 1, 2]]


def test_copies_of_a_run_do_not_share_a_job() -> None:
    assert shared((1, 10), (1, 10), (2, 10)) == [[0, 2], [1]]


def test_a_large_run_is_judged_alone() -> None:
    assert shared((1, 10), (2, LARGE_ROWS), (3, 10)) == [[0, 2], [1]]


def test_the_runs_of_a_job_are_never_large_together() -> None:
    half = LARGE_ROWS // 2
    assert shared((1, half), (2, half), (3, half - 1), (4, 10)) == [[0, 2], [1, 3]]
