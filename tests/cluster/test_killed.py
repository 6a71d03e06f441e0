"""Commands that are killed at random moments leave nothing: a fetch, a starting lab, a run in any phase, a judge.

For the first two Java is a stand-in: it fetches slowly from a repository of its own, and as a node it never serves, so
that kills hit every step of a lab's start. Everything else is the real lab. Some runs have real brokers. Many more have
stand-ins that take messages; their clients, faults and journals are real.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import count, cycle, islice, product
from pathlib import Path

import pytest

from ackproof.kafka.distribution.jars import MANIFEST
from ackproof.model.run_record import read_record
from ackproof.model.verdict import read_verdict
from tests.support.fake_ivy import fake_ivy, publish
from tests.support.proving import size
from tests.support.real_lab import (
    Identity,
    User,
    a_java,
    an_ordinary_user,
    assert_clean,
    journal_rows,
    mentioning,
    on_the_host,
    ourselves,
    told_torn,
    wait_until,
    with_an_empty_cache,
    with_stand_ins,
    with_stand_ins_that_serve,
)

pytestmark = pytest.mark.cluster
Told = Callable[[str, object], None]


# -- while it fetches ------------------------------------------------------------------------------------------------

FETCHES = size(10, 50)
SMALL_LAB = ("--name", "killed", "--brokers", "1", "--quorum", "1")
RELEASE = "3.5.0"  # a version that is not pinned
EACH_JAR_S = 0.1
FETCH_S = 1.5  # ten jars, and some seconds before and after


@pytest.mark.proves("A1")
@pytest.mark.timeout(120 + 20 * FETCHES)
@pytest.mark.parametrize("who", [ourselves, an_ordinary_user], ids=["root", "rootless"])
def test_a_fetch_that_is_killed_at_any_moment_leaves_nothing_and_the_next_one_starts_at_once(
    who: Callable[[], AbstractContextManager[User]], record_property: Told
) -> None:
    lots = random.Random(3)  # noqa: S311 - the same moments every time
    with who() as plain, with_a_repository(plain) as user:
        before, hits, slowest_s = on_the_host(), 0, 0.0
        cache = Path(user.environment["XDG_CACHE_HOME"]) / "ackproof" / "kafka"
        hang = Path(user.environment["JAVA_HOME"]) / "bin" / "hang"
        for _ in range(FETCHES):
            if (cache / RELEASE).exists():
                fetched = len([*(cache / RELEASE).glob("*.jar")])
                assert fetched == len((cache / RELEASE / MANIFEST).read_text().splitlines()), (
                    "the cache has a version as a whole or not at all"
                )
                shutil.rmtree(cache)
            up = user.start("up", *SMALL_LAB, "--kafka", RELEASE)
            wait_until(lambda: bool(fetching(cache)), "it fetches", 60)
            with suppress(subprocess.TimeoutExpired):
                up.wait(timeout=lots.uniform(0, FETCH_S))
            hang.touch()  # any process that outlives its command is seen
            hits += bool(fetching(cache))
            up.kill()
            _, err = up.communicate()
            assert up.returncode == -signal.SIGKILL, err
            assert "waiting for another" not in err, "a killed command still holds the lock"
            slowest_s = max(slowest_s, assert_clean(user, before))
            assert {path.name for path in cache.glob("*")} <= {".lock", ".work", RELEASE}
            hang.unlink()
        assert hits >= FETCHES // 2, f"only {hits} kills came while jars were fetched"
        seconds_until(user, "network made", *SMALL_LAB, "--kafka", RELEASE)
        assert {path.name for path in cache.iterdir()} == {".lock", RELEASE}
        assert_clean(user, before)
    record_property(
        "figure",
        f"{FETCHES} of {FETCHES} kills of the command while it fetches clean, {who.__name__.replace('_', ' ')}, "
        f"{hits} in the middle of it, the slowest after {slowest_s:.1f} s",
    )


def fetching(cache: Path) -> set[Identity]:
    return mentioning(f"-ivy\0{cache}/.work/")


@contextmanager
def with_a_repository(user: User) -> Iterator[User]:
    with a_java(user, fake_ivy(user.python, EACH_JAR_S)) as slowly, with_an_empty_cache(slowly) as found:
        beside = Path(found.environment["JAVA_HOME"]) / "bin"
        publish(beside / "repository", RELEASE)
        (beside / "calls").touch()
        (beside / "calls").chmod(0o666)
        yield found


def seconds_until(user: User, said: str, *arguments: str) -> float:
    """Return how long `up` usually takes until it prints this. Then it is killed."""
    begun = time.monotonic()
    up = user.start("up", *arguments)
    assert up.stderr is not None
    assert any(said in line for line in up.stderr)
    took_s = time.monotonic() - begun
    up.kill()
    up.communicate()
    return took_s


# -- while it starts -------------------------------------------------------------------------------------------------

STARTS = size(10, 100)


@pytest.mark.proves("A1")
@pytest.mark.timeout(120 + 20 * STARTS)
@pytest.mark.parametrize("whom", ["command", "supervisor"])
@pytest.mark.parametrize("who", [ourselves, an_ordinary_user], ids=["root", "rootless"])
def test_a_start_that_is_killed_at_any_moment_leaves_nothing_and_the_name_is_free(
    who: Callable[[], AbstractContextManager[User]], whom: str, record_property: Told
) -> None:
    lots = random.Random(7)  # noqa: S311 - the same moments every time
    with who() as plain, with_stand_ins(plain) as user:
        before, ends, slowest_s = on_the_host(), 0, 0.0
        start_s = seconds_until(user, "network made", *SMALL_LAB)
        for number in range(STARTS):
            up = user.start("up", *SMALL_LAB)
            at_a_lab = (
                whom == "supervisor" or number % 2 == 1
            )  # otherwise at any moment, often before there is a supervisor
            if at_a_lab:
                wait_until(lambda: bool(supervisors(user)), "there is a supervisor", 60)
            with suppress(subprocess.TimeoutExpired):
                up.wait(timeout=lots.uniform(0, start_s if at_a_lab else 2 * start_s))
            ends += bool(supervisors(user))

            def ended(up: subprocess.Popen[str] = up) -> bool:
                for pid in [up.pid] if whom == "command" else supervisors(user):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                return up.poll() is not None

            wait_until(ended, "the command has ended", 30)
            _, err = up.communicate()
            assert up.returncode == (-signal.SIGKILL if whom == "command" else 4), err
            assert "is up already" not in err, "a killed command still holds the name"
            slowest_s = max(slowest_s, assert_clean(user, before))
            assert {lab.name for lab in user.labs()} <= {"killed"}
        assert ends >= STARTS // 2, f"only {ends} kills came late enough to hit a lab"
        user.run("down", "--name", "killed")
        assert user.labs() == []
    record_property(
        "figure",
        f"{STARTS} of {STARTS} kills of the {whom} clean, {who.__name__.replace('_', ' ')}, {ends} of a lab, "
        f"the slowest after {slowest_s:.1f} s",
    )


def supervisors(user: User) -> list[int]:
    """Return the lab's first process, and the process that makes it while there is one."""
    return sorted(pid for pid, _ in mentioning(f"ackproof.lab.server.supervisor\0{user.state}/"))


# -- a run -----------------------------------------------------------------------------------------------------------

RUNS = {"JVMs": 20, "stand-ins": size(10, 80)}
RUN_S = {"JVMs": 30, "stand-ins": 12}  # from its start until everything of it is gone
WHOSE = size(
    [("stand-ins", ourselves, "command"), ("stand-ins", an_ordinary_user, "supervisor")],
    list(product(RUNS, (ourselves, an_ordinary_user), ("command", "supervisor"))),
)
SMALL_RUN = ("--set", "producer.count=3000", "--set", "producer.rate=1000", "--set", "faults.0.at_messages=1000")
OF_STAND_INS = """
name = "stand-ins"
section = "A"
title = "A cluster that only seems to be one"
summary = "Its broker throws away what it takes."

[cluster]
brokers = 1
quorum = 1

[[topics]]
name = "orders"
replication = 1

[[producers]]
topic = "orders"
acks = "1"
count = 4_000
rate = 1_000

[[faults]]
kind = "isolate"
targets = ["kafka1"]
at_messages = 1_000
until_messages = 2_500

[expect]
lost = "allowed"
"""
SAID = {  # the output with which a phase begins
    "network": "network made",
    "start": "zk1 serves",
    "load": "sent ",
    "fault on": "severed",
    "heal": "healed",
    "judge": "judging",
    "report": "judging",  # and there is a verdict
}
LASTS_S = {"network": 2.5, "start": 5.0, "load": 1.0, "fault on": 4.0, "heal": 1.0, "judge": 3.0, "report": 0.3}
LASTS_OF_STAND_INS_S = {"network": 0.1, "start": 0.6, "load": 0.6, "fault on": 1.2, "heal": 1.0}
LAB_PHASES = list(LASTS_OF_STAND_INS_S)  # then the supervisor has ended


def in_time(nodes: str) -> pytest.MarkDecorator:
    """Return the deadline: every kill may miss once, and the machine may be half as fast."""
    return pytest.mark.timeout(180 + 2 * 2 * RUN_S[nodes] * RUNS[nodes])


@pytest.mark.proves("A1", "B1")
@pytest.mark.parametrize(
    ("nodes", "who", "whom"), [pytest.param(nodes, *rest, marks=in_time(nodes)) for nodes, *rest in WHOSE]
)
def test_a_run_that_is_killed_in_any_phase_leaves_only_its_flushed_rows_and_all_of_them(
    nodes: str, who: Callable[[], AbstractContextManager[User]], whom: str, record_property: Told
) -> None:
    lasts_s, kills = LASTS_S if nodes == "JVMs" else LASTS_OF_STAND_INS_S, RUNS[nodes]
    phases = list(lasts_s) if whom == "command" else LAB_PHASES
    lots = random.Random(5)  # noqa: S311 - the same phases every time
    waiting = list(islice(cycle(lots.sample(phases, len(phases))), kills))
    hits: Counter[str] = Counter()
    kept = torn = number = 0
    slowest_s = 0.0
    with who() as plain, with_stand_ins_that_serve(plain) if nodes == "stand-ins" else nullcontext(plain) as user:
        before = on_the_host()
        while waiting:
            planned, number = waiting.pop(0), number + 1
            out = user.state / "runs" / str(number)
            run = begun(user, nodes, out, planned)
            (directory,) = out.iterdir()
            with suppress(subprocess.TimeoutExpired):
                run.wait(timeout=lots.uniform(0, lasts_s[planned]))
            flushed = journal_rows(directory)[0]
            hit = killed(supervisors(user) if whom == "supervisor" else [run.pid] if run.poll() is None else [])
            by_us = hit and whom == "command"
            _, err = run.communicate(timeout=120)
            phase = reached(planned, phases, err)
            assert "Traceback" not in err
            had_all = not by_us and read_record(directory).ended == "complete"  # and the run may be judged
            assert run.returncode in ((-signal.SIGKILL,) if by_us else (0,) if had_all else (3, 4)), err
            slowest_s = max(slowest_s, assert_clean(user, before))
            left, bytes_torn = journal_rows(directory)
            assert flushed <= left, f"killed in {phase!r}: rows that were flushed are gone"
            assert told_torn(directory) == bytes_torn
            assert journal_rows(directory) == (left, 0), "the judge sealed the same rows"
            kept, torn = kept + len(left), torn + bytes_torn
            hits[phase] += hit
            if not hit:  # the process had ended already
                waiting.append(planned)
                assert number - hits.total() <= kills, f"{number} runs, and only these were hit: {dict(hits)}"
        at = time.monotonic()
        again = begun(user, nodes, user.state / "runs" / "again", "network")  # this removes the folders of killed labs
        again_s = time.monotonic() - at
        again.kill()
        again.communicate()
        assert_clean(user, before)
    told = ", ".join(f"{count} in {phase}" for phase, count in hits.items())
    record_property(
        "figure",
        f"{kills} of {kills} kills of the {whom} of a run with {nodes} clean, {who.__name__.replace('_', ' ')} "
        f"({told}), the slowest after {slowest_s:.1f} s: {kept:,} rows readable, {torn:,} bytes torn; the next run had "
        f"its network after {again_s:.1f} s",
    )


def reached(planned: str, phases: list[str], said: str) -> str:
    """Return the phase that a run had reached when it was killed, from its output since the planned phase."""
    later = [phase for phase in phases[phases.index(planned) + 1 :] if phase != "report" and SAID[phase] in said]
    return later[-1] if later else planned


def killed(pids: list[int]) -> bool:
    """Kill these processes, and return whether any was alive."""
    hit = False
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            hit = True
    return hit


def begun(user: User, nodes: str, out: Path, phase: str) -> subprocess.Popen[str]:
    """Yield a run in this phase, which has removed what killed runs had left."""
    words: tuple[str, ...] = ("acks1-leader-isolated", *SMALL_RUN)
    if nodes == "stand-ins":
        scenario = user.state / "stand-ins.toml"
        scenario.write_text(OF_STAND_INS)
        words = (str(scenario), "--no-judge")
    run = user.start("run", *words, "--out", str(out))
    assert run.stderr is not None
    said = []
    with os.fdopen(run.stderr.fileno(), "rb", buffering=0, closefd=False) as lines:  # later output stays in the pipe
        for line in lines:
            said.append(line.decode())
            if SAID[phase] in said[-1]:
                if phase == "report":
                    wait_until(lambda: bool(list(out.glob("*/verdict"))), "there is a verdict", 120)
                assert [lab.name for lab in user.labs() if not lab.name.startswith(f"run-{run.pid}-")] == []
                return run
    raise AssertionError(f"the run never came to {phase!r}: {said}")


# -- a judge ---------------------------------------------------------------------------------------------------------

JUDGED = size(3, 20)
RECORDED = Path(__file__).parents[1] / "recorded" / "runs" / "loss-isolated"


@pytest.mark.long
@pytest.mark.proves("A1", "B1")
@pytest.mark.timeout(180 + 60 * JUDGED)
@pytest.mark.parametrize("who", [ourselves, an_ordinary_user], ids=["root", "rootless"])
def test_a_judge_that_is_killed_at_any_moment_leaves_nothing_and_does_not_change_the_journal(
    who: Callable[[], AbstractContextManager[User]], record_property: Told
) -> None:
    lots = random.Random(13)  # noqa: S311 - the same moments every time
    with who() as user:
        run = shutil.copytree(RECORDED, user.state / "run")
        for path in (run, *run.rglob("*")):
            os.chown(path, user.uid or os.getuid(), user.uid or os.getgid())
        before, judge_s = on_the_host(), -time.monotonic()
        done = user.run("judge", str(run), timeout_s=200)
        judge_s += time.monotonic()
        assert done.returncode in (0, 1), done.stderr
        verdict, journal, hits = read_verdict(run), contents(run / "journal"), 0
        for number in count(1):
            judge = user.start("judge", str(run))
            with suppress(subprocess.TimeoutExpired):
                judge.wait(timeout=lots.uniform(0, judge_s))
            hits += killed([judge.pid] if judge.poll() is None else [])
            _, err = judge.communicate(timeout=60)
            assert "Traceback" not in err
            assert_clean(user, before)
            assert contents(run / "journal") == journal
            if hits == JUDGED:
                break
            assert number <= 2 * hits + 10, f"of {number} kills only {hits} hit a process"
        assert user.run("judge", str(run), timeout_s=200).returncode == done.returncode
        assert (read_verdict(run), contents(run / "journal")) == (verdict, journal)
        assert_clean(user, before)
    record_property("figure", f"{hits} of {hits} kills of a judge clean, {who.__name__.replace('_', ' ')}")


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
