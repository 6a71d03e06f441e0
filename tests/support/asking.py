"""Ask the judge about histories, with one Spark for all tests and one job for all cases of a check."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ackproof.judge.check_runner import rows, run_checks
from ackproof.judge.frames import Tables, make_tables
from ackproof.judge.pipeline import judge
from ackproof.judge.registry import QUESTIONS
from ackproof.judge.run_facts import claims, exits, lives, moments, phases
from ackproof.judge.schemas import spark_schema
from ackproof.judge.windows import awaited, covers
from ackproof.model.journal_tables import TABLES
from ackproof.model.verdict import Verdict
from ackproof.spark.session import Session, collected, few_rows, fit_to, warm
from tests.support.histories import FIRST_RUN, History


def tables_of(
    spark: SparkSession,
    *histories: History,
    unreported: DataFrame | None = None,
    small: bool = True,
    numbers: Sequence[tuple[Any, ...]] | None = None,
) -> Tables:
    """Return many histories as the tables of one job. Without `small` each table has several partitions."""
    complete = [(history.run, history.complete()) for history in histories]
    journal = {
        name: few_rows(
            spark,
            [
                tuple({"run": run, **row}.get(column) for column in spark_schema(name).names)
                for run, own in complete
                for row in own[name]
            ],
            spark_schema(name),
        )
        for name in TABLES
    }
    if not small:
        journal = {name: frame.repartition(3) for name, frame in journal.items()}
    records = [history.record() for history in histories]
    return make_tables(
        spark,
        journal,
        records,
        {h.run: h.span() for h in histories},
        unreported,
        small=small,
        numbers=numbers,
        moments=[row for h in histories for row in moments(h.record(), h.rows["faults"])],
        phases=[row for h in histories for row in phases(h.record(), h.rows["faults"])],
        claims=[row for h in histories for row in claims(h.record(), h.rows["faults"])],
        exits=[row for h in histories for row in exits(h.record())],
        covers=[row for h in histories for row in covers(h.record(), h.rows["faults"])],
        awaited=[row for h in histories for row in awaited(h.record(), h.rows["faults"])],
        lives=[row for h in histories for row in lives(h.record(), h.rows["nodes"])],
    )


@cache
def session() -> Session:
    """Return the one Spark of all tests in this process."""
    running = warm("local[2]")
    atexit.register(running.close)
    return running


def spark(small: bool = True) -> SparkSession:
    """Return Spark with its settings made anew, because a frame is planned only when its rows are asked for."""
    running = session().spark
    fit_to(running, 0, small)
    return running


def written(questions: Mapping[str, Callable[[], DataFrame]], runs: Iterable[int]) -> dict[str, list[dict[str, Any]]]:
    """Return the answers as for a large journal: Spark writes them, a few at once, and they are read again."""
    spark(small=False)
    with TemporaryDirectory(dir=session().folder) as folder:
        broken = run_checks(questions, Path(folder), small=False, at_once=2, answered=lambda *_: None)
        assert not broken
        every = list(runs)
        return {name: [row for run in every for row in rows(Path(folder), name, run)] for name in questions}


def verdicts_of(cases: Mapping[str, tuple[History, object]], folder: Path) -> dict[str, Verdict]:
    """Judge each of these histories as a run of its own, all together."""
    directories = []
    for place, (history, _) in enumerate(cases.values()):
        history.run = FIRST_RUN + place
        directories.append(history.write(folder / f"run{place}"))
    return dict(zip(cases, judge(directories, session=session()), strict=True))


Cases = dict[str, tuple[History, list[Any]]]


def witnesses(check: str, *histories: History) -> list[dict[str, Any]]:
    """Return what a check finds in all of these histories, in one job. Each history has its own `run`."""
    frame = QUESTIONS[check](tables_of(spark(), *histories))
    return [row.asDict(recursive=True) for row in collected(frame)]


_ANSWERS: dict[str, dict[str, list[Any]]] = {}


def found(check: str, case: str, cases: Cases, *columns: str) -> list[Any]:
    """Return these columns of what a check finds in one case. All cases of a check share one job."""
    if check not in _ANSWERS:
        numbered = [replace(history, run=FIRST_RUN + place) for place, (history, _) in enumerate(cases.values())]
        every = witnesses(check, *numbered)
        _ANSWERS[check] = {
            name: sorted((_picked(row, columns) for row in every if row["run"] == FIRST_RUN + place), key=repr)
            for place, name in enumerate(cases)
        }
    return _ANSWERS[check][case]


def _picked(row: dict[str, Any], columns: Sequence[str]) -> Any:
    return row[columns[0]] if len(columns) == 1 else tuple(row[name] for name in columns)
