"""Lateness: a process writes a row when it begins, and one for each time in which it did not run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ackproof.clients import lateness
from ackproof.clients.lateness import LATE_NS, Lateness
from ackproof.journal.stream import read_stream

SECOND = 1_000_000_000
PROGRAM = """
import sys
from ackproof.clients.lateness import Lateness
with Lateness(sys.argv[1], 1, "consumer1"):
    print("begun", flush=True)
    sys.stdin.read()
"""


def told(folder: Path) -> list[int]:
    (path,) = (folder / "journal" / "lateness").iterdir()
    return [row["behind_ns"] for row in read_stream(path)[0].to_pylist()]


def test_a_stopped_process_reports_the_delay_when_it_continues(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", PROGRAM, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        begun_ns = time.monotonic_ns()
        while (stopped_ns := time.monotonic_ns() - begun_ns) < SECOND:
            os.sched_yield()
        os.kill(process.pid, signal.SIGCONT)
        process.stdin.close()
        assert process.wait() == 0
    assert max(told(tmp_path)) >= stopped_ns - lateness.EVERY_S * SECOND


def test_a_machine_that_is_always_late_makes_few_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most one per second, but a larger delay than before makes a row at once."""
    monkeypatch.setattr(lateness, "EVERY_S", 3600.0)
    late = Lateness(str(tmp_path), 1, "consumer1")
    with late:
        for tenth, behind_ns in enumerate([LATE_NS, LATE_NS, 2 * LATE_NS, LATE_NS - 1, LATE_NS, 2 * LATE_NS]):
            late.woke(10**18 + tenth * SECOND // 10, behind_ns)
        late.woke(10**18 + 2 * SECOND, LATE_NS)
        late.woke(10**18 + 4 * SECOND, LATE_NS - 1)
    assert told(tmp_path) == [0, LATE_NS, 2 * LATE_NS, LATE_NS]
