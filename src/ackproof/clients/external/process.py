"""Runs an external client: starts its command, reads what it prints, and ends with it.

The client prints one event per line on standard output, which is also kept in `logs/NAME.out.log`. Its standard error
goes to `logs/NAME.err.log`. It runs in its own session, and this process adopts its orphans. So when this process ends
the client, it also ends everything that the client started. SIGTERM asks the client to end, `KILL_CLIENT` kills it, and
so does the death of the run if the client is on the host. Everything that it printed until then is read in any case.
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

from ackproof.clients.external.event_log import (
    LINE_MOST,
    ConsumerEventLog,
    EventLog,
    ExternalClientConfig,
    ProducerEventLog,
)
from ackproof.clients.lateness import Lateness
from ackproof.clients.runtime import Progress, read_config
from ackproof.host import namespaces as kernel
from ackproof.host.processes import KILL_CLIENT, below

CHUNK = 1 << 16
LOOK_S = 0.05
GO_EVERY_S = 0.002
READY_S = 15.0  # a consumer may never get a partition, nor print anything
END_S = 5.0  # for a client to end after SIGTERM
LAST_S = 2.0  # for a client to end after it closed its output, or for others to close the output after the client ended
NOT_STARTED = 127  # the shell's exit code for a command that cannot be started
LAST_LINES = 5


class ExternalClientProcess:
    def __init__(self, config: ExternalClientConfig) -> None:
        self._config = config
        self._progress = Progress(Path(config.progress), create=True)
        self._events: EventLog = (
            ProducerEventLog(config, time.monotonic_ns()) if config.kind == "producer" else ConsumerEventLog(config)
        )
        self._logs = Path(config.directory) / "logs"
        self._process: subprocess.Popen[bytes] | None = None
        self._deadline: float | None = None  # by then it must have ended
        self._begun = time.monotonic()
        self._signal: int | None = None  # the signal that asked us to end

    def end(self, number: int, _: Any = None) -> None:
        """Handle a signal: ask the client to end, or kill it. Its remaining output is still read."""
        self._signal = number
        if self._process is not None:
            kills = number == KILL_CLIENT
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL if kills else signal.SIGTERM)
            self._deadline = time.monotonic() + (0 if kills else END_S)

    def run(self) -> int:
        if self._config.go is not None:
            self._tell(ready=True)
            while self._signal is None and not Path(self._config.go).exists():
                time.sleep(GO_EVERY_S)
        code = 0 if self._signal is not None else self._run_client()
        self._events.close(time.monotonic_ns())
        self._tell(ready=True, done=True)
        return code

    def _run_client(self) -> int:
        """Run the client from its start to its end. Return its exit code as a shell reports it."""
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
            if self._signal is not None:  # it came while the client was being started
                self.end(self._signal)
            try:
                config = self._config
                # Lateness starts a thread, so it begins after the fork.
                with Lateness(config.directory, config.run, config.name, config.journal):
                    self._read_output(process, out)
            finally:
                code = self._wait_for_end(process)
        if code and self._signal is None:
            how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
            print(f"{self._config.name}: the client ended with {how}; its last lines:", flush=True)
            for line in errors_log.read_text(errors="replace").splitlines()[-LAST_LINES:]:
                print(f"  {line}", flush=True)
        return code if code >= 0 else 128 - code

    def _read_output(self, process: subprocess.Popen[bytes], out: Any) -> None:
        """Read everything that the client prints. An overdue client is killed; the pipe still holds its last lines."""
        assert process.stdout is not None  # noqa: S101  # Popen made the pipe, above
        descriptor, torn = process.stdout.fileno(), b""
        while True:
            if self._is_overdue(process):
                if process.returncode is not None:  # another process still holds its output open
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
                torn = torn[: LINE_MOST + 1]  # enough to see that a line is too long
                for line in lines:
                    if line.strip():
                        self._events.hear(line, at_ns)
            self._events.flush_if_due()
            self._tell(ready=self._events.ready or time.monotonic() - self._begun >= READY_S)
        if torn.strip():
            self._events.hear(torn, time.monotonic_ns(), whole=False)

    def _wait_for_end(self, process: subprocess.Popen[bytes]) -> int:
        deadline = time.monotonic() + LAST_S
        while not _is_over(process) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        return self._end_all(process)

    def _end_all(self, process: subprocess.Popen[bytes]) -> int:
        """Kill the client and everything that it started. Its orphans become our children, so none may be left."""
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
            print(
                f"{self._config.name}: these processes of the client cannot be ended: {below(os.getpid())}", flush=True
            )
        return code

    def _is_overdue(self, process: subprocess.Popen[bytes]) -> bool:
        if self._deadline is None and _is_over(process):
            self._deadline = time.monotonic() + LAST_S
        return self._deadline is not None and time.monotonic() > self._deadline

    def _tell(self, ready: bool, done: bool = False) -> None:
        reported, acked, unknown = self._events.counts()
        self._progress.write(int(ready), reported, acked, 0, unknown, int(done), 0, self._events.read_whole())


def _is_over(process: subprocess.Popen[bytes]) -> bool:
    """Whether the client has ended. Orphans that have ended are reaped."""
    while process.returncode is None:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None or ended.si_pid == process.pid:
            return ended is not None
        os.waitpid(ended.si_pid, 0)
    return True


def main() -> int:
    """Run the client and return its exit code. After an error of our own, die by a signal: no client ends like that."""
    try:
        config = read_config(ExternalClientConfig)
        client = ExternalClientProcess(config)
        for number in (signal.SIGTERM, KILL_CLIENT):
            signal.signal(number, client.end)
        kernel.adopt_orphans()
        if config.parent is not None:
            kernel.die_with_parent(KILL_CLIENT, config.parent)
        return client.run()
    except Exception:
        traceback.print_exc()
        os.kill(os.getpid(), signal.SIGKILL)
        raise


if __name__ == "__main__":
    sys.exit(main())
