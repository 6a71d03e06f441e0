"""Looking closer finds what looking at everything finds, row by row: hundreds of mostly dull histories in one job."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from asking import session, spark, tables_of
from histories import FIRST_RUN, History, at

from ackproof.journal import TABLES
from ackproof.judge.checks import CHECKS
from ackproof.judge.fates import fate_counts
from ackproof.judge.large import counted_tables
from ackproof.judge.narrow import closer, first_seen, folded, narrowed
from ackproof.judge.spark import collected
from ackproof.judge.sums import Lines, Sums
from ackproof.judge.tables import Tables, looking_closer, read_table

HISTORIES = 400
BITS = 2  # blocks of four numbers
MESSAGES = 24
STEP_MS = 150  # between two messages of a producer: some 13 a second
CLOSER = [name for name, check in CHECKS.items() if check.closer and name != "unpublished"]
COUNTED = ["rate", "dips", "late", "offset_gap"]
LATE_NS = 1_000_000_000


def drawn(number: int) -> History:
    """Two producers, two partitions, a new epoch on the way, two groups; then a few things go wrong."""
    random = Random(number)  # noqa: S311  no secret hangs on it
    history = History(run=FIRST_RUN + number, topics=("orders",), settings={"rate_line": 13.0})
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
    match random.randrange(14):
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
            reads.append({**read, "read_ns": read["read_ns"] + 1})
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


def _file(folder: Path, history: History, table: str) -> Path:
    schema = TABLES[table].schema
    rows = [{"run": history.run, **row} for row in history.complete()[table]]
    found = pa.Table.from_pylist(rows, schema).sort_by([(name, "ascending") for name in TABLES[table].order])
    if table == "log" and history.run % 2:
        found = found.drop_columns(["digest"])  # as an older journal has it
    path = folder / f"{history.run}-{table}.parquet"
    pq.write_table(found, path, row_group_size=10)  # blocks lie in several groups of rows
    return path


@cache
def both() -> tuple[Tables, Tables, Tables, list[int]]:
    """Everything; the same with what was counted; what is worth a look, and of how many sends that is."""
    histories = [drawn(number) for number in range(HISTORIES)]
    everything = tables_of(spark(), *histories)
    folder = Path(session().folder)
    found: dict[str, list[Path]] = {"sends": [], "log": [], "reads": []}
    counted: dict[int, Sums] = {}
    sizes = []
    for history in histories:
        files = {table: [_file(folder, history, table)] for table in (*found, "state")}
        first, _, _ = history.span()
        parts, counted[history.run] = folded(files, Lines(first, LATE_NS), BITS)
        none = np.zeros((0, 2), np.int64)
        asked = closer(history.record(), parts, first_seen(files["state"]), none, BITS)
        for table, paths in found.items():
            into = folder / str(history.run)
            paths.append(narrowed(files[table], table, parts[table], asked, into, BITS))
        sizes.append(pq.read_metadata(found["sends"][-1]).num_rows)
    for table, paths in found.items():
        pq.write_table(pa.concat_tables(map(pq.read_table, paths)), folder / f"all-{table}.parquet")
    sends, log, reads = (read_table(spark(), table, [str(folder / f"all-{table}.parquet")], True) for table in found)
    counting = counted_tables(spark(), everything, counted)
    return everything, counting, looking_closer(counting, sends, log, reads), sizes


def rows(check: str, tables: Tables) -> list[str]:
    return sorted(str(row.asDict(recursive=True)) for row in collected(CHECKS[check].function(tables)))


@pytest.mark.parametrize("check", [*CLOSER, *COUNTED])
def test_the_same_witnesses_are_found(check: str) -> None:
    everything, counting, looked, _ = both()
    expected = rows(check, everything)
    assert rows(check, looked if CHECKS[check].closer else counting) == expected
    assert len(expected) >= HISTORIES // 40, "the histories hardly ever have this anomaly: they prove little"


def test_what_is_left_out_survived() -> None:
    everything, _, looked, sizes = both()
    expected: dict[Any, int] = {}
    for row in collected(fate_counts(everything.fates)):
        expected[row["run"], row["fate"]] = row["sends"]
    for row in collected(fate_counts(looked.fates)):
        expected[row["run"], row["fate"]] -= row["sends"]
    left = {key: count for key, count in expected.items() if count}
    assert {fate for _, fate in left} == {"survived"}
    assert left == {
        (FIRST_RUN + number, "survived"): 2 * MESSAGES - size
        for number, size in enumerate(sizes)
        if size < 2 * MESSAGES
    }


def test_of_dull_histories_little_is_looked_at() -> None:
    _, _, _, sizes = both()
    assert sum(size < MESSAGES for size in sizes) > HISTORIES // 10
