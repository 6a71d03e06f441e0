"""The judge as a process of its own. A run starts it early, so that it is warm when it is needed.

    python -m ackproof.judge.worker PARENT FOLDER MASTER [rehearse] [large] [consumers] [connector]

Requests come in on standard input, one JSON a line: run directories, with the cluster that holds the log if it is to be
read from there; or two topics to compare. Progress and answers go out on standard output, one JSON a line. So neither
`run` nor `report` imports Spark, and a Spark that dies takes no run with it.

Nothing stays behind if the parent is killed. The kernel ends the judge with its parent, and Java with the judge,
even while they wait for something. A janitor process, which waits only for the end of the judge, removes the temporary
folder.

While the judge warms up it runs at low priority, and leaves the processors to the brokers and the clients. A large load
leaves no time for that: there it warms up longer, and the load waits for it.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec

from ackproof.core.errors import CannotHere, problem_of
from ackproof.core.redaction import redacted
from ackproof.host.java import find_java
from ackproof.host.locked_folder import make_locked, take_away_unlocked
from ackproof.host.namespaces import die_with_parent
from ackproof.host.own_program import own_program
from ackproof.host.processes import living_in, wait_until
from ackproof.model.verdict import Verdict, Witness

Tell = Callable[[str], None]
SoFar = Callable[[int, int | None, str], None]
NICE = 19  # the lowest priority
END_S = 5.0
FOLDER = "ackproof-judge-"
REHEARSED = [2]  # messages in each rehearsal
REHEARSED_LARGE = [150_000] * 3  # each rehearsal uses the code that the one before compiled
REHEARSAL_S = 120.0  # how long a load waits for the rehearsal at most


class Judging:
    """The parent's side of the judge process."""

    def __init__(
        self,
        master: str = "local[*]",
        early: bool = False,
        large: bool = False,
        consumers: bool = False,
        kafka: tuple[str, dict[str, str]] | None = None,
    ) -> None:
        """Start the process.

        `early`: there is time, so it warms up, with `consumers` if the run has some. `large`: there will be much to
        judge, so Java compiles thoroughly. `kafka`: where the log is, and the settings of the client that reads it.
        """
        java = find_java()
        self._kafka = kafka
        asked = {"rehearse": early, "large": large, "consumers": consumers, "connector": kafka is not None}
        words = [word for word, wanted in asked.items() if wanted]
        try:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # a pipe that is not read would fill up
            # One folder holds all temporary files, so that none stays if the judge is killed.
            take_away_unlocked(FOLDER)
            folder, self._lock = make_locked(FOLDER)
        except OSError as problem:
            raise CannotHere(
                f"the judge can make no temporary file ({problem.strerror}): "
                "make room there, or set TMPDIR to a folder that can be written"
            ) from problem
        self._folder = str(folder)
        self._process = subprocess.Popen(
            own_program("ackproof.judge.worker", str(os.getpid()), self._folder, master, *words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, "JAVA_HOME": str(java.home), "TMPDIR": self._folder},
            pass_fds=[self._lock],
            start_new_session=True,  # Ctrl-C reaches only us, and we end the judge
        )
        self._busy, self._asked = early, False
        self._may_rehearse = early
        self._said = ""

    def wait_until_rehearsed(self) -> None:
        """Wait until the judge is warm. If it died, `judge` says so later."""
        assert self._process.stdout is not None  # noqa: S101  # made with a pipe, above
        told, _, _ = select.select([self._process.stdout], [], [], REHEARSAL_S)
        line = self._process.stdout.readline() if told else ""
        self._may_rehearse = not line
        if "rehearsed" not in line:
            self._said = line

    def judge(self, directories: Sequence[Path], tell: Tell, so_far: SoFar) -> list[Verdict]:
        """The verdicts, which the judge also writes into the runs where it can.

        Raises CannotHere if Spark dies before it answers.
        """
        asked = {"directories": [str(path) for path in directories], "kafka": self._kafka}
        verdicts = self._answer(asked, "verdicts", tell, so_far, again="`ackproof judge RUN` tries again")
        return msgspec.convert(verdicts, list[Verdict])

    def diff(self, directory: Path, topic: str, other: str, most: int | None) -> tuple[dict[str, int], list[Witness]]:
        """The answer of `judge.topic_diff.diff`."""
        asked = {"diff": [str(directory), topic, other, most]}
        counts, found = self._answer(asked, "differences", lambda _: None, lambda *_: None, again="try again")
        return counts, found

    def _answer(self, asked: Mapping[str, Any], wanted: str, tell: Tell, so_far: SoFar, again: str) -> Any:
        assert self._process.stdin is not None  # noqa: S101  # made with pipes, above
        assert self._process.stdout is not None  # noqa: S101
        self._busy = self._asked = True
        if self._may_rehearse and not select.select([self._process.stdout], [], [], 0)[0]:
            tell("the judge is still warming up")
        # The user waits for it now. Only root may raise a priority again. For other users the judge stays at low
        # priority, which matters only if other processes want the processors.
        with suppress(OSError):
            os.setpriority(os.PRIO_PGRP, self._process.pid, 0)
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
        for line in itertools.chain([self._said] if self._said else [], self._process.stdout):
            told = json.loads(line)
            if "progress" in told:
                tell(told["progress"])
            if "so_far" in told:
                count, of, what = told["so_far"]
                so_far(count, of, what)
            if wanted in told:
                self._busy = False
                return told[wanted]
            if "problem" in told:
                raise problem_of(told["code"], told["problem"], told["details"])
        raise CannotHere(f"the judge ended before its answer; {again}:", self._last_words())

    def _last_words(self) -> list[str]:
        self._process.kill()
        self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace")
        return redacted(said, self._kafka[1] if self._kafka else {}).splitlines()[-8:]

    def close(self) -> None:
        """End the process.

        An idle judge ends by itself. A busy one gets a SIGTERM, and Java with it; one that only warms up is killed.
        """
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        if self._busy:
            self._signal(signal.SIGTERM if self._asked else signal.SIGKILL)
        try:
            self._process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()
        deadline = time.monotonic() + END_S
        while self._signal(0) and time.monotonic() < deadline:
            time.sleep(0.02)
        self._signal(signal.SIGKILL)
        if self._process.stdout is not None:
            self._wait_for_janitor(self._process.stdout.fileno())
            self._process.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)
        self._errors.close()

    @staticmethod
    def _wait_for_janitor(output: int) -> None:
        """Wait for the janitor's end: it holds the judge's standard output, and writes nothing."""
        deadline = time.monotonic() + END_S
        while select.select([output], [], [], max(0.0, deadline - time.monotonic()))[0] and os.read(output, 65_536):
            pass

    def _signal(self, number: int) -> bool:
        """Signal the whole session, which is Python and Java. False if no process of it is left."""
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        return True


def _serve(master: str, early: bool, large: bool, consumers: bool, connector: bool) -> None:
    if early:
        os.nice(NICE)
    from ackproof.core.errors import FULL, Problem, no_space
    from ackproof.judge.engine.rehearsal import rehearse
    from ackproof.judge.live_log import Kafka
    from ackproof.judge.pipeline import judge
    from ackproof.judge.topic_diff import diff
    from ackproof.kafka.distribution.jars import ensure_connector
    from ackproof.spark.session import Extras, Session, warm

    def tell(**facts: Any) -> None:
        print(json.dumps(facts), flush=True)

    def tell_problem(problem: Problem) -> None:
        tell(problem=problem.message, details=list(problem.details), code=problem.exit_code)

    session: Session | None = None
    try:
        extras = Extras(jars=ensure_connector(find_java()) if connector else [])
        with ExitStack() as stack:

            def started(large: bool) -> Session:
                nonlocal session
                session = stack.enter_context(warm(master, large=large, extras=extras))
                return session

            if early:
                for sends in REHEARSED_LARGE if large else REHEARSED:
                    rehearse(session or started(large), sends, consumers)
                tell(rehearsed=True)
            for line in sys.stdin:
                asked = json.loads(line)
                if "diff" in asked:
                    directory, *more = asked["diff"]
                    tell(differences=diff(session or started(False), Path(directory), *more))
                    continue
                verdicts = judge(
                    [Path(path) for path in asked["directories"]],
                    kafka=Kafka(*asked["kafka"]) if asked["kafka"] else None,
                    session=session,
                    start=started,
                    progress=lambda said: tell(progress=said),
                    so_far=lambda *far: tell(so_far=far),
                )
                tell(verdicts=msgspec.to_builtins(verdicts))
    except Problem as problem:
        tell_problem(problem)
    except OSError as problem:
        if problem.errno not in FULL:
            raise
        tell_problem(no_space(problem.filename or "the run, or of temporary files", problem.errno))


def _leave_a_janitor(folder: str) -> None:
    """Start a process that waits for our end, kills what is left of our session, and removes our folder.

    It is as small as this process is now, has a session of its own, and holds no pipe but our standard output. By the
    end of that pipe the parent knows that no process is left.
    """
    judge, held, ends = os.getpid(), *os.pipe()
    if os.fork() != 0:
        os.close(held)  # the other end stays open as long as we live
        return
    status = 0
    try:
        os.setsid()
        os.close(ends)
        os.close(sys.stdin.fileno())  # otherwise the judge would never see the end of its input
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        os.read(held, 1)  # nothing is ever written: this returns when the judge ends
        wait_until(lambda: not _ended_by_us(judge), END_S)
        shutil.rmtree(folder, ignore_errors=True)
    except BaseException:  # noqa: BLE001  # it must end here, and not go on as a second judge
        status = 1
    os._exit(status)


def _ended_by_us(group: int) -> bool:
    """Kill what is left of a process group, which is Java. Returns whether anything was left; zombies do not count."""
    left = living_in(group)
    for pid in left:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return bool(left)


def main(parent: str, folder: str, master: str, *words: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # ends it at once, even while it waits for Java or a disk
    _leave_a_janitor(folder)
    die_with_parent(signal.SIGKILL, int(parent))
    _serve(master, *(word in words for word in ("rehearse", "large", "consumers", "connector")))


if __name__ == "__main__":
    main(*sys.argv[1:])
