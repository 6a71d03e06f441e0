"""An interrupted judge leaves only its finished work, and the next judge goes on from there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from ackproof.host.locked_folder import locked_folder
from ackproof.judge.check_runner import rows, run_checks
from ackproof.judge.engine.kept import WORKING
from ackproof.judge.pipeline import judge as judge_here
from ackproof.model.verdict import read_verdict
from ackproof.spark.session import Session
from tests.support.asking import spark
from tests.support.histories import History
from tests.support.scripts_as_modules import script

EVENTS = 3_300_000  # just large enough that the judge keeps its work
INTERRUPTED = 130


def judge(run: Path, temporary: Path, interrupt_at: bytes | None = None) -> tuple[int, str]:
    """Run `ackproof judge`, with Ctrl-C as soon as it prints these words."""
    temporary.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "ackproof", "judge", str(run)]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment) as judging:
        assert judging.stderr is not None
        words = b""
        for line in judging.stderr:
            words += line
            if interrupt_at is not None and interrupt_at in line:
                judging.send_signal(signal.SIGINT)
                interrupt_at = None
    return judging.returncode, words.decode()


@pytest.mark.timeout(400)
def test_the_next_judge_goes_on_where_an_interrupted_one_stopped(tmp_path: Path) -> None:
    bench = script("bench_judge")
    run, temporary = tmp_path / "run", tmp_path / "tmp"
    bench.make(run, EVENTS // 3, bench.plan(EVENTS // 3))
    code, words = judge(run, temporary, b"questions answered")
    assert (code, "events folded" in words, "the same command goes on" in words) == (INTERRUPTED, True, True)
    assert list(temporary.iterdir()) == [], "no file of Spark is left"
    assert [path.name for path in run.glob(".*")] == [".judging"]
    assert list((run / ".judging" / "first" / "_folds").iterdir()), "the folds stay"
    assert not (run / "verdict").exists()
    code, words = judge(run, temporary)
    assert (code, "events folded before, and kept" in words, "events folded," in words) == (0, True, False)
    assert list(run.glob(".*")) == list(temporary.iterdir()) == []
    assert read_verdict(run).lost == EVENTS // 3 // 5_000, "everything that was planted is found"
    verdict = {path: path.read_bytes() for path in (run / "verdict").rglob("*") if path.is_file()}
    code, words = judge(run, temporary, b"events folded")
    assert (code, "questions answered" in words) == (INTERRUPTED, False)
    assert {path: path.read_bytes() for path in (run / "verdict").rglob("*") if path.is_file()} == verdict
    assert list(temporary.iterdir()) == []


def answer() -> DataFrame:
    return spark().createDataFrame(pa.table({"run": [1, 1, 2], "seq": [5, 6, 7]}))


def test_a_check_that_was_answered_is_not_run_again(tmp_path: Path) -> None:
    def breaks() -> Any:
        raise RuntimeError("asked")

    def ask(**questions: Callable[[], Any]) -> tuple[dict[str, str], list[tuple[int, int]]]:
        told: list[tuple[int, int]] = []
        broken = run_checks(questions, tmp_path, True, 2, lambda *far: told.append(far))
        return broken, told

    assert ask(lost=answer, torn_transaction=breaks) == ({"torn_transaction": "RuntimeError: asked"}, [(1, 2), (2, 2)])
    assert ask(lost=breaks, torn_transaction=answer) == ({}, [(2, 2)]), "a check that broke is run again"
    for name in ("lost", "torn_transaction"):
        assert [row["seq"] for row in rows(tmp_path, name, 1)] == [5, 6]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lost", "torn_transaction"]


KILLED = """
import os, signal, sys
from pathlib import Path
from ackproof.judge.engine.kept import WORKING
from ackproof.host.locked_folder import locked_folder
folders = [locked_folder(kind, Path(sys.argv[1])) for kind in WORKING]
for folder in folders:
    (folder.__enter__() / "file").write_text("half")
os.kill(os.getpid(), signal.SIGKILL)
"""


class Stopped(Exception):
    pass


def test_files_of_a_killed_judge_are_removed_and_those_of_a_living_one_are_not(tmp_path: Path) -> None:
    run = History().send(0, 0).log(0, 0).write(tmp_path / "run")
    outside = tmp_path / "outside"
    outside.mkdir()
    (run / ".witnesses-planted8").symlink_to(outside)
    before = set(run.iterdir())
    subprocess.run([sys.executable, "-c", KILLED, str(run)], check=False)
    assert len(set(run.iterdir()) - before) == len(WORKING)

    def start(_: bool) -> Session:
        raise Stopped

    with locked_folder(WORKING[0], run) as own:
        with pytest.raises(Stopped):
            judge_here([run], start=start)
        assert set(run.iterdir()) == {*before, own}
    assert set(run.iterdir()) == before
    assert outside.is_dir()
