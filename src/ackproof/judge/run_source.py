"""A run directory as the judge finds it: what can be read, and a sentence for each part that cannot.

Everything that may be wrong with a journal before Spark sees it is found here, from the files' footers: a missing
table, a file cut short, another schema, rows of another run. Such a file is left out and named; the run is then unfit,
and what remains is judged all the same. Nothing here raises for the sake of a bad journal.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof.core.run_files import TooManyFiles, not_to_be_opened
from ackproof.host.locked_folder import locked_folder, take_away_unlocked
from ackproof.journal.bounds import footer_bomb, parquet_bomb, text_beyond
from ackproof.journal.checksums import differs_from_checksum
from ackproof.journal.files import sealed_files
from ackproof.journal.seal import TORN_BYTES, TORN_WHAT, seal_all
from ackproof.journal.stream import is_from_crash
from ackproof.model.checks import CHECKS
from ackproof.model.external_clients import not_applicable
from ackproof.model.journal_tables import TABLES
from ackproof.model.run_record import RunRecord, read_record
from ackproof.model.tables.columns import Table
from ackproof.model.tables.version import SCHEMA_VERSION
from ackproof.model.verdict import Fitness

# Without these nothing can be said of any send.
ESSENTIAL = ("blocks", "sends", "log", "ends")
# Small by nature: read here, in this process, where fitness wants them row by row.
SMALL = ("ends", "mirror_ends", "faults", "probes", "nodes", "oddities", "topics")
WITHOUT_EPOCHS = {
    name: "a log that is read from Kafka itself does not tell the epochs of its records"
    for name, check in CHECKS.items()
    if check.needs_epochs
}
WHOLE = (*SMALL, "blocks", "lateness", "positions")  # read whole, however many their rows are
WHOLE_VALUES = 3_000_000
WHOLE_BYTES = 128 * 2**20
ALL_ROWS = 2**62
NUMBER_MOST = 10**12  # of a message; the most that a scenario may ask of a producer
UNSENT_MOST = 10**8  # numbers that are reserved, and of which no send is in the journal
COPY = "ackproof-run-"
READ_ROWS = 200_000  # files up to this are read through beforehand; larger ones are folded, which reads them as well


@dataclass(frozen=True)
class Source:
    """One run, ready to be read."""

    directory: Path  # where the journal is read from: the run's own directory, or a copy of it
    home: Path | None  # where the verdict belongs; null where nothing can be written
    record: RunRecord
    files: dict[str, tuple[Path, ...]]
    rows: dict[str, int]
    remarks: tuple[Fitness, ...] = ()
    small: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    has_epochs: bool = True  # whether the log tells in which epoch each record was written

    @property
    def not_applicable(self) -> dict[str, str]:
        """Each check that neither the run's clients nor its log tell enough for, and why, in words."""
        return not_applicable(self.record.plan) | ({} if self.has_epochs else WITHOUT_EPOCHS)

    def without(self, bad: dict[Path, str]) -> Source:
        """The same run without files whose contents turned out to be damaged."""
        files = {table: tuple(path for path in paths if path not in bad) for table, paths in self.files.items()}
        remarks = [_damaged(path, bad[path]) for paths in self.files.values() for path in paths if path in bad]
        rows = {table: sum(pq.read_metadata(path).num_rows for path in paths) for table, paths in files.items()}
        small = {name: in_order(_rows(files[name])) for name in SMALL}
        return replace(self, files=files, rows=rows, remarks=(*self.remarks, *remarks), small=small)


class Unreadable(Exception):
    """There is no run here that could be judged, in one sentence."""


@contextmanager
def opened(directory: Path) -> Iterator[Source]:
    """A run directory, sealed; a copy of it where it cannot be written."""
    try:
        there = directory.is_dir()
    except OSError as error:
        raise Unreadable(f"{directory.name} cannot be looked at ({error.strerror})") from None
    if not there:
        raise Unreadable(f"there is no run directory {directory.name}")
    record = _record(directory)
    try:
        closed = not_to_be_opened(directory)
    except TooManyFiles as problem:
        raise Unreadable(str(problem)) from None
    except OSError as error:
        raise Unreadable(f"its journal cannot be looked at ({error.strerror})") from None
    if _writable(directory):
        yield _source(directory, directory, record, closed)
        return
    take_away_unlocked(COPY)
    with locked_folder(COPY) as copy:
        _copy_journal(directory, copy, closed)
        yield _source(copy, None, record, closed)


def _copy_journal(directory: Path, copy: Path, closed: Mapping[Path, str]) -> None:
    def left_out(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if Path(folder, name) in closed}

    try:
        if (directory / "journal").is_dir():
            shutil.copytree(directory / "journal", copy / "journal", ignore=left_out)
    except OSError as error:
        why = error.strerror or f"{len(error.args[0])} of its files"  # copytree goes on, and tells of all in the end
        raise Unreadable(f"its journal can be neither sealed in its place nor copied ({why})") from None


def _record(directory: Path) -> RunRecord:
    try:
        record = read_record(directory)
    except FileNotFoundError:
        raise Unreadable("run.json is missing: this is not a run directory, or its run never began") from None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Unreadable(f"run.json cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if record.schema != SCHEMA_VERSION:
        raise Unreadable(f"its journal is of schema {record.schema}; this judge knows {SCHEMA_VERSION}")
    return record


def _writable(directory: Path) -> bool:
    """Tried rather than asked: a read-only mount refuses root too."""
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".ackproof-"):
            return True
    except OSError:
        return False


def _source(directory: Path, home: Path | None, record: RunRecord, closed: Mapping[Path, str]) -> Source:
    remarks = [_damaged(path, why) for path, why in closed.items()]
    try:
        for damage in seal_all(directory):
            if damage.path.exists() and damage.path not in closed:  # it could not be sealed at all
                remarks.append(_damaged(damage.path, damage.what))
    except (OSError, pa.ArrowException) as error:
        remarks.append(Fitness("journal", False, f"The journal could not be sealed: {_first_line(error)}."))
    files: dict[str, tuple[Path, ...]] = {}
    rows: dict[str, int] = {}
    small: dict[str, list[dict[str, Any]]] = {name: [] for name in SMALL}
    room = _Room()
    for table in TABLES:
        good: list[Path] = []
        rows[table] = 0
        for path in sealed_files(directory, table):
            own: list[dict[str, Any]] = []
            try:
                if problem := _not_to_be_read(path, table):
                    remarks.append(_damaged(path, problem))
                    continue
                footer = pq.read_metadata(path)
                problem = _other_schema(footer.schema.to_arrow_schema(), TABLES[table])
                if not problem and table in WHOLE:
                    problem = room.is_short_of(footer)
                if not problem and (table in WHOLE or footer.num_rows <= READ_ROWS):
                    contents = _read(path)
                    problem = _empty_places(contents, TABLES[table]) or text_beyond(contents)
                    if not problem and table == "blocks":
                        problem = _impossible_block(contents)
                    if not problem and table in WHOLE:
                        problem = room.is_short_for(contents)
                    if not problem and table in SMALL:
                        own = contents.to_pylist()
                torn = _torn(path, footer.metadata or {})
                others = not problem and _has_other_runs(path, footer, record.run)
            except (OSError, pa.ArrowException, ValueError) as error:
                problem = _first_line(error)
            if problem:
                remarks.append(_damaged(path, problem))
                continue
            if others:
                remarks.append(Fitness("journal", False, f"{table}/{path.name} is of another run and was left out."))
                continue
            if table in SMALL:
                small[table] += own
            remarks += torn
            good.append(path)
            rows[table] += footer.num_rows
        files[table] = tuple(good)
        if table in ESSENTIAL and not good:
            remarks.append(Fitness("journal", False, f"The journal has no table `{table}`."))
    if problem := _unsent(files["blocks"], rows["sends"]):
        remarks += [_damaged(path, problem) for path in files["blocks"]]
        files["blocks"], rows["blocks"] = (), 0
    remarks += _unknown_faults(record, small["faults"])
    remarks += _gone(record, rows, {each.text.partition("/")[0] for each in remarks if not each.fit})
    small = {name: in_order(own) for name, own in small.items()}
    return Source(directory, home, record, files, rows, tuple(remarks), small)


class _Room:
    """For the tables that are read whole, in this process: so many values of all their files, and no more."""

    def __init__(self) -> None:
        self._values = self._bytes = 0

    def is_short_for(self, contents: pa.Table) -> str | None:
        self._bytes += contents.nbytes
        if self._bytes <= WHOLE_BYTES:
            return None
        return f"the tables that the judge reads whole would have more than {WHOLE_BYTES:,} bytes with it"

    def is_short_of(self, footer: pq.FileMetaData) -> str | None:
        groups = [footer.row_group(group) for group in range(footer.num_row_groups)]
        self._values += sum(group.column(column).num_values for group in groups for column in range(group.num_columns))
        if self._values <= WHOLE_VALUES:
            return None
        return f"the tables that the judge reads whole would have more than {WHOLE_VALUES:,} values with it"


def _not_to_be_read(path: Path, table: str) -> str | None:
    """Why a file is not read, from its headers; a checksum says more than what the disk made of them."""
    if why := footer_bomb(path):
        return why
    if differs_from_checksum(path):
        return "it differs from its checksum"
    return parquet_bomb(path, ALL_ROWS if table in WHOLE else READ_ROWS)


def _gone(record: RunRecord, rows: dict[str, int], named: set[str]) -> list[Fitness]:
    """A file that is not there damages a journal like one that cannot be read, which is `named` already."""
    words = "The journal has {:,} rows of `{}`, and it had {:,} when it was sealed: part of it is gone."
    lost = {table: count for table, count in record.rows.items() if table in TABLES and rows[table] < count}
    return [
        Fitness("journal", False, words.format(rows[table], table, lost[table]))
        for table in sorted(lost.keys() - named)
    ]


def _unknown_faults(record: RunRecord, faults: list[dict[str, Any]]) -> list[Fitness]:
    unknown = sorted({row["fault"] for row in faults} - {fault.id for fault in record.faults})
    words = "The journal tells of fault {}, which run.json does not know."
    return [Fitness("faults", False, words.format(number)) for number in unknown]


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort rows by place or time, and always in the same way: the order and the number of their files do not count."""
    return sorted(rows, key=lambda row: (*(row.get(name, 0) for name in ("topic", "partition", "at_ns")), repr(row)))


def _rows(paths: tuple[Path, ...]) -> list[dict[str, Any]]:
    return [row for path in paths for row in _read(path).to_pylist()]


def _read(path: Path) -> pa.Table:
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        return file.read()


def _other_schema(found: pa.Schema, table: Table) -> str | None:
    """What about a file's columns is not as this version knows them."""
    known = table.schema
    if found.names not in (known.names, table.older.names):
        missing = ", ".join(sorted(set(table.older.names) - set(found.names))) or "none"
        return f"its columns are of another schema (missing: {missing})"
    for name in found.names:
        if not found.field(name).type.equals(known.field(name).type) and not pa.types.is_list(known.field(name).type):
            return f"its column {name} is {found.field(name).type}, not {known.field(name).type}"
    return None


def _empty_places(contents: pa.Table, table: Table) -> str | None:
    """Which columns have nothing where there is always something."""
    always = [name for name in contents.column_names if not table.schema.field(name).nullable]
    empty = [name for name in always if contents[name].null_count]
    return f"it has rows with no {', '.join(empty)}" if empty else None


def _impossible_block(blocks: pa.Table) -> str | None:
    """Why no producer can have reserved one of these blocks; later arithmetic would overflow with it."""
    for name in ("first_seq", "count", "used"):
        found = pc.min_max(blocks[name]).as_py()
        if found["min"] is not None and not 0 <= found["min"] <= found["max"] <= NUMBER_MOST:
            return f"column {name} has a number that is not between 0 and {NUMBER_MOST:,}"
    return None


def _unsent(paths: tuple[Path, ...], sends: int) -> str | None:
    """Why the reserved numbers are not looked at one by one: far more of them than the journal has sends."""
    names = ["producer", "first_seq", "count", "used"]
    if not paths:
        return None
    # Permissive: a stranger's file may allow nulls where ours do not.
    rows = pa.concat_tables([pq.read_table(path, columns=names) for path in paths], promote_options="permissive")
    blocks = rows.group_by(names[:2]).aggregate([("count", "max"), ("used", "max")])
    sizes = pc.coalesce(blocks["used_max"], blocks["count_max"])
    reserved = sum(sizes.to_pylist())
    if reserved <= sends + UNSENT_MOST:
        return None
    return f"the producers reserved {reserved:,} numbers, and the journal has {sends:,} sends"


def _has_other_runs(path: Path, footer: pq.FileMetaData, run: int) -> bool:
    """Whether a file holds rows of another run: by the footer's statistics, or by the column if a file has none."""
    column = footer.schema.names.index("run")
    told = [footer.row_group(group).column(column).statistics for group in range(footer.num_row_groups)]
    if all(each is not None and each.has_min_max for each in told):
        return any((each.min, each.max) != (run, run) for each in told)
    with pq.ParquetFile(path) as file:
        return any(batch["run"].unique().to_pylist() != [run] for batch in file.iter_batches(columns=["run"]))


def by_groups(paths: Iterable[Path], columns: list[str]) -> Iterator[pa.Table]:
    """These columns of a table of any length: one group of rows after the other, and never all in memory."""
    for path in paths:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, columns=columns, use_threads=False)


def damaged_inside(source: Source) -> dict[Path, str]:
    """Files whose footers are well and whose pages are not; asked only after a job could not read them."""
    bad: dict[Path, str] = {}
    for paths in source.files.values():
        for path in paths:
            try:
                with pq.ParquetFile(path, page_checksum_verification=True) as file:
                    for group in range(file.num_row_groups):
                        file.read_row_group(group)
            except (OSError, pa.ArrowException) as error:
                bad[path] = _first_line(error)
    return bad


def cleared(path: Path) -> Path:
    """Remove what is at a path, and return the path. Of a link, which may be planted, only the link is removed."""
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)
    return path


def _damaged(path: Path, what: str) -> Fitness:
    return Fitness("journal", False, f"{path.parent.name}/{path.name} cannot be read and was left out: {what}.")


def _torn(path: Path, metadata: dict[bytes, bytes]) -> list[Fitness]:
    """What a crash tears off was never known to be written; what the disk, or a person, changed was."""
    if TORN_BYTES not in metadata:
        return []
    size, what = int(metadata[TORN_BYTES]), metadata.get(TORN_WHAT, b"torn").decode()
    text = f"{path.parent.name}/{path.name} was torn: its last {size:,} bytes cannot be read ({what})."
    return [Fitness("journal", is_from_crash(what), f"{text} Everything before them was judged.")]


def _first_line(error: BaseException) -> str:
    """The first sentence of a library's message, without the place where the file happens to lie."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0].split(" '/", 1)[0].rstrip(".: ")
