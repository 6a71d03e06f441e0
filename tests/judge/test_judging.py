"""The judge as a process of its own: whoever started it may die at any moment, and nothing of it stays."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from ackproof.judging import END_S

STARTS_AND_DIES = """
import os, signal
from ackproof.judging import Judging
print(Judging(early=True)._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def _is_there(session: int) -> bool:
    try:
        os.killpg(session, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_rehearsal_ends_with_the_run_that_asked_for_it() -> None:
    done = subprocess.run([sys.executable, "-c", STARTS_AND_DIES], capture_output=True, text=True, check=False)
    session = int(done.stdout)
    deadline = time.monotonic() + 6 * END_S
    while _is_there(session):
        assert time.monotonic() < deadline, f"session {session} is still there"
        time.sleep(0.05)
