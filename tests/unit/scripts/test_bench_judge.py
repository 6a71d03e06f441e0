"""The bench of the judge: plain SQL finds what it plants, and a judge with other counts is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ackproof.journal.writer import Writer
from tests.support.scripts_as_modules import script

bench = script("bench_judge")
journal = script("bench_judge_journal")
stages = script("bench_judge_stages")
performance = script("performance")

MESSAGES = 4_000
PLANTED = journal.Planted(lost=60, copies=5, swapped=3, given_up=4)
EVENTS = 3 * journal.FEWEST


@pytest.fixture
def made(tmp_path: Path) -> Path:
    journal.make(tmp_path / "run", MESSAGES, PLANTED)
    return tmp_path / "run"


def test_plain_sql_finds_what_was_planted_and_what_follows(made: Path) -> None:
    found = bench.ask_duckdb(made)
    assert found == journal.to_find(MESSAGES, PLANTED)
    assert {name: found[name] for name in ("lost", "duplicated", "reordered", "recovered", "rejected")} == {
        "lost": 60, "duplicated": 5, "reordered": 3, "recovered": 4, "rejected": 4,
    }  # fmt: skip
    assert 0 < found["realtime_order"] < 60


def test_plain_sql_finds_what_the_bench_never_plants(made: Path) -> None:
    """One of each: otherwise a question that finds nothing could as well ask nothing."""
    before = bench.ask_duckdb(made)
    (end,) = ask(made, 'SELECT max("offset") + 1 FROM log WHERE partition = 3')
    (end_of_first,) = ask(made, 'SELECT max("offset") + 1 FROM log WHERE partition = 0')
    late = journal.START + MESSAGES // 2 * journal.EVERY_NS + journal.PAUSE_NS + 500_000_000

    def send(seq: int, outcome: str, partition: int, offset: int | None) -> dict[str, Any]:
        times = {"due_ns": late - 3, "sent_ns": late - 2, "done_ns": late}
        place = {"topic": 0, "partition": partition, "offset": offset}
        return {"producer": 0, "seq": seq, **place, "outcome": outcome, **times}

    def record(seq: int, partition: int, offset: int) -> dict[str, Any]:
        return {"producer": 0, "seq": seq, "topic": 0, "partition": partition, "offset": offset, "leader_epoch": 0}

    def read(assignment: int, poll: int, offset: int, value: tuple[int, int] | None = None) -> dict[str, Any]:
        producer, seq = value or ask(made, f'SELECT producer, seq FROM log WHERE partition = 3 AND "offset" = {offset}')  # noqa: S608
        place = {"topic": 0, "partition": 3, "offset": offset, "producer": producer, "seq": seq, "leader_epoch": 0}
        return {"consumer": 3, "group": 0, "read_ns": late + poll, "poll": poll, "assignment": assignment, **place}

    add(made, "blocks", {"producer": 0, "first_seq": 400, "count": 10, "at_ns": 1})
    add(
        made,
        "sends",
        send(400, "fail", 3, None),
        send(401, "ok", 0, end_of_first),
        send(402, "ok", 3, 5),
        send(403, "ok", 3, 10**6),
    )
    add(
        made,
        "log",
        record(400, 3, end + 1),  # resurrected, with a gap before it
        record(401, 0, end_of_first),  # of the epoch before: acknowledged by a leader that was deposed
        record(402, 3, end + 2),  # moved, from where something else stands
        record(10**6, 3, end + 3),  # that no producer reserved
    )
    add(
        made,
        "reads",
        read(2, 1, end + 1, (0, 400)),
        *(read(3, poll, offset) for poll, offset in enumerate((0, 2, 1), start=2)),
        read(4, 5, 3, (0, 0)),  # which stands elsewhere
    )
    after = bench.ask_duckdb(made)
    assert {name: after[name] - before[name] for name in after if after[name] != before[name]} == {
        "survived": 1, "survived_moved": 1, "resurrected": 1, "lost_truncated": 1, "lost": 1,
        "inconsistent_offset": 2, "realtime_order": 1, "phantom": 1, "offset_gap": 1, "aborted_read": 1,
        "unstable_read": 1, "poll_skip": 1, "nonmonotonic_poll": 1, "delivered_twice": 4, "undelivered": 3,
        "stale_leader_ack": 1,
    }  # fmt: skip


def ask(directory: Path, question: str) -> Any:
    with duckdb.connect() as base:
        base.execute(f"CREATE VIEW log AS FROM read_parquet('{directory}/journal/log/final-read-*.parquet')")
        return base.execute(question).fetchone()


def add(directory: Path, name: str, *rows: dict[str, Any]) -> None:
    writer = Writer(directory, name, journal.RUN, "odd")
    for row in rows:
        writer.add(**row)
    writer.close()


def test_every_question_of_a_check_is_compared() -> None:
    expected = journal.to_find(MESSAGES, PLANTED)
    questions = script("bench_judge_sql").QUESTIONS
    assert {name for name in questions if name in bench.CHECKS} <= set(expected)
    assert set(bench.FATES) <= set(expected)


# -- right or wrong ----------------------------------------------------------------------------------------------------

Change = Callable[[dict[str, int]], object]


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change, peers: str = "ours,duckdb") -> int:
    """The bench, with peers that find what was planted and one, the last, that does not quite."""
    right = journal.to_find(journal.FEWEST, journal.plan(journal.FEWEST)) | {"failover": 4}
    wrong = dict(right)
    change(wrong)
    last = peers.split(",")[-1]

    def measured(name: str, *_: object) -> dict[str, Any]:
        figures = {"seconds": 2.0 if name == "ours" else 5.0, "events/s": 1, "memory, GiB": 1.0, "processor s": 1.0}
        found = wrong if name == last else right
        return {"judge": name, **figures, "bytes/event": 1.0, "found": found, "stopped": False}

    monkeypatch.setattr(bench, "make", lambda directory, *_: directory.mkdir(parents=True))
    monkeypatch.setattr(bench, "measured", measured)
    code: int = bench.main(["--events", str(EVENTS), "--folder", str(tmp_path), "--peers", peers, "--json"])
    return code


@pytest.mark.parametrize(
    ("change", "named", "words"),
    [
        (lambda found: found.update(reordered=7), "reordered", "7, planted: 1"),
        (lambda found: found.update(stale_leader_ack=1), "stale_leader_ack", "1, planted: 0"),
        (lambda found: found.pop("undelivered"), "undelivered", "not told, planted: 0"),
        (lambda found: found.update(failover=3), "failover", "3, ours: 4"),
    ],
)
def test_a_wrong_count_is_named_and_is_no_success(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: Change,
    named: str,
    words: str,
) -> None:
    assert run(tmp_path, monkeypatch, change) == 3
    ours, theirs = json.loads(capsys.readouterr().out)
    assert (ours["wrong"], theirs["wrong"]) == ({}, {named: words})
    assert named in bench.found_in_words(theirs)


def test_who_counts_right_passes_and_ratios_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, monkeypatch, lambda found: None) == 0
    assert [row["its time / ours"] for row in json.loads(capsys.readouterr().out)] == [1.0, 2.5]


def test_a_journal_of_another_maker_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for maker in ("one", "other", "one"):
        monkeypatch.setattr(bench, "maker", lambda maker=maker: maker)
        run(tmp_path, monkeypatch, lambda found: None, "ours")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"events-{EVENTS}-{each}" for each in ("one", "other")]


def test_goals_are_told_with_whether_they_are_met() -> None:
    rows = [
        {"judge": name, "seconds": seconds, "memory, GiB": 1.0, "Spark jobs": 13, "stopped": name == "plain"}
        for name, seconds in {"ours": 10.0, "duckdb": 9.0, "plain": 45.0, "bare": 8.0}.items()
    ]
    assert bench.goals(rows, 600_000, None)[:2] == [
        "Goal: at most 2.0 times a bare session that reads the files once: 1.25, met.",
        "Goal: at most 12 Spark jobs: 13, missed.",
    ]
    assert bench.goals(rows, 100_000_000, (10_000_000, 0.9)) == [
        "Goal: at least 1.00: DuckDB, plain SQL takes 0.90 of our time, missed.",
        "Goal: at least 4.00: Spark, plain takes above 4.50 of our time, met.",
        "Goal: ten times the events in at most eleven times the time: "
        "10.0 times the 10,000,000 events took 11.1 times as long, missed.",
    ]


def test_the_next_smaller_size_is_read_off_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(seconds: str) -> Any:
        return performance.Bench("", "", "", [], [["our judge", seconds]], "", "", "", "")

    page = {"client": of("1 s"), "judge 000010000000": of("30.2 s"), "judge 000100000000": of("1,073.5 s")}
    monkeypatch.setattr(bench, "kept", lambda: page)
    assert bench.next_smaller(1_000_000_000) == (100_000_000, 1073.5)
    assert bench.next_smaller(10_000_000) is None


# -- where the time goes -----------------------------------------------------------------------------------------------


def test_lines_add_up_to_the_whole() -> None:
    """Two stages at once, planning beside and after them, and folding before."""
    task = {"Executor Run Time": 900, "Executor CPU Time": 5 * 10**8, "Executor Deserialize CPU Time": 10**8}
    task |= {"JVM GC Time": 40, "Executor Deserialize Time": 60}
    sql = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"

    def job(began: int) -> dict[str, Any]:
        return {"Event": "SparkListenerJobStart", "Submission Time": began}

    def run_task(began: int) -> dict[str, Any]:
        return {"Event": "SparkListenerTaskEnd", "Task Info": {"Launch Time": began}, "Task Metrics": task}

    def stage(began: int, ended: int) -> dict[str, Any]:
        info = {"Submission Time": began, "Completion Time": ended}
        return {"Event": "SparkListenerStageCompleted", "Stage Info": info}

    log = stages.digest(
        [
            {"Event": "SparkListenerApplicationStart"},
            *(one(8_000) for one in (job, run_task)),  # of a rehearsal
            stage(8_000, 9_000),
            {"Event": f"{sql}Start", "executionId": 7, "time": 8_000},
            {"Event": f"{sql}End", "executionId": 7, "time": 9_000},
            {"Event": f"{sql}Start", "executionId": 0, "time": 13_000},
            job(13_900),
            run_task(14_000),
            run_task(15_000),
            stage(14_000, 16_000),
            stage(15_000, 17_000),
            {"Event": f"{sql}End", "executionId": 0, "time": 17_500},
        ],
        since=10.0,
    )  # fmt: skip
    assert log.sums == {
        "questions to Spark": 1, "jobs": 1, "stages": 2, "tasks": 2, "tasks run s": 1.8, "of it processor s": 1.0,
        "of it collecting garbage s": 0.08, "tasks deserialised s": 0.12, "of it processor s (deserialising)": 0.2,
    }  # fmt: skip
    clock = stages.Clock(5.0, 6.0, 7.5, 10.0, 20.0, 21.0, [(11.0, 13.5)])
    spent = stages.spent(3.0, clock, log, 21.5)
    assert spent == {
        stages.STARTS: 2.0, stages.OPENS: 1.0, stages.SPARK_STARTS: 1.5, stages.REHEARSES: 2.5, stages.STAGES: 3.0,
        stages.PLANS: 1.5, stages.FOLDS: 2.0, stages.REST: 3.5, stages.SPARK_ENDS: 1.0, stages.ENDS: 0.5,
    }  # fmt: skip
    assert sum(spent.values()) == 21.5 - 3.0


def test_the_machine_tells_its_processor_and_its_java() -> None:
    told = performance.machine()
    assert performance.processor() in told
    assert "Java 1" in told or "Java 2" in told


@pytest.mark.spark
def test_from_end_to_end_with_spark_and_its_event_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--events", str(EVENTS), "--folder", str(tmp_path), "--peers", "duckdb,bare", "--stages", "--json"]
    assert bench.main(asked) == 0
    sql, bare = json.loads(capsys.readouterr().out)
    assert sql["found"] == journal.to_find(journal.FEWEST, journal.plan(journal.FEWEST))
    assert sum(bare["spent"].values()) == pytest.approx(bare["seconds"], abs=0.06), "rounded"
    assert all(seconds >= 0 for seconds in bare["spent"].values())
    assert bare["spent"][stages.STAGES] > 0
    assert bare["used"]["stages"] >= 3, "sends, log and reads"
    assert 0 < bare["used"]["of it processor s"] < bare["used"][stages.JAVA]
    assert all(bare["used"][threads] > 0 for threads in stages.THREADS)
