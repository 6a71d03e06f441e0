"""Three judges of the same histories: Spark's, one in plain Python and one in DuckDB's SQL. What each of them finds,
and whether that is the same, witness by witness; also where Spark judges in the way that it has for large journals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from types import ModuleType
from typing import Any

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame

from ackproof.judge.frames import Tables
from ackproof.judge.registry import QUESTIONS
from ackproof.model.checks import CHECKS
from ackproof.model.journal_tables import TABLES
from ackproof.spark.session import collected
from tests.support.asking import spark, tables_of, written
from tests.support.histories import FIRST_RUN, History
from tests.support.oracles.reference import Rows
from tests.support.proving import size


def some_of(checks: Iterable[str]) -> list[str]:
    """Which are asked in the way of large journals: it takes Spark long to plan that, and CI asks every fifth."""
    return list(checks)[:: size(5, 1)]


Answers = dict[int, Counter[tuple[Any, ...]]]  # of each run its witnesses, and how often each was told


class Judges:
    """A family of checks. `plain` has a function for each, `sql` a question, and views where its questions share some;
    the other two see of the journal what is in `journal`, and of `run.json` what `planned` tells."""

    def __init__(
        self,
        columns: Mapping[str, Sequence[str]],  # of each check: what of a witness is compared
        plain: ModuleType,
        sql: ModuleType,
        made: Callable[[int], History],
        journal: Sequence[str],
        planned: Callable[[Any], Rows],
        schemas: Mapping[str, Mapping[str, pa.DataType]],  # of what is planned
        histories: int,
        at_large: int,  # as many are judged as large journals are, too
    ) -> None:
        self.columns = columns
        self._plain, self._sql = plain, sql
        self._made, self._planned = made, planned
        self._count, self._at_large = histories, at_large
        own = {name: pa.schema({"run": pa.int64(), **types}) for name, types in schemas.items()}
        self._journal, self._schemas = journal, {name: TABLES[name].schema for name in journal} | own

    @cached_property
    def histories(self) -> list[History]:
        return [self._made(FIRST_RUN + place) for place in range(self._count)]

    @cached_property
    def rows(self) -> dict[int, Rows]:
        """Each history as the other two judges see it."""
        found = {}
        for history in self.histories:
            complete = history.complete()
            empty = {name: dict.fromkeys(self._schemas[name].names) for name in self._journal}
            journal = {name: [{**empty[name], **row} for row in complete[name]] for name in self._journal}
            found[history.run] = {**journal, **self._planned(history)}
        return found

    @cached_property
    def _arrow(self) -> dict[str, pa.Table]:
        every = self.rows.items()
        return {
            name: pa.Table.from_pylist([{**row, "run": run} for run, own in every for row in own[name]], schema)
            for name, schema in self._schemas.items()
        }

    @cached_property
    def _tables(self) -> Tables:
        return self.tables_of(self.histories, small=True)

    def tables_of(self, histories: Sequence[History], small: bool) -> Tables:
        return tables_of(spark(small), *histories, small=small)

    def question(self, check: str, tables: Tables) -> DataFrame:
        return QUESTIONS[check](tables)

    @cached_property
    def _answers_at_large(self) -> dict[str, list[dict[str, Any]]]:
        """Of the first histories, by Spark without taking anything for small: several partitions, exchanges,
        broadcasts, plans that adapt, answers that are written as files."""
        own = self.histories[: self._at_large]
        large = self.tables_of(own, small=False)
        questions = {check: partial(self.question, check, large) for check in some_of(self.columns)}
        return written(questions, [history.run for history in own])

    # -- what each of them says ----------------------------------------------------------------------------------------

    def by_spark(self, check: str) -> Answers:
        tables = self._tables
        spark()  # after other settings by another test
        return self._of_rows(check, (row.asDict() for row in collected(self.question(check, tables))))

    def as_large(self, check: str) -> Answers:
        return self._of_rows(check, self._answers_at_large[check])

    def by_sql(self, check: str) -> Answers:
        with duckdb.connect() as database:
            for name, table in self._arrow.items():
                database.register(name, table)
            for name, view in getattr(self._sql, "VIEWS", {}).items():
                database.execute(f"create view {name} as {view}")
            return self._by_run(database.sql(self._sql.QUESTIONS[check]).fetchall())

    def by_hand(self, check: str, first: int | None = None) -> Answers:
        """Of all histories, or of the first so many."""
        judge = getattr(self._plain, check)
        every = islice(self.rows.items(), first)
        return self._by_run((run, *witness) for run, own in every for witness in judge(own))

    def _of_rows(self, check: str, rows: Iterable[Mapping[str, Any]]) -> Answers:
        return self._by_run(tuple(row[name] for name in ("run", *self.columns[check])) for row in rows)

    def _by_run(self, found: Iterable[tuple[Any, ...]]) -> Answers:
        answers: Answers = {history.run: Counter() for history in self.histories}
        for run, *witness in found:
            answers[run][tuple(map(_comparable, witness))] += 1
        return answers

    # -- whether it is the same ----------------------------------------------------------------------------------------

    def agreed(self, check: str) -> Answers:
        found, in_sql, plain = self.by_spark(check), self.by_sql(check), self.by_hand(check)
        for run, expected in plain.items():
            assert found[run] == expected, self.rows[run]
            assert in_sql[run] == expected, self.rows[run]
        return plain

    def assert_agreed_at_large(self, check: str) -> None:
        found, plain = self.as_large(check), self.by_hand(check, self._at_large)
        for history in self.histories[: self._at_large]:
            assert found[history.run] == plain[history.run], self.rows[history.run]
        assert any(found.values()), "the histories do not have this: they prove nothing"

    def hits(self, check: str, answers: Answers) -> set[int]:
        """The runs with a witness that counts: of a measure only marked rows do."""
        marked = CHECKS[check].counted_column
        place = None if marked is None else self.columns[check].index(marked)
        return {run for run, own in answers.items() if any(place is None or witness[place] for witness in own)}


def _comparable(value: Any) -> Any:
    """Lists as they can be counted, and figures to the twelfth digit: each judge divides in its own way."""
    if isinstance(value, float):
        return float(f"{value:.12g}")
    return tuple(value) if isinstance(value, list) else value
