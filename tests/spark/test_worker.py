"""The judge as a process of its own: the command that started it may die at any moment, and nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ackproof.core.errors import UsageProblem
from ackproof.host.processes import below, living_in, wait_until
from ackproof.judge import pipeline as main
from ackproof.judge.worker import END_S, Judging
from tests.support.asking import session
from tests.support.histories import History

STARTS_AND_DIES = """
import os, signal
from ackproof.judge.worker import Judging
print(Judging(early=True)._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def _is_there(session: int) -> bool:
    try:
        os.killpg(session, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_warm_up_ends_with_its_run_and_leaves_no_file(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    start = [sys.executable, "-c", STARTS_AND_DIES]
    done = subprocess.run(start, capture_output=True, text=True, check=False, env=environment)
    session = int(done.stdout)
    deadline = time.monotonic() + 6 * END_S
    while _is_there(session):
        assert time.monotonic() < deadline, f"session {session} is still alive"
        time.sleep(0.05)
    assert list(tmp_path.iterdir()) == []


KILLED_IN_THE_MIDDLE = """
from ackproof.judge import worker as judging
judging.END_S = 0.0
busy = judging.Judging(early=True)
busy.wait_until_rehearsed()
busy._busy = busy._asked = True
busy.close()
"""


def test_a_judge_that_had_to_be_killed_leaves_no_file(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", KILLED_IN_THE_MIDDLE], check=True, env=environment)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def two_topics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    history = History(topics=("orders", "other"))
    for seq in range(3):
        history.log(seq, seq, digest=seq).log(seq, seq, topic=1, digest=seq + 1)
    return history.write(tmp_path_factory.mktemp("diff") / "run")


def test_the_worker_compares_two_topics_and_returns_problems_with_their_exit_code(two_topics: Path) -> None:
    with closing(Judging("local[1]")) as judging:
        counts, found = judging.diff(two_topics, "orders", "other", 2)
        assert (counts, [row["seq"] for row in found]) == ({"changed": 3}, [0, 1])
        with pytest.raises(UsageProblem, match="did you mean orders"):
            judging.diff(two_topics, "order", "other", 2)


@pytest.mark.proves("A1")
@pytest.mark.parametrize("stopped", [False, True])
def test_a_killed_comparison_leaves_no_file(
    two_topics: Path, tmp_path: Path, stopped: bool, record_property: Callable[[str, object], None]
) -> None:
    """Judge and Java cannot clean up then: the kernel ends them."""
    words = [sys.executable, "-m", "ackproof", "diff", str(two_topics), "orders", "other"]
    with subprocess.Popen(words, env={**os.environ, "TMPDIR": str(tmp_path)}) as compares:
        assert wait_until(lambda: list(tmp_path.rglob("spark.log")) != [], 20 * END_S)
        started = below(compares.pid)
        judges = [pid for pid in started if os.getpgid(pid) != os.getpgid(compares.pid) and living_in(pid) != [pid]]
        for pid in [each for judge in judges for each in living_in(judge)] if stopped else []:
            os.kill(pid, signal.SIGSTOP)
        compares.kill()
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started), 20 * END_S)
    assert list(tmp_path.iterdir()) == []
    record_property("figure", "`diff` killed while Spark starts, also with judge and Java stopped: nothing left")


WAITS = """
import sys
from ackproof.judge import pipeline as judge; from ackproof.judge import worker as judging

def waiting(directories, **_):
    print("it waits", flush=True)
    open(directories[0])  # a FIFO to which no process writes

judge.judge = waiting
judging.main(*sys.argv[1:])
"""
HAS_IT_WAIT = """
import json, os, subprocess, sys, time
waits, folder, fifo = sys.argv[1:]
words = [sys.executable, "-c", waits, str(os.getpid()), folder, "local[1]"]
judge = subprocess.Popen(words, stdin=subprocess.PIPE, text=True)
judge.stdin.write(json.dumps({"directories": [fifo], "kafka": None}) + "\\n")
judge.stdin.flush()
print(judge.pid, flush=True)
judge.wait()
"""


@pytest.mark.proves("A1")
@pytest.mark.parametrize("how", ["its parent is killed", "it is told to end"])
def test_a_judge_that_waits_for_a_fifo_can_be_ended(how: str, tmp_path: Path) -> None:
    folder, fifo = tmp_path / "folder", tmp_path / "fifo"
    folder.mkdir()
    os.mkfifo(fifo)
    words = [sys.executable, "-c", HAS_IT_WAIT, WAITS, str(folder), str(fifo)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        judge = int(parent.stdout.readline())
        assert parent.stdout.readline() == "it waits\n"
        started = [judge, *below(judge)]
        if how == "its parent is killed":
            parent.kill()
        else:
            os.kill(judge, signal.SIGTERM)
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started), 20 * END_S)
    assert [path.name for path in tmp_path.iterdir()] == ["fifo"]


@pytest.mark.parametrize("waits", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_request_before_the_end_of_the_warm_up_is_told_why_it_waits(tmp_path: Path, waits: bool) -> None:
    said = list[str]()
    with closing(Judging(early=True)) as judging:
        if waits:
            judging.wait_until_rehearsed()
        judging.judge([tmp_path], said.append, lambda *_: None)
    assert ("the judge is still warming up" in said) == (not waits)


def test_the_judge_estimates_its_time_and_corrects_the_estimate_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "ALWAYS_S", main.LONG_S)
    run, said = History().send(0, 0).log(0, 0).write(tmp_path / "run"), list[str]()
    main.judge([run], session=session(), progress=said.append)
    assert said[-2:] == [
        "judging 1 run of 2 events: about 1 min here",
        "2 of 2 events are looked at one by one: about 1 min more",
    ]


TALKS = """
import sys
from pathlib import Path
from ackproof.judge import pipeline as judge; from ackproof.judge import worker as judging

def talking(directories, *, start, progress, **_):
    '''As the judge does: whatever breaks becomes a verdict, and on the way out Java is asked once more.'''
    java = start(False).spark._jvm.java.lang
    progress("it talks")
    try:
        try:
            while True:
                java.Thread.sleep(20)
        finally:
            java.System.nanoTime() + 1
    except Exception as problem:
        directories[0].write_text(repr(problem))
    return []

judge.judge = talking
judging.main(*sys.argv[1:])
"""


def test_a_judge_that_is_ended_while_java_answers_writes_no_verdict(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    words = [sys.executable, "-c", TALKS, str(os.getpid()), str(folder), "local[1]"]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as talks:
        assert talks.stdin is not None
        assert talks.stdout is not None
        talks.stdin.write(json.dumps({"directories": [str(tmp_path / "verdict")], "kafka": None}) + "\n")
        talks.stdin.flush()
        assert json.loads(talks.stdout.readline()) == {"progress": "it talks"}
        started = below(talks.pid)
        talks.terminate()
    assert talks.returncode == -signal.SIGTERM
    assert started
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started), 20 * END_S)
    assert list(tmp_path.iterdir()) == []
