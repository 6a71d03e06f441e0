"""A client that we did not write: starts its command, hears what it prints, and ends with it.

Its standard output is events, one a line, and kept as it came in `logs/NAME.out.log`; its standard error goes to
`logs/NAME.err.log`. It runs in a session of its own, so that ending it ends what it started too, and it cannot outlive
this process.
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

from ackproof.clients.accounts import LINE_MOST, Account, Consumed, ForeignConfig, Produced
from ackproof.clients.common import Progress, read_config, wait_for_go
from ackproof.lab import kernel

CHUNK = 1 << 16
LOOK_S = 0.05
GO_S = 120.0
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
        self._stopped = False

    def stop(self, *_: Any) -> None:
        """Told to end: the client is, and what it still has to say is heard."""
        self._stopped = True
        if self._process is not None:
            self._signal(signal.SIGTERM)
            self._deadline = time.monotonic() + END_S

    def run(self) -> int:
        if self._config.go is not None:
            self._tell(ready=True)
            wait_for_go(Path(self._config.go), GO_S)
        code = 0 if self._stopped else self._hear_all()
        self._account.close(time.monotonic_ns())
        self._tell(ready=True, done=True)
        return code

    def _hear_all(self) -> int:
        """From the client's start to its end; its exit code, as a shell has it."""
        name = self._config.journal
        with (self._logs / f"{name}.err.log").open("ab") as errors, (self._logs / f"{name}.out.log").open("ab") as out:
            try:
                self._process = subprocess.Popen(
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
            if self._stopped:  # in the meantime
                self.stop()
            self._hear(self._process, out)
            code = self._ended(self._process)
        if code and not self._stopped:
            how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
            print(f"{self._config.name}: the client ended with {how}; its last words:", flush=True)
            for line in (self._logs / f"{name}.err.log").read_text(errors="replace").splitlines()[-LAST_WORDS:]:
                print(f"  {line}", flush=True)
        return code if code >= 0 else 128 - code

    def _hear(self, process: subprocess.Popen[bytes], out: Any) -> None:
        assert process.stdout is not None  # noqa: S101  # made with a pipe, above
        descriptor, torn = process.stdout.fileno(), b""
        while not self._is_overdue(process):
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
        """Nothing of it stays, nor of what it started: their group is its own as long as it is not collected."""
        deadline = time.monotonic() + LAST_S
        while not _is_over(process) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        self._signal(signal.SIGKILL)
        self._process = None
        return process.wait()

    def _is_overdue(self, process: subprocess.Popen[bytes]) -> bool:
        if self._deadline is None and _is_over(process):
            self._deadline = time.monotonic() + LAST_S
        return self._deadline is not None and time.monotonic() > self._deadline

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def _tell(self, ready: bool, done: bool = False) -> None:
        told, acked, unknown = self._account.counts()
        self._progress.write(int(ready), told, acked, 0, unknown, int(done))


def _is_over(process: subprocess.Popen[bytes]) -> bool:
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def main() -> int:
    """The client's exit code. What we die of ourselves is a signal, for which no end of the client can be taken."""
    try:
        config = read_config(ForeignConfig)
        if config.parent is not None:
            kernel.die_with_parent(signal.SIGKILL, config.parent)
        listening = Listening(config)
        signal.signal(signal.SIGTERM, listening.stop)
        return listening.run()
    except Exception:
        traceback.print_exc()
        os.kill(os.getpid(), signal.SIGKILL)
        raise


if __name__ == "__main__":
    sys.exit(main())
