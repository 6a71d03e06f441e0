"""Processes of a run on the host, outside the lab: the listeners of external clients that run there."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MARK = "ACKPROOF_CLIENT"


class HostExit(NamedTuple):
    """How a listener ended, for the journal."""

    node: str
    code: int | None
    signal: int | None
    by_itself: bool


class HostProcesses:
    """The listeners of clients on the host. They are children of the run, and end with it.

    A listener ends everything that its client started. A killed listener cannot, so each has a mark in its environment,
    which its descendants inherit and by which they are found.
    """

    def __init__(self) -> None:
        self._marks: dict[str, str] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._asked: set[str] = set()
        self._told: set[str] = set()

    def spawn(self, name: str, argv: Sequence[str], output: Path) -> None:
        self._marks[name] = f"{MARK}={os.getpid()}-{time.monotonic_ns()}"
        with output.open("ab") as log:
            self._running[name] = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, MARK: self._marks[name].partition("=")[2]},
                start_new_session=True,  # Ctrl-C goes to the run alone, which ends them
            )

    def __contains__(self, name: str) -> bool:
        return name in self._running

    def exits(self) -> dict[str, tuple[int | None, int | None]]:
        """The exit code and the signal of each listener that has ended."""
        codes = {name: process.poll() for name, process in self._running.items()}
        for name, code in codes.items():
            if code is not None and code < 0:
                self._end_what_is_left(name)
        return {name: (code, None) if code >= 0 else (None, -code) for name, code in codes.items() if code is not None}

    def newly_ended(self) -> Iterator[HostExit]:
        """The listeners that have ended since the last call."""
        for name, (code, number) in self.exits().items():
            if name not in self._told:
                self._told.add(name)
                yield HostExit(name, code, number, by_itself=name not in self._asked)

    def signal(self, name: str, number: str) -> None:
        self._asked.add(name)
        self._running[name].send_signal(signal.Signals[number])
        if number == "SIGKILL":
            self._running[name].wait()
            self._end_what_is_left(name)

    def _end_what_is_left(self, name: str) -> None:
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if self._marks[name].encode() in environment.read_bytes().split(b"\0"):
                    os.kill(int(environment.parent.name), signal.SIGKILL)
