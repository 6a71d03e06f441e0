"""Looking closer finds what looking at everything finds, row by row: hundreds of mostly dull histories in one job. Some
are looked at once more in the way that there is for large journals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql import types as T

from ackproof.judge.engine.large import Looked, counted_tables, look, unequal
from ackproof.judge.engine.parts import Hands
from ackproof.judge.engine.sums import all_whole
from ackproof.judge.fates import fate_counts
from ackproof.judge.frames import Tables, looking_closer, read_table
from ackproof.judge.pipeline import _records as records
from ackproof.judge.registry import QUESTIONS
from ackproof.judge.run_source import Source
from ackproof.judge.schemas import NUMBERS
from ackproof.judge.sequence_audit import Producer, irregular, producers_of, unreported
from ackproof.model.checks import CHECKS
from ackproof.model.journal_tables import TABLES
from ackproof.spark.session import collected, few_rows
from tests.support.asking import session, spark, tables_of, written
from tests.support.histories import FIRST_RUN, History, at
from tests.support.oracles.three_judges import some_of
from tests.support.proving import size

pytestmark = pytest.mark.timeout(size(400, 6 * 3600))  # the first of them folds all histories
HISTORIES = size(100, 5_000)
AT_LARGE = size(50, 500)  # as many are looked at as large journals are, too
BITS = 2  # blocks of four numbers
MESSAGES = 24
STEP_MS = 150  # between two messages of a producer: some 13 a second
CLOSER = [name for name, check in CHECKS.items() if check.prefilterable]
COUNTED = ["rate", "dips", "ack_latency", "offset_gap", "unavailable", "partition_shares", "throughput"]
NUMBERED = ["phantom", "reordered"]  # ask who reserved a number
RECORDS = "_records"  # no check, but what the identity is computed from
SLAB = 20  # sends in a slab
_PRODUCER = T.StructType([T.StructField("run", T.LongType()), T.StructField("producer", T.IntegerType())])


def drawn(number: int) -> History:
    """Two producers, one with an outbox and one after the other, two partitions, a new epoch on the way, two groups;
    then a few things go wrong."""
    random = Random(number)  # noqa: S311  no secret hangs on it
    history = History(run=FIRST_RUN + number, topics=("orders",), settings={"rate_line": 13.0})
    history.producers = [{"outbox": True}, {"after": 1, "threads": 2}]
    ends, epochs = [0, 0], [0, 0]
    moved_at = random.randrange(MESSAGES)
    for step in range(MESSAGES):
        if step == moved_at:
            epochs[0] = 1
        for producer in range(2):
            partition = random.randrange(2)
            offset = ends[partition]
            ends[partition] += 1
            history.send(step, offset, producer=producer, partition=partition, sent=STEP_MS * step)
            history.log(offset, step, producer=producer, partition=partition, epoch=epochs[partition])
            for group in range(2):
                history.read(
                    offset,
                    step,
                    producer=producer,
                    partition=partition,
                    consumer=group,
                    group=group,
                    when=STEP_MS * step,
                )
    for partition in range(2):
        history.state(0, 1, leader=1, epoch=0, partition=partition)
    history.state(STEP_MS * moved_at + random.choice([-400, -200, -50, 0.5, 3]), 2, leader=2, epoch=1)
    for producer in range(2):
        history.block(0, 10, 10, producer=producer)
        history.block(10, MESSAGES - 10, random.choice([None, MESSAGES - 10]), producer=producer)
    history.fault(("asked", 300.0), ("proved", 310.0), ("healed", 2_000.0))
    for group in range(2):
        for partition in range(2):
            history.group(0, "assigned", consumer=group, group=group, partition=partition)
    for _ in range(random.choice([0, 0, 1, 2, 3, 4])):
        _spoil(history, random)
    return history


def _spoil(history: History, random: Random) -> None:
    sends, log, reads = (history.rows[name] for name in ("sends", "log", "reads"))
    send, record, read = random.choice(sends), random.choice(log), random.choice(reads)
    match random.randrange(20):
        case 0:
            log.remove(record)
        case 1:
            log.append({**record, "offset": 2 * MESSAGES + random.randrange(5)})
        case 2:
            log.append({**record, "partition": 1 - record["partition"], "offset": 3 * MESSAGES + random.randrange(5)})
        case 3:
            other = random.choice(log)
            record["producer"], other["producer"] = other["producer"], record["producer"]
            record["seq"], other["seq"] = other["seq"], record["seq"]
        case 4:
            send["offset"] = random.randrange(2 * MESSAGES)
        case 5:
            send["outcome"], send["offset"] = random.choice(["info", "fail"]), None
        case 6:
            send["offset"] = None
        case 7:
            reads.remove(read)
        case 8:
            last = max(each["read_ns"] for each in reads)
            reads.append({**read, "read_ns": last + 1, "poll": len(reads) + 1_000})
        case 9:
            read["seq"] = random.randrange(MESSAGES + 3)
        case 10:
            log.append({**record, "seq": MESSAGES + 7, "offset": 4 * MESSAGES})
        case 11:
            send["done_ns"] = at(random.randrange(STEP_MS * MESSAGES))
        case 12:  # a tail is lost, and others stand in its place
            end = random.randrange(MESSAGES)
            for row in [row for row in log if row["partition"] == 0 and row["offset"] >= end]:
                log.remove(row)
            if log:
                log.append({**random.choice(log), "partition": 0, "offset": end, "leader_epoch": 2})
        case 13:
            log.append({**record, "producer": -1, "seq": -1, "offset": 5 * MESSAGES})
        case 14:
            sends.remove(send)
        case 15:
            sends.append({**send, "done_ns": send["done_ns"] + 1})
        case 16:
            send["seq"] = 2 * MESSAGES
        case 17:  # it waits, and with it whoever comes after
            for row in sends:
                if row["sent_ns"] >= send["sent_ns"] and row["partition"] == send["partition"]:
                    row["done_ns"] += at(random.choice([900, 1_500])) - at(0)
        case 18:  # acknowledged in another order than sent
            send["sent_ns"] = send["due_ns"] = at(random.randrange(STEP_MS * MESSAGES))
            send["done_ns"] = send["sent_ns"] + 1_000
        case 19:  # an offset, acknowledged too early, far ahead
            send["offset"], send["done_ns"] = 3 * MESSAGES, send["sent_ns"] + 1


def _source(folder: Path, history: History) -> Source:
    files: dict[str, tuple[Path, ...]] = {}
    complete = history.complete()
    for table in TABLES:
        schema = TABLES[table].schema
        rows = [{"run": history.run, **row} for row in complete[table]]
        found = pa.Table.from_pylist(rows, schema).sort_by([(name, "ascending") for name in TABLES[table].order])
        if table == "log" and history.run % 2:
            found = found.drop_columns(["digest"])  # as an older journal has it
        path = folder / f"{history.run}-{table}.parquet"
        pq.write_table(found, path, row_group_size=16)  # blocks lie in several groups of rows
        files[table] = (path,) if rows else ()
    return Source(folder, None, history.record(), files, {}, small={"ends": complete["ends"]})


@dataclass(frozen=True)
class Both:
    """The same histories: looked at in full, and folded."""

    everything: Tables
    producers: list[Producer]
    missing: DataFrame
    irregular: DataFrame
    looked: list[Looked]
    counted: Tables
    closer: Tables
    closer_missing: DataFrame
    closer_irregular: DataFrame


@cache
def both(small: bool = True) -> Both:
    histories = [drawn(number) for number in range(HISTORIES if small else AT_LARGE)]
    plain = tables_of(spark(small), *histories, small=small)
    producers = producers_of(plain.sends, plain.blocks)
    few = few_rows(spark(small), [(each.run, each.producer) for each in producers if not each.equal], _PRODUCER)
    missing = unreported(plain.sends, plain.blocks, few).cache()
    everything = tables_of(spark(small), *histories, unreported=missing.drop("closed"), small=small)
    folder = Path(session().folder) / ("small" if small else "large")
    folder.mkdir(exist_ok=True)
    looked = []
    for history in histories:
        found = look(_source(folder, history), folder / str(history.run), Hands(), BITS, SLAB)
        assert found is not None, "every history is in order"
        looked.append(found)
    paths = {table: [path for one in looked for path in one.files[table]] for table in ("sends", "log", "reads")}
    for table, own in paths.items() if small else ():
        paths[table] = [str(folder / f"all-{table}.parquet")]
        pq.write_table(pa.concat_tables(map(pq.read_table, own)), paths[table][0])
    sends, log, reads = (read_table(spark(small), table, own, small) for table, own in paths.items())
    counted = counted_tables(spark(small), everything, looked)
    reported, reserved = unequal(spark(small), sends, looked, BITS)
    own_missing = unreported(reported, reserved, few).cache()
    return Both(
        everything,
        producers,
        missing,
        irregular(plain.sends, plain.blocks, few),
        looked,
        counted,
        looking_closer(counted, sends, log, reads, own_missing),
        own_missing,
        irregular(reported, reserved, few),
    )


def asked(check: str, tables: Tables) -> DataFrame:
    return records(tables) if check == RECORDS else QUESTIONS[check](tables)


ALL = range(FIRST_RUN, FIRST_RUN + HISTORIES)


def rows(check: str, tables: Tables, runs: Container[int] = ALL) -> list[str]:
    spark()  # after other settings by another test
    return in_order((row.asDict(recursive=True) for row in collected(asked(check, tables))), runs)


def expected_of(check: str, runs: Container[int] = ALL) -> list[str]:
    return in_order(of_everything(check), runs)


@cache
def of_everything(check: str) -> list[dict[str, Any]]:
    spark()
    return [row.asDict(recursive=True) for row in collected(asked(check, both().everything))]


def in_order(found: Iterable[dict[str, Any]], runs: Container[int]) -> list[str]:
    return sorted(str(row) for row in found if row["run"] in runs)


def narrow(check: str, both: Both) -> Tables:
    return both.closer if check in CLOSER else both.counted


@pytest.mark.proves("C3")
@pytest.mark.parametrize("check", some_of([*CLOSER, *COUNTED]))
def test_the_same_witnesses_are_found(check: str, record_property: Callable[[str, object], None]) -> None:
    expected = expected_of(check)
    assert rows(check, narrow(check, both())) == expected
    assert len(expected) >= HISTORIES // 40, "the histories hardly ever have this anomaly: they prove little"
    record_property("figure", f"{HISTORIES:,} histories judged alike whole and narrowed")


@pytest.mark.proves("C3")
@pytest.mark.parametrize("check", ["offset_gap", RECORDS])
def test_whole_stretches_of_the_log_stand_for_its_records(check: str) -> None:
    """One that is not whole would have all of them looked at record by record."""
    whole = [one for one in both().looked if all_whole(one.sums["stretches"]).all()]
    counted = counted_tables(spark(), both().everything, whole)
    runs = {one.run for one in whole}
    assert counted.stretches is not None
    expected = expected_of(check, runs)
    assert rows(check, counted, runs) == expected
    assert len(expected) >= HISTORIES // 40


@pytest.mark.proves("C3")
@pytest.mark.parametrize("check", NUMBERED)
def test_numbers_without_a_hole_need_no_join(check: str) -> None:
    broken = {each.run for each in both().producers if not each.unbroken}
    unbroken = [each for each in both().producers if each.run not in broken]
    runs = {each.run for each in unbroken}
    numbers = few_rows(
        spark(), [(each.run, each.producer, each.first_seq, each.last_seq) for each in unbroken], NUMBERS
    )
    expected = expected_of(check, runs)
    for tables in (both().everything, both().closer):
        assert rows(check, replace(tables, numbers=numbers), runs) == expected
    assert len(expected) >= HISTORIES // 40


@cache
def answers_at_large() -> dict[str, list[dict[str, Any]]]:
    own = both(small=False)
    return written(
        {check: partial(asked, check, narrow(check, own)) for check in some_of([*CLOSER, *COUNTED])},
        [one.run for one in own.looked],
    )


@pytest.mark.proves("C3")
@pytest.mark.parametrize("check", some_of([*CLOSER, *COUNTED]))
def test_of_large_journals_the_same_witnesses_are_found(
    check: str, record_property: Callable[[str, object], None]
) -> None:
    runs = range(FIRST_RUN, FIRST_RUN + AT_LARGE)
    expected = expected_of(check, runs)
    assert in_order(answers_at_large()[check], runs) == expected
    assert expected, "the histories do not have this anomaly: they prove nothing"
    record_property("figure", f"{AT_LARGE:,} of them narrowed alike in the way of large journals")


def test_the_same_is_said_of_producers() -> None:
    assert [producer for one in both().looked for producer in one.producers] == both().producers
    assert sum(not producer.equal for producer in both().producers) > HISTORIES // 40


def test_the_same_numbers_were_never_reported() -> None:
    assert sorted(collected(both().closer_missing)) == sorted(collected(both().missing)) != []


def test_the_same_numbers_are_irregular() -> None:
    def odd(frame: DataFrame) -> list[Row]:
        return sorted(row for row in collected(frame) if row["twice"] or row["unreserved"])

    assert odd(both().closer_irregular) == odd(both().irregular)
    assert {(row["twice"] > 0, row["unreserved"] > 0) for row in odd(both().irregular)} >= {
        (True, False),
        (False, True),
    }


def test_what_is_left_out_survived() -> None:
    expected: dict[Any, int] = {}
    for row in collected(fate_counts(both().everything.fates)):
        expected[row["run"], row["fate"]] = row["sends"]
    for row in collected(fate_counts(both().closer.fates)):
        expected[row["run"], row["fate"]] -= row["sends"]
    left = {key: count for key, count in expected.items() if count}
    assert {fate for _, fate in left} == {"survived"}
    reported: dict[int, int] = Counter()
    for producer in both().producers:
        reported[producer.run] += producer.reported
    sizes = sizes_looked_at()
    assert left == {(run, "survived"): count - sizes[run] for run, count in reported.items() if count > sizes[run]}


def test_of_dull_histories_little_is_looked_at() -> None:
    assert sum(size < MESSAGES for size in sizes_looked_at().values()) > HISTORIES // 10


def sizes_looked_at() -> dict[int, int]:
    return {one.run: sum(pq.read_metadata(path).num_rows for path in one.files["sends"]) for one in both().looked}
