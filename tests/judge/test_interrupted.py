"""A judge that is interrupted leaves nothing but what it has done, and the next one goes on from there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scripts_as_modules import script

EVENTS = 3_300_000  # just large enough for anything to be kept
INTERRUPTED = 130


def judge(run: Path, temporary: Path, interrupt_at: bytes | None = None) -> tuple[int, str]:
    """`ackproof judge`, with Ctrl-C as soon as it says these words."""
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
def test_a_judge_that_is_interrupted_goes_on_where_it_was(tmp_path: Path) -> None:
    bench = script("bench_judge")
    run, other, temporary = tmp_path / "run", tmp_path / "other", tmp_path / "tmp"
    for directory in (run, other):
        bench.make(directory, EVENTS // 3, bench.plan(EVENTS // 3))
    code, words = judge(run, temporary, b"questions answered")
    assert (code, "events folded" in words) == (INTERRUPTED, True)
    assert list(temporary.iterdir()) == [], "nothing of Spark's stays"
    assert [path.name for path in run.glob(".*")] == [".judging"]
    assert list((run / ".judging" / "first" / "_folds").iterdir()), "what was folded stays"
    assert not (run / "verdict").exists()
    code, words = judge(run, temporary)
    assert (code, "events folded" in words) == (0, False), "and is not folded again"
    assert list(run.glob(".*")) == list(temporary.iterdir()) == []
    assert judge(other, temporary)[0] == 0
    told = [(directory / "verdict" / "verdict.json").read_text() for directory in (run, other)]
    assert told[0].replace('"run": "run"', '"run": "other"') == told[1]
