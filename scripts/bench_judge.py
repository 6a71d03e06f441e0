"""How fast the judge is: `scripts/bench judge --events 10000000`.

Makes the journal of a run of so many events (a third sends, a third records of the healed log, a third reads) with an
outage in its middle (`bench_judge_journal.py`). Three are measured on the same files, each in a process of its own,
with the memory of all that it starts:

    ours    our judge
    duckdb  the same questions as plain exact SQL (`bench_judge_sql.py`)
    plain   our judge without its folds: joins and windows over all rows

and, to see what a small run's time is spent on,

    bare       no judge: Spark is started, and every file of the journal is read once
    rehearsed  our judge, in a session that has rehearsed as `run` does it
    again      our judge, in a session that has judged the same journal before

Each must find exactly what was planted, and what follows from it; and wherever two of them count the same, they must
count the same. If not it ends with 3. Journals are kept below `--folder`, and used again by the maker that made them.
`--stages` shows where the time went (`bench_judge_stages.py`). With `--write` the figures go to docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from bench_judge_journal import FEWEST, make, maker, plan, to_find
from bench_judge_stages import Clock, clocked, judging_begins, read_log, spent
from performance import keep, kept

from ackproof.cli.ui.console import console, say_json, table
from ackproof.host.processes import below
from ackproof.judge import pipeline as judge_main
from ackproof.judge.engine.rehearsal import rehearse
from ackproof.judge.fates import FATES
from ackproof.judge.frames import read_table
from ackproof.judge.run_source import opened
from ackproof.model.checks import CHECKS

HOME = Path(__file__).resolve().parents[1]
NAMES = {"ours": "our judge", "duckdb": "DuckDB, plain SQL", "plain": "Spark, plain", "bare": "Spark, one read"}
NAMES |= {"rehearsed": "our judge, rehearsed", "again": "our judge, again"}
SAMPLED_S = 0.5
Row = dict[str, Any]


class Answer(msgspec.Struct):
    found: dict[str, int]
    clock: Clock


def main(argv: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(description="How fast the judge is.")
    options.add_argument("--events", type=int, default=10_000_000)
    options.add_argument("--folder", type=Path, default=HOME / "runs" / "bench")
    options.add_argument("--peers", default="ours,duckdb,plain", help=f"with commas: {', '.join(NAMES)}")
    options.add_argument("--patience", type=float, help="seconds after which a peer of ours is stopped")
    options.add_argument("--stages", action="store_true", help="also where the time went, by Spark's event log")
    options.add_argument("--json", action="store_true")
    options.add_argument("--write", action="store_true", help="also into docs/performance.md")
    options.add_argument("--ask", nargs=2, help=argparse.SUPPRESS)
    options.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args(argv)
    if given.ask:
        print(msgspec.json.encode(ask(given.ask[0], Path(given.ask[1]), given.log)).decode())
        return 0
    messages = given.events // 3
    peers = given.peers.split(",")
    if messages < FEWEST or not set(peers) <= set(NAMES):
        options.error(f"at least {3 * FEWEST:,} events, and peers out of {', '.join(NAMES)}")
    planted = plan(messages)
    directory = given.folder / f"events-{given.events}-{maker()}"
    if not (directory / "run.json").exists():
        shutil.rmtree(directory, ignore_errors=True)
        began = time.monotonic()
        make(directory, messages, planted)
        print(f"made {given.events:,} events in {time.monotonic() - began:.0f} s", file=sys.stderr)
    rows = []
    for name in peers:
        patience = None if name == "ours" else given.patience
        rows.append(measured(name, directory, given.events, patience, given.stages))
        print(rows[-1], file=sys.stderr, flush=True)
    compare(rows, to_find(messages, planted))
    if given.write:
        asked = f"--events {given.events} --peers {given.peers}"
        asked += f" --patience {given.patience:g}" if given.patience else ""
        write(rows, given.events, f"scripts/bench judge {asked}{' --stages' if given.stages else ''} --write")
    if given.json:
        say_json(rows)
    else:
        show(rows)
    return 3 if any(row["wrong"] for row in rows) else 0


# -- right or wrong, and how they compare ------------------------------------------------------------------------------


def compare(rows: list[Row], expected: dict[str, int]) -> None:
    """What each found that is not as planted, or not as the first that counted it; and its time beside ours."""
    ours = next((row["seconds"] for row in rows if row["judge"] == "ours"), None)
    first: dict[str, tuple[str, int]] = {name: ("planted", count) for name, count in expected.items()}
    for row in rows:
        row["its time / ours"] = round(row["seconds"] / ours, 2) if ours else None
        row["wrong"] = {}
        if row["judge"] == "bare" or row["stopped"]:
            continue
        found = row["found"]
        if not found:
            row["wrong"]["answer"] = "none"
            continue
        for name, count in found.items():
            whose, told = first.setdefault(name, (row["judge"], count))
            if count != told:
                row["wrong"][name] = f"{count}, {whose}: {told}"
        row["wrong"] |= {name: f"not told, planted: {expected[name]}" for name in expected if name not in found}


def found_in_words(row: Row) -> str:
    if row["judge"] == "bare":
        return "-"
    if row["stopped"]:
        return "stopped: it was not done by then"
    if row["wrong"]:
        return f"**wrong: {', '.join(row['wrong'])}**"
    return f"exactly what was planted ({len(row['found'])} counts)"


def _above(row: Row) -> str:
    return "above " if row["stopped"] else ""


COLUMNS = ("", "time", "events a second", "its time / ours", "processor time", "memory", "Spark jobs", "found")


def line(row: Row) -> list[str]:
    ratio = row["its time / ours"]
    return [
        NAMES[row["judge"]],
        f"{_above(row)}{row['seconds']:,.1f} s",
        "-" if row["stopped"] else f"{row['events/s']:,}",
        "-" if ratio is None else f"{_above(row)}{ratio:.2f}",
        f"{_above(row)}{row['processor s']:,.1f} s",
        f"{row['memory, GiB']:.2f} GiB",
        str(row["Spark jobs"] or "-"),
        found_in_words(row),
    ]


def show(rows: list[Row]) -> None:
    shown = table(*COLUMNS, right=COLUMNS[1:-1])
    for row in rows:
        shown.add_row(*line(row))
    console().print(shown)
    for row in rows:
        for name, words in row["wrong"].items():
            console().print(f"wrong, {row['judge']}: {name}: {words}")
        for title in ("spent", "used"):
            if row.get(title):
                made = table(NAMES[row["judge"]], title, right=[title])
                for name, figure in row[title].items():
                    made.add_row(name, f"{figure:,.2f}".removesuffix(".00"))
                console().print(made)


def goals(rows: list[Row], events: int, smaller: tuple[int, float] | None) -> list[str]:
    """The goals for a journal of this size, and whether they are met; `smaller` is the next smaller one that was
    measured, and how long ours took."""
    of = {row["judge"]: row for row in rows}
    if "ours" not in of:
        return []
    ours = of["ours"]["seconds"]
    said = []

    def say(goal: str, figure: str, met: bool) -> None:
        said.append(f"{goal}: {figure}, {'met' if met else 'missed'}.")

    if events < 1_000_000 and "bare" in of:
        ratio = ours / of["bare"]["seconds"]
        say("Goal: at most 2.0 times a bare session that reads the files once", f"{ratio:.2f}", ratio <= 2.0)
        jobs = of["ours"]["Spark jobs"]
        say("Goal: at most 12 Spark jobs", f"{jobs}", jobs <= 12)
    for name, least in {"duckdb": 1.0, "plain": 4.0}.items():
        if name in of:
            ratio = of[name]["seconds"] / ours
            figure = f"{NAMES[name]} takes {_above(of[name])}{ratio:.2f} of our time"
            if events < 100_000_000:
                said.append(f"{figure} (the goal of at least {least:.2f} is for 100 million events).")
            else:
                say(f"Goal: at least {least:.2f}", figure, ratio >= least)
    if events >= 1_000_000_000:
        memory = of["ours"]["memory, GiB"]
        say("Goal: at most 6 GiB of memory in all", f"{memory:.2f} GiB", memory <= 6)
    if smaller is not None:
        more, longer = events / smaller[0], ours / smaller[1]
        figure = f"{more:.1f} times the {smaller[0]:,} events took {longer:.1f} times as long"
        if smaller[0] < 10_000_000:
            said.append(f"{figure}.")
        else:
            say("Goal: ten times the events in at most eleven times the time", figure, longer <= 1.1 * more)
    return said


def next_smaller(events: int) -> tuple[int, float] | None:
    """Of the sizes that are on the page already."""
    sizes = {int(name.split()[1]): bench for name, bench in kept().items() if name.startswith("judge ")}
    below = [size for size in sizes if size < events]
    if not below:
        return None
    took = next((row[1] for row in sizes[max(below)].rows if row[0] == NAMES["ours"]), None)
    return None if took is None else (max(below), float(took.removesuffix(" s").replace(",", "")))


def write(rows: list[Row], events: int, command: str) -> None:
    words = [*goals(rows, events, next_smaller(events)), f"{rows[0]['bytes/event']} bytes of journal for each event."]
    keep(
        f"judge {events:012}",
        f"The judge, {events:,} events",
        command,
        "A third of the journal's events are sends, a third are records of the healed log and a third are reads. There"
        " are ten producers, four partitions and a leader that failed in the middle: acknowledged messages are lost, no"
        " message is acknowledged for two seconds, and sends fail or have an unknown outcome. The journal has no"
        " transactions, keys, mirrors or rebalances. Each judge runs in a process of its own and is measured from its"
        " start to its end. Memory is the highest sum of all its processes, sampled every"
        f" {SAMPLED_S:g} s.",
        list(COLUMNS),
        [line(row) for row in rows],
        " ".join(words),
    )


# -- measured ----------------------------------------------------------------------------------------------------------


@contextmanager
def ended_with_us(peer: subprocess.Popen[bytes]) -> Iterator[None]:
    """With all that it started. It does not hear our terminal's interrupts, which Spark would answer in its own way."""
    try:
        yield
    except BaseException:
        for pid in (*below(peer.pid), peer.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise


def measured(name: str, directory: Path, events: int, patience: float | None, stages: bool) -> Row:
    """One of the peers, in a process of its own with all that it starts."""
    for left in ("verdict", ".judging"):
        shutil.rmtree(directory / left, ignore_errors=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as log:
        command = [sys.executable, __file__, "--ask", name, str(directory)]
        command += ["--log", log] if stages and name != "duckdb" else []
        began, used, stopped = time.time(), _used(), False
        temporary = Path(log, ".temporary")  # gone with us, however a peer ends
        temporary.mkdir()
        environment = {**os.environ, "TMPDIR": str(temporary)}
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, start_new_session=True) as peer,
            ended_with_us(peer),
            highest_memory(peer.pid) as memory,
        ):
            try:
                said = peer.communicate(timeout=patience)[0]
            except subprocess.TimeoutExpired:
                stopped = True
                peer.terminate()
                said = peer.communicate()[0]
            ended = time.time()
        answer = msgspec.json.decode(said.splitlines()[-1], type=Answer) if peer.returncode == 0 else None
        bytes_of = sum(path.stat().st_size for path in (directory / "journal").rglob("*.parquet"))
        row = {
            "judge": name,
            "events": events,
            "seconds": round(ended - began, 1),
            "events/s": round(events / (ended - began)),
            "memory, GiB": round(memory[0] / 2**30, 2),
            "processor s": round(_used() - used, 1),
            "bytes/event": round(bytes_of / events, 1),
            "Spark jobs": answer.clock.jobs if answer else 0,
            "found": answer.found if answer else {},
            "stopped": stopped,
        }
        if answer and "--log" in command:
            of_spark = read_log(Path(log), answer.clock.judges)
            row["spent"] = spent(began, answer.clock, of_spark, ended)
            row["used"] = of_spark.sums | answer.clock.used
    return row


def _used() -> float:
    """Processor seconds of all processes that were started from here and have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ask(name: str, directory: Path, log: Path | None) -> Answer:
    """What one of the peers finds; `plain` is our judge without its folds."""
    clock = Clock()
    if name == "duckdb":
        return Answer(ask_duckdb(directory), clock)
    if name == "bare":
        read_once(directory, clock, log)
        return Answer({}, clock)
    with ExitStack() as stack:
        if name == "ours":
            (verdict,) = judge_main.judge(
                [directory], start=lambda large: stack.enter_context(clocked(clock, log, large))
            )
        else:
            session = stack.enter_context(clocked(clock, log, *((True, "6g") if name == "plain" else ())))
            if name == "plain":
                judge_main.NARROW_ROWS = 2**63
            elif name == "rehearsed":
                rehearse(session)
            else:
                judge_main.judge([directory], session=session)
            judging_begins(clock, session)
            (verdict,) = judge_main.judge([directory], session=session)
    if verdict.result != "confirmed":
        raise SystemExit(verdict.sentence)
    return Answer(
        {**verdict.fates, **{check.name: check.found for check in verdict.checks if check.found is not None}}, clock
    )


def read_once(directory: Path, clock: Clock, log: Path | None) -> None:
    with clocked(clock, log) as session, opened(directory) as source:
        for name, paths in source.files.items():
            if paths:
                rows = read_table(session.spark, name, [str(path) for path in paths])
                rows.write.format("noop").mode("overwrite").save()


def ask_duckdb(directory: Path) -> dict[str, int]:
    """How many rows answer each question, and how many sends met each fate."""
    import duckdb
    from bench_judge_sql import QUESTIONS, SETUP

    counts: dict[str, int] = {}
    with (
        tempfile.TemporaryDirectory() as spilled,
        duckdb.connect(config={"memory_limit": "5GB", "temp_directory": spilled}) as base,
    ):
        for name in ("sends", "log", "reads", "ends", "blocks", "state", "faults"):
            base.execute(f"CREATE VIEW {name} AS FROM read_parquet('{directory}/journal/{name}/*.parquet')")
        for statement in SETUP:
            base.execute(statement)
        for name, question in QUESTIONS.items():
            base.execute(f"CREATE OR REPLACE TEMP TABLE answer AS {question}")
            if name == "fates":
                counts |= dict.fromkeys(FATES, 0) | dict(base.execute("FROM answer").fetchall())
            elif name in CHECKS:
                ((counts[name],),) = base.execute("SELECT count(*) FROM answer").fetchall()
    return counts


@contextmanager
def highest_memory(pid: int) -> Iterator[list[int]]:
    """Of a process and all that it started together: what they hold of their own, and share by parts."""
    highest = [0]
    over = threading.Event()

    def watch() -> None:
        while not over.wait(SAMPLED_S):
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
    signal.signal(signal.SIGINT, lambda number, _: sys.exit(128 + number))
    sys.exit(main())
