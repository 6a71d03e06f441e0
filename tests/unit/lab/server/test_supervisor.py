"""The supervisor makes a user namespace, which the kernel allows only to a process with one thread."""

from __future__ import annotations

import subprocess
import sys

COUNTS = "import os, ackproof.lab.server.supervisor; print(len(os.listdir('/proc/self/task')))"


def test_the_supervisor_imports_nothing_that_starts_a_thread() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", COUNTS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1"]
