"""Killed outright at random moments: while a lab is made and its nodes start, and in every phase of a real run.

In the first the nodes are stand-ins that never serve, so that the lab is caught in every step of its start; everything
else is the lab itself.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest
from real_lab import User, an_ordinary_user, host, journal_rows, mentioning, ourselves, wait_until, with_stand_ins

from proving import size

pytestmark = pytest.mark.cluster
Told = Callable[[str, object], None]


def assert_clean(user: User, before: dict[str, object]) -> None:
    """Nothing of this user's commands runs, no file of theirs is left, and the host is as it was."""
    wait_until(lambda: not user.processes(), "every process is gone")
    wait_until(lambda: not user.temporary_files(), f"{user.environment['TMPDIR']} is empty")
    wait_until(lambda: host() == before, "the host is as before")


# -- while it starts -------------------------------------------------------------------------------------------------

KILLS = size(3, 10, 200)
SMALL_LAB = ("--name", "killed", "--brokers", "1", "--quorum", "1")


@pytest.mark.proves("A1")
@pytest.mark.timeout(120 + 20 * KILLS)
@pytest.mark.parametrize("whom", ["command", "supervisor"])
@pytest.mark.parametrize("who", [ourselves, an_ordinary_user], ids=["root", "rootless"])
def test_a_start_that_is_killed_at_any_moment_leaves_nothing_and_the_name_is_free(
    who: Callable[[], AbstractContextManager[User]], whom: str, record_property: Told
) -> None:
    lots = random.Random(7)  # noqa: S311 - the same moments every time
    with who() as plain, with_stand_ins(plain) as user:
        before, ends = host(), 0
        start_s = seconds_until_its_network_is_made(user)
        for _ in range(KILLS):
            up = user.start("up", *SMALL_LAB)
            if whom == "supervisor":
                wait_until(lambda: bool(supervisors(user)), "there is a supervisor", 60)
            with suppress(subprocess.TimeoutExpired):
                up.wait(timeout=lots.uniform(0, start_s if whom == "supervisor" else 2 * start_s))
            ends += whom == "supervisor" or bool(supervisors(user))

            def ended(up: subprocess.Popen[str] = up) -> bool:
                for pid in [up.pid] if whom == "command" else supervisors(user):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                return up.poll() is not None

            wait_until(ended, "the command has ended", 30)
            _, err = up.communicate()
            assert up.returncode == (-signal.SIGKILL if whom == "command" else 4), err
            assert "is up already" not in err, "what was killed before holds the name"
            assert_clean(user, before)
        assert ends, "no kill came late enough to hit a lab"
    record_property(
        "figure", f"{KILLS} of {KILLS} kills of the {whom} clean, {who.__name__.replace('_', ' ')}, {ends} of a lab"
    )


def seconds_until_its_network_is_made(user: User) -> float:
    begun = time.monotonic()
    up = user.start("up", *SMALL_LAB)
    assert up.stderr is not None
    assert any("network made" in line for line in up.stderr)
    took_s = time.monotonic() - begun
    up.kill()
    up.communicate()
    return took_s


def supervisors(user: User) -> list[int]:
    """The lab's first process, and the one that makes it, for as long as it is there."""
    return sorted(pid for pid, _ in mentioning(f"ackproof.lab.supervisor\0{user.state}/"))


# -- a run -----------------------------------------------------------------------------------------------------------

RUNS = size(1, 1, 10)
USERS = size([ourselves], [ourselves], [ourselves, an_ordinary_user])
SMALL_RUN = ("--set", "producer.count=3000", "--set", "producer.rate=1000", "--set", "faults.0.at_messages=1000")
PHASES = {
    "network": "network made",
    "start": "zk1 serves",
    "load": "sent ",
    "fault on": "severed",
    "heal": "healed",
    "judge": "judging",
    "report": "judging",  # and there is a verdict
}
LAB_PHASES = list(PHASES)[:5]  # then there is no supervisor any more


@pytest.mark.proves("A1", "B1")
@pytest.mark.timeout(180 + 180 * RUNS)
@pytest.mark.parametrize("whom", ["command", "supervisor"])
@pytest.mark.parametrize("who", USERS)
def test_a_run_that_is_killed_in_any_phase_leaves_nothing_but_every_row_that_it_flushed(
    who: Callable[[], AbstractContextManager[User]], whom: str, record_property: Told
) -> None:
    phases = list(PHASES) if whom == "command" else LAB_PHASES
    lots = random.Random(5)  # noqa: S311 - the same phases every time
    drawn = [*lots.sample(phases, len(phases)), *(lots.choice(phases) for _ in range(RUNS))][:RUNS]
    kept = torn = 0
    with who() as user:
        before = host()
        for number, phase in enumerate(drawn):
            out = user.state / "runs" / str(number)
            run = begun(user, out, phase)
            (directory,) = out.iterdir()
            flushed = journal_rows(directory)[0]
            if phase != "report":  # which is over in a moment
                with suppress(subprocess.TimeoutExpired):
                    run.wait(timeout=lots.uniform(0, 0.5))
            os.kill(run.pid if whom == "command" else supervisors(user)[0], signal.SIGKILL)
            _, err = run.communicate(timeout=60)
            assert "Traceback" not in err
            assert run.returncode in ((-signal.SIGKILL,) if whom == "command" else (3, 4)), err
            assert_clean(user, before)
            left, bytes_torn = journal_rows(directory)
            assert flushed <= left, f"killed in {phase!r}: rows that were flushed are gone"
            kept, torn = kept + len(left), torn + bytes_torn
        again = begun(user, user.state / "runs" / "again", "network")  # at once
        again.kill()
        again.communicate()
        assert_clean(user, before)
    record_property(
        "figure",
        f"{RUNS} of {RUNS} kills of a run's {whom} clean, {who.__name__.replace('_', ' ')} "
        f"({', '.join(phase for phase in phases if phase in drawn)}): {kept:,} rows readable, {torn:,} bytes torn",
    )


def begun(user: User, out: Path, phase: str) -> subprocess.Popen[str]:
    """A run that is in this phase."""
    run = user.start("run", "acks1-leader-isolated", *SMALL_RUN, "--out", str(out))
    assert run.stderr is not None
    said = []
    for line in run.stderr:
        said.append(line)
        if PHASES[phase] in line:
            if phase == "report":
                wait_until(lambda: bool(list(out.glob("*/verdict"))), "there is a verdict", 120)
            return run
    raise AssertionError(f"the run never came to {phase!r}: {said}")
