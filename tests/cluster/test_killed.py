"""Killed outright at random moments while a lab is made and its nodes start. The nodes are stand-ins that never serve,
so that the lab is caught in every step of its start; everything else is the lab itself."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from real_lab import Identity, User, alive, an_ordinary_user, host, mentioning, ourselves, processes_in, wait_until

from conftest import cannot_run
from proving import size

cannot_run("it has never been seen to pass: try it alone first, and take this line away")
pytestmark = pytest.mark.cluster
Told = Callable[[str, object], None]
KILLS = size(3, 10, 200)
LATEST_S = 4.0


@contextmanager
def with_stand_ins(user: User) -> Iterator[User]:
    with tempfile.TemporaryDirectory(prefix="ackproof-test-") as folder:
        program = Path(folder) / "bin" / "java"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\nexec sleep 3600\n")
        (Path(folder) / "release").write_text('JAVA_VERSION="17.0.1"\n')
        for path in (Path(folder), program.parent, program):
            path.chmod(0o755)
        yield replace(user, environment={**user.environment, "JAVA_HOME": folder})


def in_its_namespaces(processes: set[Identity]) -> set[Identity]:
    """These, and whatever runs in pid namespaces that are theirs and not ours."""
    ours = Path("/proc/self/ns/pid").readlink()
    found = set(processes)
    for pid, _ in processes:
        with suppress(OSError):
            if (namespace := Path(f"/proc/{pid}/ns/pid").readlink()) != ours:
                found |= processes_in(namespace)
    return found


@pytest.mark.proves("A1")
@pytest.mark.timeout(60 + 20 * KILLS)
@pytest.mark.parametrize("whom", ["command", "supervisor"])
@pytest.mark.parametrize("who", [ourselves, an_ordinary_user], ids=["root", "rootless"])
def test_a_start_that_is_killed_at_any_moment_leaves_nothing_and_the_name_is_free(
    who: Callable[[], AbstractContextManager[User]], whom: str, record_property: Told
) -> None:
    lots = random.Random(7)  # noqa: S311 - the same moments every time
    with who() as plain, with_stand_ins(plain) as user:
        before, ends = host(), 0
        folder = f"{user.state}/ackproof/labs/killed"
        for _ in range(KILLS):
            up = user.start("up", "--name", "killed", "--brokers", "1", "--quorum", "1")
            with suppress(subprocess.TimeoutExpired):
                up.wait(timeout=lots.uniform(0, LATEST_S))
            began = {each for each in mentioning(folder) if each[0] != up.pid}
            everything = in_its_namespaces(began)
            victim = min(began)[0] if whom == "supervisor" and began else up.pid
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
            _, err = up.communicate(timeout=60)
            assert "is already up" not in err, "what was killed before holds the name"
            wait_until(lambda: not mentioning(folder) and not alive(everything), "every process is gone")  # noqa: B023
            wait_until(lambda: host() == before, "the host is as before")
            ends += bool(everything)
        assert ends, "no kill came late enough to hit anything"
    record_property(
        "figure", f"{KILLS} of {KILLS} kills of the {whom} clean, {who.__name__.replace('_', ' ')}, {ends} of a lab"
    )
