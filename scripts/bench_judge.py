"""How fast the judge is: `scripts/bench judge --events 10000000`.

Makes the journal of a run of so many events (a third sends, a third records of the healed log, a third reads): ten
producers, four partitions, a group of four consumers. In the middle the leader of partition 0 is replaced by one that
lacks the last messages, so that later ones stand at their offsets; partition 1 gets copies, and in partition 2
neighbours change places. How many is known. Three are measured on the same files, each in a process of its own, with
the memory of all that it starts, and must find exactly these:

    ours    our judge
    duckdb  the same questions as plain exact SQL (`bench_judge_sql.py`)
    plain   our judge without its folds: joins and windows over all rows
    bare    no judge: Spark is started, and every file of the journal is read once

Journals are kept below `--folder`, and used again. With `--write` the figures go to docs/performance.md.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from performance import keep

from ackproof.journal import ROW_GROUP, Writer, parquet_options
from ackproof.journal_tables import TABLES
from ackproof.judge import main as judge_main
from ackproof.judge.sources import opened
from ackproof.judge.spark import Extras, warm
from ackproof.judge.tables import read_table
from ackproof.record import Clock, ConsumerRecord, FaultRecord, Marks, ProducerRecord, RunRecord, write_record
from ackproof.screen import console, say_json, table

HOME = Path(__file__).resolve().parents[1]
PRODUCERS, PARTITIONS = 10, 4
CHUNK = 2_000_000  # messages made at a time
RUN = 1_700_000_000_000_000
START = 10**12
EVERY_NS = 50_000  # 20,000 messages a second
READ_NS = 8_000_000  # after it was due
POLL_NS = 25_000_000
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Planted:
    lost: int
    copies: int
    swapped: int


def main() -> int:
    options = argparse.ArgumentParser(description="How fast the judge is.")
    options.add_argument("--events", type=int, default=10_000_000)
    options.add_argument("--folder", type=Path, default=HOME / "runs" / "bench")
    options.add_argument("--peers", default="ours,duckdb,plain", help="with commas: ours, duckdb, plain, bare")
    options.add_argument("--patience", type=float, help="seconds after which a peer of ours is stopped")
    options.add_argument("--json", action="store_true")
    options.add_argument("--write", action="store_true", help="also into docs/performance.md")
    options.add_argument("--ask", nargs=2, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.ask:
        print(msgspec.json.encode(ask(given.ask[0], Path(given.ask[1]))).decode())
        return 0
    directory = given.folder / f"events-{given.events}"
    planted = plan(given.events // 3)
    if not (directory / "run.json").exists():
        shutil.rmtree(directory, ignore_errors=True)
        began = time.monotonic()
        make(directory, given.events // 3, planted)
        print(f"made {given.events:,} events in {time.monotonic() - began:.0f} s", file=sys.stderr)
    rows = []
    for name in given.peers.split(","):
        rows.append(measured(name, directory, given.events, planted, None if name == "ours" else given.patience))
        print(rows[-1], file=sys.stderr, flush=True)
    if given.write:
        patience = f" --patience {given.patience:g}" if given.patience else ""
        write(
            rows, given.events, f"scripts/bench judge --events {given.events} --peers {given.peers}{patience} --write"
        )
    if given.json:
        say_json(rows)
    else:
        shown = table(*rows[0], right=list(rows[0])[1:])
        for row in rows:
            shown.add_row(*(f"{value:,}" if isinstance(value, int | float) else str(value) for value in row.values()))
        console().print(shown)
    return 0 if all(row["right"] for row in rows if row["judge"] != "bare" and not row["stopped"]) else 3


def _above(row: dict[str, Any]) -> str:
    return "above " if row["stopped"] else ""


def found_in_words(row: dict[str, Any]) -> str:
    if row["judge"] == "bare":
        return "-"
    if row["stopped"]:
        return "stopped: it was not done by then"
    return "exactly what was planted" if row["right"] else f"**wrong: {row['found']}**"


def write(rows: list[dict[str, Any]], events: int, command: str) -> None:
    ours = next((row for row in rows if row["judge"] == "ours"), None)
    names = {"ours": "our judge", "duckdb": "DuckDB, plain SQL", "plain": "Spark, plain", "bare": "Spark, one read"}
    lines = [
        [
            names[row["judge"]],
            f"{_above(row)}{row['seconds']:,.1f} s",
            "-" if row["stopped"] else f"{row['events/s']:,}",
            f"{_above(row)}{row['seconds'] / ours['seconds']:.2f}" if ours else "-",
            f"{row['memory, GiB']:.2f} GiB",
            found_in_words(row),
        ]
        for row in rows
    ]
    keep(
        f"judge {events:012}",
        f"The judge, {events:,} events",
        command,
        "A journal of a third sends, a third records of the healed log and a third reads; ten producers, four"
        " partitions, a leader that failed in the middle. Each in a process of its own, from its start to its end;"
        " memory is that of all processes together at its highest.",
        ["", "time", "events a second", "its time / ours", "memory", "found"],
        lines,
        f"{rows[0]['bytes/event']} bytes of journal for each event.",
    )


def plan(messages: int) -> Planted:
    return Planted(lost=messages // 5_000, copies=messages // 20_000, swapped=messages // 50_000)


# -- a journal ---------------------------------------------------------------------------------------------------------


class Files:
    """Row groups of the right size, each file in its own order as the messages come."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: dict[tuple[str, str], pq.ParquetWriter] = {}

    def add(self, name: str, file: str, **columns: Any) -> None:
        schema = TABLES[name].schema
        size = len(next(iter(columns.values())))
        arrays = [
            pa.array(columns[field.name], field.type)
            if field.name in columns
            else pa.nulls(size, field.type)
            if field.nullable
            else pa.repeat(pa.scalar(RUN if field.name == "run" else 0, field.type), size)
            for field in schema
        ]
        if (name, file) not in self._open:
            (self._directory / "journal" / name).mkdir(parents=True, exist_ok=True)
            path = self._directory / "journal" / name / f"{file}.parquet"
            self._open[name, file] = pq.ParquetWriter(path, schema, **parquet_options(schema))
        self._open[name, file].write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=ROW_GROUP)

    def close(self) -> None:
        for writer in self._open.values():
            writer.close()


def make(directory: Path, messages: int, planted: Planted) -> None:
    """Message m is number m // 10 of producer m % 10; it is due, sent, acknowledged and read one after the other."""
    directory.mkdir(parents=True)
    files = Files(directory)
    ends = np.zeros(PARTITIONS, np.int64)
    failed_at = messages // 2
    last_of_old = _last_of_partition(0, failed_at, planted.lost)
    swapped = planted.swapped
    for first in range(0, messages, CHUNK):
        number = np.arange(first, min(first + CHUNK, messages))
        for part in np.split(number, np.searchsorted(number, [failed_at])):
            if not len(part):
                continue
            if part[0] == failed_at:
                ends[0] -= planted.lost
                _copy(files, ends, part[0], planted.copies)
            partition = _partition(part)
            offset = np.zeros(len(part), np.int64)
            for each in range(PARTITIONS):
                mine = partition == each
                offset[mine] = ends[each] + np.arange(mine.sum())
                ends[each] += mine.sum()
            if part[0] >= failed_at and swapped:
                swapped -= _swap(part, partition, offset, swapped)
            lost = (partition == 0) & (part >= last_of_old) & (part < failed_at)
            _write(files, part, partition, offset, lost, epoch=int(part[0] >= failed_at))
    files.close()
    _write_rest(directory, messages, ends, failed_at)


def _partition(number: Longs) -> Longs:
    return ((number * 2_654_435_761) >> 16) % PARTITIONS


def _last_of_partition(partition: int, before: int, count: int) -> int:
    """The message from which on so many of this partition come before that message."""
    span = PARTITIONS * count * 2 + 1_000
    number = np.arange(max(before - span, 0), before)
    return int(number[_partition(number) == partition][-count])


def _copy(files: Files, ends: Longs, before: int, count: int) -> None:
    """The last messages of partition 1 once more: written twice, and read twice."""
    number = np.arange(max(before - PARTITIONS * count * 2 - 1_000, 0), before)
    number = number[_partition(number) == 1][-count:]
    offset = ends[1] + np.arange(count)
    ends[1] += count
    read_ns = np.full(count, START + before * EVERY_NS + READ_NS - 1)  # after what was read before, before what comes
    _write_records(files, number, np.full(count, 1), offset, read_ns, epoch=0)


def _swap(number: Longs, partition: Longs, offset: Longs, count: int) -> int:
    """Neighbours of producer 3 in partition 2 change places, with two between one pair and the next."""
    mine = np.flatnonzero((partition == 2) & (number % PRODUCERS == 3))
    first = mine[: len(mine) // 4 * 4].reshape(-1, 4)[:count]
    offset[first[:, 0]], offset[first[:, 1]] = offset[first[:, 1]].copy(), offset[first[:, 0]].copy()
    return len(first)


def _write(
    files: Files, number: Longs, partition: Longs, offset: Longs, lost: npt.NDArray[np.bool_], epoch: int
) -> None:
    due = START + number * EVERY_NS
    for producer in range(PRODUCERS):
        mine = number % PRODUCERS == producer
        files.add(
            "sends", f"producer{producer + 1}",
            producer=np.full(mine.sum(), producer), seq=number[mine] // PRODUCERS, topic=np.zeros(mine.sum(), np.int64),
            partition=partition[mine], due_ns=due[mine], sent_ns=due[mine] + 1_000 + number[mine] * 7919 % 20_000,
            done_ns=due[mine] + 5_000_000 + number[mine] * 104_729 % 1_000_000,
            outcome=pa.DictionaryArray.from_arrays(np.zeros(mine.sum(), np.int8), ["ok"]).dictionary_decode(),
            offset=offset[mine],
        )  # fmt: skip
    _write_records(files, number[~lost], partition[~lost], offset[~lost], due[~lost] + READ_NS, epoch)


def _write_records(files: Files, number: Longs, partition: Longs, offset: Longs, read_ns: Longs, epoch: int) -> None:
    for each in range(PARTITIONS):
        mine = np.flatnonzero(partition == each)
        mine = mine[np.argsort(offset[mine], kind="stable")]
        if not len(mine):
            continue
        same = np.full(len(mine), each)
        record = {"topic": np.zeros(len(mine), np.int64), "partition": same, "offset": offset[mine]}
        record |= {"producer": number[mine] % PRODUCERS, "seq": number[mine] // PRODUCERS}
        record |= {"leader_epoch": np.full(len(mine), epoch if each == 0 else 0)}
        files.add("log", f"final-read-{each}", **record)
        in_order = np.maximum.accumulate(read_ns[mine])
        files.add(
            "reads", f"consumer{each + 1}", **record,
            consumer=same, group=np.zeros(len(mine), np.int64), read_ns=in_order,
            poll=(in_order - START) // POLL_NS + 1, assignment=np.ones(len(mine), np.int64),
        )  # fmt: skip


def _write_rest(directory: Path, messages: int, ends: Longs, failed_at: int) -> None:
    ends_ns = START + messages * EVERY_NS + 10**9
    failed_ns = START + failed_at * EVERY_NS

    def rows(name: str, *made: dict[str, Any]) -> None:
        writer = Writer(directory, name, RUN, "made")
        for row in made:
            writer.add(**row)
        writer.close()

    counts = [len(range(producer, messages, PRODUCERS)) for producer in range(PRODUCERS)]
    blocks = [{"producer": p, "first_seq": 0, "count": count, "at_ns": START} for p, count in enumerate(counts)]
    rows("blocks", *blocks, *({**block, "used": block["count"], "at_ns": ends_ns} for block in blocks))
    common = {"topic": 0, "replicas": [1, 2, 3], "isr": [1, 2, 3], "leader": 1, "log_start": 0}
    tps = [{**common, "partition": each, "leader_epoch": int(each == 0)} for each in range(PARTITIONS)]
    whole = [{"high_watermark": int(end), "log_end": int(end)} for end in ends]
    kind = {"min_isr": 1, "compacted": False, "transactional": False, "at_ns": ends_ns}
    rows("ends", *({**tp, **end, "read_to": end["log_end"], **kind} for tp, end in zip(tps, whole, strict=True)))
    seen = [(START, 0), (failed_ns + 10**8, 1), (ends_ns, 1)]
    rows("state", *({**tp, "at_ns": at, "took_ns": 0, "broker": 1, "leader_epoch": epoch if tp["partition"] == 0 else 0}
                    for at, epoch in seen for tp in tps))  # fmt: skip
    fault = {"fault": 1, "kind": "isolate", "asked": ["leader:orders/0"], "targets": ["kafka2"], "by": "the scenario"}
    times = {"asked": failed_ns - 10**8, "proved": failed_ns - 10**7, "healing": ends_ns - 2, "healed": ends_ns - 1}
    rows("faults", *({**fault, "at_ns": at, "event": event, "text": event} for event, at in times.items()))
    rows("probes", {"fault": 1, "at_ns": failed_ns, "held": True, "text": "made"})
    rows("groups", *({"consumer": each, "group": 0, "at_ns": START, "event": "assigned", "topic": 0, "partition": each,
                      "assignment": 1, "position": 0} for each in range(PARTITIONS)))  # fmt: skip
    clock = Clock(RUN * 1000, START - 10**9)
    write_record(
        directory,
        RunRecord(
            run=RUN, name=directory.name, scenario="bench", section="A", title="Made for the bench", shape="base",
            mode="zookeeper", kafka="3.9.2", seed=1, argv=["scripts/bench", "judge"], versions={},
            expect={"lost": "required", "duplicated": "required", "reordered": "required"},
            topics=["orders"], groups=["readers"],
            producers=[ProducerRecord(p, f"producer{p + 1}", 0, "1", count, None) for p, count in enumerate(counts)],
            consumers=[ConsumerRecord(c, f"consumer{c + 1}", 0, 0, start="earliest") for c in range(PARTITIONS)],
            faults=[FaultRecord(1, "isolate", ["leader:orders/0"], heals="at the end")],
            nodes={1: "kafka1", 2: "kafka2", 3: "kafka3"}, began=clock,
            plan={"topics": [{"name": "orders", "partitions": PARTITIONS}]},
            marks=Marks(load_begun_ns=START, load_ended_ns=ends_ns - 3), ended="complete",
            ended_at=Clock(clock.wall_ns + ends_ns - START, ends_ns),
        ),
    )  # fmt: skip


# -- measured ----------------------------------------------------------------------------------------------------------


def measured(name: str, directory: Path, events: int, planted: Planted, patience: float | None) -> dict[str, Any]:
    """One of the peers, in a process of its own with all that it starts."""
    for left in ("verdict", ".judging"):
        shutil.rmtree(directory / left, ignore_errors=True)
    began = time.monotonic()
    stopped = False
    with (
        subprocess.Popen([sys.executable, __file__, "--ask", name, str(directory)], stdout=subprocess.PIPE) as peer,
        highest_memory(peer.pid) as memory,
    ):
        try:
            answer = peer.communicate(timeout=patience)[0]
        except subprocess.TimeoutExpired:
            stopped = True
            peer.terminate()
            answer = peer.communicate()[0]
    seconds = time.monotonic() - began
    found = msgspec.json.decode(answer.splitlines()[-1]) if peer.returncode == 0 else {}
    bytes_of = sum(path.stat().st_size for path in (directory / "journal").rglob("*.parquet"))
    return {
        "judge": name,
        "events": events,
        "seconds": round(seconds, 1),
        "events/s": round(events / seconds),
        "memory, GiB": round(memory[0] / 2**30, 2),
        "bytes/event": round(bytes_of / events, 1),
        "right": found == {"lost": planted.lost, "duplicated": planted.copies, "reordered": planted.swapped},
        "found": found,
        "stopped": stopped,
    }


def ask(name: str, directory: Path) -> dict[str, int | None]:
    """What one of the peers finds; `plain` is our judge without its folds."""
    if name == "duckdb":
        return ask_duckdb(directory)
    if name == "bare":
        return read_once(directory)
    if name == "plain":
        judge_main.NARROW_ROWS = 2**63
        with warm(large=True, extras=Extras(memory="6g")) as session:  # Java may compile as well as it can
            (verdict,) = judge_main.judge([directory], session=session)
    else:
        (verdict,) = judge_main.judge([directory])
    if verdict.result != "confirmed":
        return {verdict.sentence: None}
    return {check.name: check.found for check in verdict.checks if check.name in ("lost", "duplicated", "reordered")}


def read_once(directory: Path) -> dict[str, int | None]:
    with warm() as session, opened(directory) as source:
        for name, paths in source.files.items():
            if paths:
                table = read_table(session.spark, name, [str(path) for path in paths])
                table.write.format("noop").mode("overwrite").save()
    return {}


def ask_duckdb(directory: Path) -> dict[str, int | None]:
    import duckdb
    from bench_judge_sql import QUESTIONS, SETUP

    with tempfile.TemporaryDirectory() as spilled:
        base = duckdb.connect(config={"memory_limit": "5GB", "temp_directory": spilled})
        for name in ("sends", "log", "reads", "ends", "blocks", "state", "faults"):
            base.execute(f"CREATE VIEW {name} AS FROM read_parquet('{directory}/journal/{name}/*.parquet')")
        for statement in SETUP:
            base.execute(statement)
        counts = {}
        for name, question in QUESTIONS.items():
            base.execute(f"CREATE OR REPLACE TEMP TABLE answer AS {question}")
            (counts[name],) = base.execute("SELECT count(*) FROM answer").fetchone() or (None,)
    return {name: counts[name] for name in ("lost", "duplicated", "reordered")}


@contextmanager
def highest_memory(pid: int) -> Iterator[list[int]]:
    """Of a process and all that it started together: what they hold of their own, and share by parts."""
    highest = [0]
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            highest[0] = max(highest[0], sum(_proportional(each) for each in _family(pid)))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield highest
    finally:
        over.set()
        watching.join()


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        children += [c for t in Path(f"/proc/{pid}/task").iterdir() for c in (t / "children").read_text().split()]
    except OSError:
        return []
    return [pid, *(each for child in {int(child) for child in children} for each in _family(child))]


def _proportional(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


if __name__ == "__main__":
    sys.exit(main())
