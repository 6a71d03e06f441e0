"""A client that we did not write: starts its command, hears what it prints, and ends with it.

Its standard output is events, one a line, and kept as it came in `logs/NAME.out.log`; its standard error goes to
`logs/NAME.err.log`. It runs in a session of its own, and what it leaves behind is handed to this process: so ending it
ends all that it started. SIGTERM tells it to end, `KILL_CLIENT` kills it, and so does the death of a run on the host;
what it had told by then is heard in any case.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ackproof.clients.external.event_log import LINE_MOST, Account, Consumed, ForeignConfig, Produced
from ackproof.clients.lateness import Lateness
from ackproof.clients.runtime import Progress, read_config
from ackproof.host import namespaces as kernel
from ackproof.host.processes import KILL_CLIENT, below

CHUNK = 1 << 16
LOOK_S = 0.05
GO_EVERY_S = 0.002
READY_S = 15.0  # a consumer may never be given a partition, nor say anything
END_S = 5.0  # for a client that was told to end
LAST_S = 2.0  # for one that has closed its output to end, or that has ended and left it to others
NOT_STARTED = 127  # as a shell says it
LAST_WORDS = 5  # lines


class Listening:
    """The client at work."""

    def __init__(self, config: ForeignConfig) -> None:
        self._config = config
        self._progress = Progress(Path(config.progress), create=True)
        self._account: Account = (
            Produced(config, time.monotonic_ns()) if config.kind == "producer" else Consumed(config)
        )
        self._logs = Path(config.directory) / "logs"
        self._process: subprocess.Popen[bytes] | None = None
        self._deadline: float | None = None  # by which it must have ended
        self._begun = time.monotonic()
        self._asked: int | None = None  # by which signal

    def end(self, number: int, _: Any = None) -> None:
        """Told to end it: the client is told, or killed, and what it still has to say is heard."""
        self._asked = number
        if self._process is not None:
            kills = number == KILL_CLIENT
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL if kills else signal.SIGTERM)
            self._deadline = time.monotonic() + (0 if kills else END_S)

    def run(self) -> int:
        if self._config.go is not None:
            self._tell(ready=True)
            while self._asked is None and not Path(self._config.go).exists():
                time.sleep(GO_EVERY_S)
        code = 0 if self._asked is not None else self._hear_all()
        self._account.close(time.monotonic_ns())
        self._tell(ready=True, done=True)
        return code

    def _hear_all(self) -> int:
        """From the client's start to its end; its exit code, as a shell has it."""
        name = self._config.journal
        errors_log, out_log = (self._logs / f"{name}.{kind}.log" for kind in ("err", "out"))
        with errors_log.open("ab") as errors, out_log.open("ab", buffering=0) as out:
            try:
                process = self._process = subprocess.Popen(
                    self._config.command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    cwd=self._config.folder,
                    start_new_session=True,
                    preexec_fn=partial(kernel.die_with_parent, signal.SIGKILL, os.getpid()),  # no threads here
                )
            except OSError as problem:
                print(f"{self._config.name}: {self._config.command[0]} cannot be started: {problem}", flush=True)
                return NOT_STARTED
            if self._asked is not None:  # in the meantime
                self.end(self._asked)
            try:
                config = self._config
                with Lateness(
                    config.directory, config.run, config.name, config.journal
                ):  # a thread: not before the fork
                    self._hear(process, out)
            finally:
                code = self._ended(process)
        if code and self._asked is None:
            how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
            print(f"{self._config.name}: the client ended with {how}; its last words:", flush=True)
            for line in errors_log.read_text(errors="replace").splitlines()[-LAST_WORDS:]:
                print(f"  {line}", flush=True)
        return code if code >= 0 else 128 - code

    def _hear(self, process: subprocess.Popen[bytes], out: Any) -> None:
        """All that it tells. What is overdue is ended first, and then the pipe holds the last of it."""
        assert process.stdout is not None  # noqa: S101  # made with a pipe, above
        descriptor, torn = process.stdout.fileno(), b""
        while True:
            if self._is_overdue(process):
                if process.returncode is not None:  # and yet somebody holds its output
                    break
                self._end_all(process)
                self._deadline = time.monotonic() + END_S
            if select.select([descriptor], [], [], LOOK_S)[0]:
                heard = os.read(descriptor, CHUNK)
                if not heard:
                    break
                at_ns = time.monotonic_ns()
                out.write(heard)
                *lines, torn = (torn + heard).split(b"\n")
                torn = torn[: LINE_MOST + 1]  # of a line that is too long, enough to see that it is
                for line in lines:
                    if line.strip():
                        self._account.hear(line, at_ns)
            self._account.flush_if_due()
            self._tell(ready=self._account.ready or time.monotonic() - self._begun >= READY_S)
        if torn.strip():
            self._account.hear(torn, time.monotonic_ns(), whole=False)

    def _ended(self, process: subprocess.Popen[bytes]) -> int:
        deadline = time.monotonic() + LAST_S
        while not _is_over(process) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        return self._end_all(process)

    def _end_all(self, process: subprocess.Popen[bytes]) -> int:
        """Nothing of it stays, nor of what it started: orphans are ours, so when we have no child left nothing is."""
        deadline = time.monotonic() + END_S
        self._process = None
        process.kill()
        code = process.wait()
        with suppress(ChildProcessError):
            while time.monotonic() < deadline:
                if os.waitpid(-1, os.WNOHANG) == (0, 0):
                    for pid in below(os.getpid()):
                        with suppress(ProcessLookupError, PermissionError):
                            os.kill(pid, signal.SIGKILL)
                    time.sleep(GO_EVERY_S)
            print(f"{self._config.name}: the client left behind what cannot be ended: {below(os.getpid())}", flush=True)
        return code

    def _is_overdue(self, process: subprocess.Popen[bytes]) -> bool:
        if self._deadline is None and _is_over(process):
            self._deadline = time.monotonic() + LAST_S
        return self._deadline is not None and time.monotonic() > self._deadline

    def _tell(self, ready: bool, done: bool = False) -> None:
        told, acked, unknown = self._account.counts()
        self._progress.write(int(ready), told, acked, 0, unknown, int(done), 0, self._account.read_whole())


def _is_over(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended; orphans that have are collected on the way."""
    while process.returncode is None:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None or ended.si_pid == process.pid:
            return ended is not None
        os.waitpid(ended.si_pid, 0)
    return True


def main() -> int:
    """The client's exit code. What we die of ourselves is a signal, for which no end of the client can be taken."""
    try:
        config = read_config(ForeignConfig)
        listening = Listening(config)
        for number in (signal.SIGTERM, KILL_CLIENT):
            signal.signal(number, listening.end)
        kernel.adopt_orphans()
        if config.parent is not None:
            kernel.die_with_parent(KILL_CLIENT, config.parent)
        return listening.run()
    except Exception:
        traceback.print_exc()
        os.kill(os.getpid(), signal.SIGKILL)
        raise


if __name__ == "__main__":
    sys.exit(main())
