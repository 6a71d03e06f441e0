"""Several questions in one job: each has its own answer, and one that breaks takes no other with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.check_runner import rows, run_checks
from tests.support.asking import spark

Question = Callable[[], DataFrame]


def numbers(*found: int) -> DataFrame:
    return spark().createDataFrame(pa.table({"run": [1, 2, 1], "seq": list(found)}))


def words() -> DataFrame:
    """Of another shape, with a list and a null."""
    named = numbers(7, 8, 9).select(
        "run", F.when(F.col("run") == 1, "one").alias("group"), F.array("seq").alias("seqs")
    )
    return named.filter(F.col("seqs")[0] != 9)


def divides_by_nothing() -> DataFrame:
    return numbers(0, 0, 0).select("run", (F.lit(1) / F.col("seq")).alias("seq"))


def cannot_be_built() -> DataFrame:
    return numbers(1, 2, 3).select("no such column")


def asked(folder: Path, **questions: Question) -> dict[str, str]:
    """One after the other, so that half of the questions are one job."""
    return run_checks(questions, folder, small=True, at_once=1, answered=lambda *_: None)


def jobs() -> int:
    return len(spark().sparkContext.statusTracker().getJobIdsForGroup(None))


def test_questions_of_different_shapes_share_a_job(tmp_path: Path) -> None:
    before = jobs()
    questions = {"one": lambda: numbers(1, 2, 3), "two": words, "three": words, "four": lambda: numbers(4, 5, 6)}
    assert asked(tmp_path, **questions) == {}
    assert jobs() - before == 2
    assert rows(tmp_path, "one", 1) == [{"run": 1, "seq": 1}, {"run": 1, "seq": 3}]
    assert rows(tmp_path, "four", 2) == [{"run": 2, "seq": 5}]
    for name in ("two", "three"):
        assert rows(tmp_path, name, 1) == [{"run": 1, "group": "one", "seqs": [7]}]
        assert rows(tmp_path, name, 2) == [{"run": 2, "group": None, "seqs": [8]}]


def test_a_question_that_breaks_takes_no_other_of_its_job_with_it(tmp_path: Path) -> None:
    questions: dict[str, Question] = {f"well{place}": lambda: numbers(1, 2, 3) for place in range(4)}
    broken = asked(tmp_path, divides=divides_by_nothing, builds=cannot_be_built, **questions)
    assert set(broken) == {"divides", "builds"}
    assert "DIVIDE_BY_ZERO" in broken["divides"]
    for name in questions:
        assert len(rows(tmp_path, name, 1)) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(questions), "and nothing half done is left"


def test_a_question_without_an_answer_is_answered_all_the_same(tmp_path: Path) -> None:
    assert asked(tmp_path, none=lambda: numbers(1, 2, 3).filter("seq > 5"), some=words) == {}
    assert rows(tmp_path, "none", 1) == []
    assert (tmp_path / "none").is_dir()
