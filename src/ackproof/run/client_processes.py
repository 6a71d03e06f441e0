"""The client processes of a run: start them in the lab or on the host, see how far they are, and end them.

A process that runs in the lab is started, signalled and reaped by the lab's supervisor, one on the host by us.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import msgspec

from ackproof.clients.runtime import Progress
from ackproof.core.errors import CannotHere
from ackproof.host.own_program import own_program
from ackproof.lab import client as control
from ackproof.lab import requests
from ackproof.run.client_configs import Program
from ackproof.run.client_files import ClientFiles
from ackproof.run.host_processes import HostProcesses

READY_S = 60.0


class Ended(NamedTuple):
    """How a process ended. Both are None if that is unknown, as when the lab lost track of it."""

    code: int | None
    signal: int | None


def ended_how(code: int | None, signal: int | None) -> str:
    return f"signal {signal}" if signal else f"exit code {code}"


class ClientProcesses:
    def __init__(self, files: ClientFiles, lab: str) -> None:
        self.on_host = HostProcesses()
        self.started: set[str] = set()
        self._files = files
        self._lab = lab
        self._progress: dict[str, Progress] = {}

    def start(self, name: str, program: Program) -> None:
        if name in self._progress:  # the page still holds what this client said in its former life
            self._progress[name].write(*(0 for _ in Progress.FIELDS))
        config, output = self._files.config(name), self._files.log(name)
        config.write_bytes(msgspec.json.encode(program.config))
        argv = own_program(f"ackproof.clients.{program.module}", str(config))
        if program.node == "host":
            self.on_host.spawn(name, argv, output)
        else:
            requests.spawn(self._lab, requests.Spawn(name, program.node, argv, str(output)))
        self.started.add(name)

    def progress(self, name: str) -> dict[str, int] | None:
        """Return the client's own report. None if there is none yet: a client that fails early never reports."""
        if name not in self._progress:
            try:
                self._progress[name] = Progress(self._files.progress(name))
            except (OSError, ValueError):
                return None
        return self._progress[name].read()

    def is_ready(self, name: str) -> bool:
        return (self.progress(name) or {}).get("ready") == 1

    def wait_until_ready(self, names: list[str], within_s: float = READY_S) -> None:
        deadline = time.monotonic() + within_s
        for name in names:
            while not self.is_ready(name):
                if name in self.exits():
                    raise CannotHere(f"{name} ended before it was ready; its log ends:", self._files.log_tail(name))
                if time.monotonic() > deadline:
                    raise CannotHere(
                        f"{name} was not ready within {within_s:.0f} s; its log ends:", self._files.log_tail(name)
                    )
                time.sleep(0.01)

    def exits(self) -> dict[str, Ended]:
        """Return how each ended process ended."""
        inside = sorted(name for name in self.started if name not in self.on_host)
        exits = requests.exits(self._lab, inside)
        return {name: Ended(*how or (None, None)) for name, how in (exits | self.on_host.exits()).items()}

    def signal(self, name: str, number: str) -> None:
        if name in self.on_host:
            self.on_host.signal(name, number)
        else:
            control.call(self._lab, "signal", process=name, signal=number)

    def stop(self, names: list[str], timeout_s: float) -> None:
        """Ask them to end; after `timeout_s` kill those that still run."""
        for name in names:
            self.signal(name, "SIGTERM")
        deadline = time.monotonic() + timeout_s
        while (left := set(names) - set(self.exits())) and time.monotonic() < deadline:
            time.sleep(0.02)
        for name in left:
            self.signal(name, "SIGKILL")
