"""A run directory, opened to be read: its record, its verdict and the tables of its journal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.core.errors import UsageProblem, did_you_mean
from ackproof.model.journal_tables import TABLES
from ackproof.model.run_record import RunRecord
from ackproof.model.verdict import Verdict
from ackproof.report import run_reader

if TYPE_CHECKING:
    import pyarrow as pa


class Run:
    """A run directory. `verdict` is None if nobody has judged the run."""

    def __init__(self, directory: str | Path) -> None:
        self._reader = run_reader.open_run(Path(directory))

    def __repr__(self) -> str:
        return f"Run({str(self.directory)!r})"

    @property
    def directory(self) -> Path:
        return self._reader.directory

    @property
    def record(self) -> RunRecord:
        return self._reader.record

    @property
    def verdict(self) -> Verdict | None:
        return self._reader.verdict

    @property
    def problems(self) -> list[str]:
        """What went wrong in the run, and every file that could not be read so far, in sentences."""
        return list(self._reader.problems)

    def table(self, name: str, columns: Sequence[str] = ()) -> pa.Table:
        """Return a table of the journal as a pyarrow table, with all columns or with these. docs/journal.md has them.

        A damaged file is left out; `problems` says so.
        """
        import pyarrow as pa

        if name not in TABLES:
            raise UsageProblem(f"the journal has no table {name!r}{did_you_mean(name, list(TABLES))}")
        schema = TABLES[name].schema
        if unknown := [column for column in columns if column not in schema.names]:
            raise UsageProblem(f"the table {name} has no column {unknown[0]!r}; it has {', '.join(schema.names)}")
        wanted = list(columns) or schema.names
        batches = list(self._reader.batches(name, wanted))
        return pa.Table.from_batches(batches, pa.schema([schema.field(column) for column in wanted]))


def open_run(directory: str | Path) -> Run:
    """Open a run directory, whatever state it is in. Raise UsageProblem if it has no run.json that can be read."""
    return Run(directory)
