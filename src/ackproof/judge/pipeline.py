"""From run directories to verdicts, in this order: open, fold, ask every question, compare, write.

Several runs are judged together: every table carries `run`. Nothing that is wrong with a journal, a check or Spark
itself raises from here; it becomes `unknown`, with its reason, which never counts as a pass.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ackproof.host.locked_folder import locked_folder
from ackproof.judge.check_runner import run_checks
from ackproof.judge.engine.block_digests import BITS, FEWER_BITS
from ackproof.judge.engine.kept import Kept, clear_left_behind, kept_folder
from ackproof.judge.engine.large import Looked, counted_tables, left_out, look, unequal
from ackproof.judge.engine.parts import TABLES as FOLDED
from ackproof.judge.engine.parts import Hands, SoFar
from ackproof.judge.fates import fate_counts
from ackproof.judge.frames import TP, Span, Tables, looking_closer, make_tables, read_table
from ackproof.judge.live_log import Kafka, with_log_of
from ackproof.judge.ownership import owned
from ackproof.judge.registry import QUESTIONS
from ackproof.judge.run_facts import claims, exits, lives, moments, phases
from ackproof.judge.run_source import Source, Unreadable, damaged_inside, opened
from ackproof.judge.sequence_audit import Producer, irregular, producers_of, unreported, unreported_counts
from ackproof.judge.verdict_builder import Findings, verdict_of, write_verdict
from ackproof.judge.windows import awaited, covers
from ackproof.model.checks import CHECKS
from ackproof.model.checks.kind import CheckKind
from ackproof.model.journal_tables import TABLES
from ackproof.model.verdict import Fitness, Verdict, not_judged
from ackproof.spark.session import LARGE_ROWS, MEMORY, Session, cores, few_rows, first_line, fit_to, warm

Progress = Callable[[str], None]
Questions = dict[str, Callable[[], DataFrame]]
Start = Callable[[bool], Session]

# Questions that are no checks, asked beside them: how many sends met each fate, what is odd about the numbers, and
# which consumer owned which partition.
FATES, RECORDS, UNREPORTED, IRREGULAR, OWNERS = "_fates", "_records", "_unreported", "_irregular", "_owners"
ALWAYS_S = 30.0  # for Java to start and to compile what the questions need, however few rows there are
EVENTS_A_SECOND = 1_200_000  # that one processor folds, more or less
ROWS_A_SECOND = 50_000  # where every row is looked at
LONG_S = 60.0
OUT_OF_HEAP = 52  # with which Spark ends its own Java
NARROW_ROWS = 200_000  # below, everything is looked at sooner than folded
_PRODUCER = T.StructType([T.StructField("run", T.LongType()), T.StructField("producer", T.IntegerType())])


def judge(
    run_directories: Sequence[Path],
    master: str = "local[*]",
    progress: Progress | None = None,
    session: Session | None = None,
    so_far: SoFar | None = None,
    kafka: Kafka | None = None,
    start: Start | None = None,
) -> list[Verdict]:
    """One verdict for each directory, in their order, also written to its `verdict/`.

    A session from `warm()` may be given, or how to `start` one once it is known whether it should be a large one; both
    stay the caller's to close. With `kafka` the final log is read from there, and the session must have Spark's
    connector.
    """
    say, far = progress or (lambda _: None), so_far or (lambda *_: None)
    verdicts: dict[int, Verdict] = {}
    with ExitStack() as stack:
        sources: dict[int, Source] = {}
        for place, directory in enumerate(path.absolute() for path in run_directories):  # workers stand elsewhere
            say(f"reading {directory.name}")
            try:
                sources[place] = stack.enter_context(opened(directory))
            except Unreadable as problem:
                verdicts[place] = _unreadable(directory, str(problem))
        for home in {source.home for source in sources.values() if source.home}:
            clear_left_behind(home)
        for batch in _batches(sources):
            if session is None:
                say("starting Spark")
                large = any(map(_is_heavy, sources.values()))
                session = start(large) if start else stack.enter_context(warm(master, large=large))
            if kafka is not None:
                folder = stack.enter_context(locked_folder(".log-", _shared(session, list(batch.values()))))
                batch = {
                    place: with_log_of(session, source, kafka, folder, say, far) for place, source in batch.items()
                }
            say(_words(list(batch.values()), cores(session.spark)))
            verdicts |= _judge_batch(session, batch, say, far)
    return [verdicts[place] for place in range(len(run_directories))]


def _batches(sources: dict[int, Source]) -> list[dict[int, Source]]:
    """Runs that can share a job: not two copies of one run, for `run` would not tell them apart, and not so many that
    together they are large."""
    batches: list[dict[int, Source]] = []
    for place, source in sources.items():
        for batch in batches:
            together = [*batch.values(), source]
            if len({each.record.run for each in together}) == len(together) and _rows(together) < LARGE_ROWS:
                batch[place] = source
                break
        else:
            batches.append({place: source})
    return batches


def _rows(sources: Iterable[Source]) -> int:
    return sum(source.rows[table] for source in sources for table in FOLDED)


def _judge_batch(session: Session, batch: dict[int, Source], say: Progress, so_far: SoFar) -> dict[int, Verdict]:
    try:
        with _folder(session, list(batch.values())) as folder:
            findings = _try(session, list(batch.values()), folder / "first", say, so_far)
            if findings is None or findings.broken:
                # A damaged page, or a hash table that did not fit: without such files, and nothing is taken for small.
                batch = {place: source.without(damaged_inside(source)) for place, source in batch.items()}
                findings = _find(session, list(batch.values()), folder / "again", True, say, so_far)
            return {place: _finish(source, findings) for place, source in batch.items()}
    except Exception as error:  # noqa: BLE001  Spark died, or a bug of ours: no evidence, so unknown
        if len(batch) > 1:  # what one run brings about is not the others' fault
            alone = [_judge_batch(session, {place: source}, say, so_far) for place, source in batch.items()]
            return {place: verdict for one in alone for place, verdict in one.items()}
        text = f"The judge could not do its work: {_why(session, error)}."
        return {
            place: write_verdict(source.home, not_judged(source.record, Fitness("judge", False, text)), None)
            for place, source in batch.items()
        }
    finally:
        with suppress(Exception):  # a Spark that died has no cache
            session.spark.catalog.clearCache()


def _why(session: Session, error: Exception) -> str:
    if session.jvm is not None:
        with suppress(subprocess.TimeoutExpired):
            code = session.jvm.process.wait(timeout=1)
            if code == OUT_OF_HEAP:
                return f"Spark's Java needs more than its heap of {MEMORY} for it; set ACKPROOF_JUDGE_MEMORY to more"
            if code < 0:
                how = f"by signal {-code} in the middle of it, as the kernel does where memory runs out"
                return f"Spark's Java was ended {how}"
            return f"Spark's Java ended with exit code {code} in the middle of it"
    line = first_line(error)
    if os.strerror(errno.ENOSPC) in line:  # these are Java's words, which name no place
        return f"{line}: make room on the disk of the run and of temporary files, or set TMPDIR to another place"
    return line


@contextmanager
def _folder(session: Session, sources: Sequence[Source]) -> Iterator[Path]:
    """Where this process and Spark's workers see the same files: with the run, where they are on other machines, or
    where it will take long, so that what was done when something went wrong need not be done again."""
    if len(sources) == 1 and _rows(sources) >= LARGE_ROWS:
        with kept_folder(sources[0]) as kept:
            if kept is not None:
                yield kept
                shutil.rmtree(kept, ignore_errors=True)
                return
    with locked_folder(".witnesses-", _shared(session, sources)) as folder:
        yield folder


def _shared(session: Session, sources: Sequence[Source]) -> Path:
    return session.folder if session.is_local else sources[0].home or sources[0].directory


def _words(sources: Sequence[Source], processors: int) -> str:
    """Return what the judge will do, with an estimate of the time if it is long."""
    said = f"judging {len(sources)} run{'s' if len(sources) > 1 else ''}"
    pace = ROWS_A_SECOND if any(map(_is_heavy, sources)) else EVENTS_A_SECOND
    about = _about(_rows(sources), pace * processors)
    return f"{said} of {_rows(sources):,} events: {about} here" if about else said


def _closer_words(sources: Sequence[Source], rows: int, processors: int) -> str | None:
    """Once it is known how many rows folding leaves to be looked at, where that takes longer than was said."""
    about = _about(rows, ROWS_A_SECOND * processors)
    if not about or any(map(_is_heavy, sources)):
        return None
    return f"{rows:,} of {_rows(sources):,} events are looked at one by one: {about} more"


def _about(rows: int, a_second: int) -> str | None:
    seconds = ALWAYS_S + rows / a_second
    return None if seconds < LONG_S else f"about {seconds / 60:.0f} min"


def _try(session: Session, sources: Sequence[Source], folder: Path, say: Progress, so_far: SoFar) -> Findings | None:
    try:
        return _find(session, sources, folder, False, say, so_far)
    except Exception:  # noqa: BLE001  whatever it was, it will be said if it happens again
        return None


def _find(
    session: Session, sources: Sequence[Source], folder: Path, careful: bool, say: Progress, so_far: SoFar
) -> Findings:
    """`careful` takes nothing for small."""
    spark = session.spark
    looked = _look(session, sources, folder, so_far)
    asked = {name: check for name, check in CHECKS.items() if _is_asked(name, check, sources)}
    rows = _rows(sources)
    if looked is not None and not any(check.needs_full_scan for check in asked.values()):
        rows = sum(one.rows for one in looked)
    if words := _closer_words(sources, rows, cores(spark)):
        say(words)
    small = rows < LARGE_ROWS and not careful
    fit_to(spark, rows, small)
    journal = {
        table: read_table(spark, table, [str(path) for source in sources for path in source.files[table]], small)
        for table in TABLES
    }
    sends, blocks = journal["sends"], journal["blocks"]
    narrow = None if looked is None else _narrow(spark, looked, small)
    if looked is None or narrow is None:
        producers = producers_of(sends, blocks)
        missing, questions = _numbers(spark, producers, lambda: (sends, blocks))
    else:
        producers = [producer for one in looked for producer in one.producers]
        bits = _bits(sources)
        missing, questions = _numbers(spark, producers, lambda: unequal(spark, narrow["sends"], looked, bits))
    unbroken = all(producer.unbroken for producer in producers)
    tables = make_tables(
        spark,
        journal,
        [source.record for source in sources],
        _spans(producers),
        None if missing is None else missing.drop("closed"),
        any(map(_is_compacted, sources)),
        small,
        moments=[row for source in sources for row in moments(source.record, source.small["faults"])],
        phases=[row for source in sources for row in phases(source.record, source.small["faults"])],
        claims=[row for source in sources for row in claims(source.record, source.small["faults"])],
        lives=[row for source in sources for row in lives(source.record, source.small["nodes"])],
        exits=[row for source in sources for row in exits(source.record)],
        covers=[row for source in sources for row in covers(source.record, source.small["faults"])],
        awaited=[row for source in sources for row in awaited(source.record, source.small["faults"])],
        numbers=[(each.run, each.producer, each.first_seq, each.last_seq) for each in producers] if unbroken else None,
    )
    closer = tables
    if looked is None or narrow is None:
        questions[FATES] = partial(fate_counts, tables.fates)
    else:
        tables = counted_tables(spark, tables, looked)
        closer = looking_closer(tables, **narrow, unreported=missing)
        dull = left_out(spark, tables, narrow["sends"], producers)
        questions[FATES] = lambda: fate_counts(closer.fates).unionByName(dull)
    # A heap that is full of kept rows has room for nothing else.
    kept = StorageLevel.MEMORY_AND_DISK if small else StorageLevel.DISK_ONLY
    closer.fates.persist(kept)
    if any(check.needs_fates and not check.prefilterable for check in asked.values()):
        tables.fates.persist(kept)
    questions |= {RECORDS: partial(_records, tables)} | _owners(tables, sources)
    # Those that ask for fates last: one at a time fills the cache, and the others would only wait for it.
    for name, check in sorted(asked.items(), key=lambda one: one[1].needs_fates):
        questions[name] = partial(QUESTIONS[name], closer if check.prefilterable else tables)
    at_once = max(2, min(4, cores(spark)))
    broken = run_checks(questions, folder, small, at_once, lambda count, of: so_far(count, of, "questions answered"))
    essential = [name for name in broken if name not in (*CHECKS, OWNERS)]
    if essential:
        raise RuntimeError(f"the sends could not be counted: {broken[essential[0]]}")
    return Findings(folder, producers, broken)


def _look(session: Session, sources: Sequence[Source], folder: Path, so_far: SoFar) -> list[Looked] | None:
    """Folded, where that is worth it and every run can be."""
    if _rows(sources) < NARROW_ROWS or any(map(_is_compacted, sources)):
        return None
    large = _rows(sources) >= LARGE_ROWS
    found = []
    for source in sources:
        own = folder / "_narrow" / str(source.record.run)
        hands = Hands(so_far=so_far)
        if large or not session.is_local:
            hands = Hands(session.spark, so_far, Kept(folder / "_folds" if len(sources) == 1 else None))
        looked = look(source, own, hands, _bits(sources))
        if looked is None:
            return None
        found.append(looked)
    return found


def _bits(sources: Sequence[Source]) -> int:
    """Of small journals smaller blocks are folded: what was lost in a cluster then lies in few of them."""
    return BITS if _rows(sources) >= LARGE_ROWS else FEWER_BITS


def _is_heavy(source: Source) -> bool:
    """Whether Spark itself will look at millions of rows, and not only at what folding leaves."""
    whole = any(check.needs_full_scan and _is_asked(name, check, [source]) for name, check in CHECKS.items())
    without_offsets = any(producer.acks == "0" for producer in source.record.producers)
    return _rows([source]) >= LARGE_ROWS and (whole or without_offsets or _is_compacted(source))


def _is_compacted(source: Source) -> bool:
    return any(row["compacted"] for row in source.small["ends"])


def _narrow(spark: SparkSession, looked: Sequence[Looked], small: bool) -> dict[str, DataFrame]:
    """The sends, the log and the reads that are worth a look."""
    files = {name: [path for one in looked for path in one.files[name]] for name in FOLDED}
    return {name: read_table(spark, name, paths, small) for name, paths in files.items()}


def _numbers(
    spark: SparkSession, producers: Sequence[Producer], told: Callable[[], tuple[DataFrame, DataFrame]]
) -> tuple[DataFrame | None, Questions]:
    """The numbers that were reserved and never reported, and how odd numbers are counted; nothing where none is odd.
    `told` has the sends and the reservations."""
    differing = [(producer.run, producer.producer) for producer in producers if not producer.equal]
    if not differing:
        return None, {}
    few = few_rows(spark, differing, _PRODUCER)
    sends, blocks = told()
    missing = unreported(sends, blocks, few).cache()
    return missing, {
        UNREPORTED: partial(unreported_counts, missing),
        IRREGULAR: partial(irregular, sends, blocks, few),
    }


def _is_asked(name: str, check: CheckKind, sources: Sequence[Source]) -> bool:
    """Where no run asks, or none has anything in a table that it needs, the answer is known."""
    asked = any(check.applies_to(source.record) and name not in source.not_applicable for source in sources)
    return asked and all(any(source.rows[table] for source in sources) for table in check.needs)


def _records(tables: Tables) -> DataFrame:
    if tables.stretches is not None:
        return tables.stretches.groupBy(*TP).agg(F.sum("records").alias("records")).select(*TP, "records")
    return tables.log.groupBy(*TP).agg(F.count("*").alias("records")).select(*TP, "records")


def _owners(tables: Tables, sources: Sequence[Source]) -> Questions:
    """Who owned which partition, where any consumer reported that; the report draws it, and no result depends on it."""
    return {OWNERS: partial(owned, tables)} if any(source.rows["groups"] for source in sources) else {}


def _spans(producers: Sequence[Producer]) -> dict[int, Span]:
    """When each run's load began, when it made its last send, and when it knew its last outcome."""
    spans: dict[int, Span] = {}
    for run in {producer.run for producer in producers}:
        own = [producer for producer in producers if producer.run == run and producer.first_sent_ns is not None]
        if own:
            first = min(producer.first_sent_ns or 0 for producer in own)
            last = max(producer.last_sent_ns or 0 for producer in own)
            spans[run] = (first, last, max(last, *(producer.last_done_ns or 0 for producer in own)))
    return spans


def _finish(source: Source, findings: Findings) -> Verdict:
    """Compare and write; the directory of witnesses is filled beside the old verdict and takes its place at the end."""
    if source.home is None:
        return verdict_of(source, findings, None)
    with locked_folder(".verdict-", source.home) as new:
        return write_verdict(source.home, verdict_of(source, findings, new), new)


def _unreadable(directory: Path, why: str) -> Verdict:
    """Nothing is written where there is no run."""
    with suppress(OSError):  # a directory that may not be looked into, or of too long a name
        if (directory / "verdict" / "verdict.json").exists():
            why += "; the verdict that stands there is an earlier one"
    return not_judged(None, Fitness("journal", False, f"{why[:1].upper()}{why[1:]}."), directory.name)
