"""Start a lab: `launch` starts the supervisor and follows its progress over the tether, a socket pair.

If the caller is interrupted or dies before the lab is ready, the lab ends and the kernel cleans up. Only an empty
folder is left to remove.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ackproof.core.errors import CannotHere, problem_of
from ackproof.host.own_program import own_program
from ackproof.lab.directory import LabDirectory
from ackproof.lab.spec import BROKERS_MAX, LabSpec

EXPOSED_PORT_FIRST = 19092
GONE_S = 10.0
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Ingredients:
    """The programs of a lab, fetched and verified."""

    java: str
    jars: str
    classpath: str
    checkpoint: str | None


class Launched:
    """A lab that is up and still tied to this process. It ends with this process, unless `detach` lets it live on."""

    def __init__(self, directory: LabDirectory, tether: socket.socket) -> None:
        self.directory = directory
        self._tether = tether

    def detach(self) -> None:
        self._tether.sendall(b"detach\n")
        self.close()

    def close(self) -> None:
        """End the lab, unless it is detached or already down."""
        self._tether.close()


def launch(spec: LabSpec, ingredients: Ingredients, progress: Progress, logs: Path | None = None) -> Launched:
    """Start the supervisor and wait until every node serves. If anything fails, nothing is left.

    With `logs`, the nodes write their logs into that folder, where they stay.
    """
    from ackproof.lab.server.supervisor import Boot

    directory = LabDirectory.of(spec.name)
    with _signals_delayed() as let_through:
        lock = directory.claim()
        if logs is not None:
            (directory.path / "logs").rmdir()
            (directory.path / "logs").symlink_to(logs)
        ours, theirs = socket.socketpair()
        listening = _listen_on_host(spec.brokers) if spec.expose else {}
        boot = Boot(
            spec=spec,
            java=ingredients.java,
            jars=ingredients.jars,
            classpath=ingredients.classpath,
            checkpoint=ingredients.checkpoint,
            lock=lock,
            tether=theirs.fileno(),
            exposed={name: (each.fileno(), each.getsockname()[1]) for name, each in listening.items()},
        )
        supervisor_pid: list[int] = []
        try:
            try:
                let_through()
                (directory.path / "boot.json").write_bytes(msgspec.json.encode(boot))
                _spawn_supervisor(directory, [lock, theirs.fileno(), *(each.fileno() for each in listening.values())])
            finally:
                # From here on only the supervisor holds them, and the kernel releases them when it dies.
                os.close(lock)
                for each in (theirs, *listening.values()):
                    each.close()
            _follow(ours, progress, supervisor_pid)
        except BaseException:
            with _uninterrupted():  # a second Ctrl-C must not stop the clean-up
                ours.close()
                for pid in supervisor_pid:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                directory.wait_until_gone(GONE_S)
                with suppress(CannotHere):  # the next `up` or `down` removes it; the first error matters more
                    directory.remove()
            raise
        return Launched(directory, ours)


@contextmanager
def _signals_delayed() -> Iterator[Callable[[], None]]:
    """Delay signals that would end us until `let_through` is called, or the block ends.

    Otherwise a signal between the making of the folder and the `try` that removes it would leave the folder behind.
    """
    came: list[int] = []
    before: dict[int, Any] = {}

    def let_through() -> None:
        while before:
            number, handler = before.popitem()
            signal.signal(number, handler)
        while came:
            signal.raise_signal(came.pop())

    with suppress(ValueError):  # not the main thread, which alone receives signals
        for number in ENDING:
            before[number] = signal.signal(number, lambda number, _: came.append(number))
    try:
        yield let_through
    finally:
        let_through()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    before = {}
    with suppress(ValueError):  # not the main thread, which alone receives signals
        for number in ENDING:
            before[number] = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _spawn_supervisor(directory: LabDirectory, descriptors: list[int]) -> None:
    with directory.supervisor_log.open("ab") as log:
        process = subprocess.Popen(
            own_program("ackproof.lab.server.supervisor", str(directory.path)),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=descriptors,
            start_new_session=True,
            cwd="/",
        )
    try:
        # This process makes the namespaces and exits. Its child is the lab's first process.
        process.wait(timeout=30)
    except BaseException:
        process.kill()
        process.wait()
        raise


def _follow(tether: socket.socket, progress: Progress, supervisor_pid: list[int]) -> None:
    with tether.makefile("rb") as lines:
        for line in lines:
            told = msgspec.json.decode(line)
            if "supervisor_pid" in told:
                supervisor_pid.append(told["supervisor_pid"])
            if "progress" in told:
                progress(told["progress"])
            if "problem" in told:
                raise problem_of(*told["problem"])
            if "ready" in told:
                return
    raise CannotHere("the lab's supervisor ended before the lab was ready (was it killed, or memory short?)")


def _listen_on_host(brokers: int) -> dict[str, socket.socket]:
    """A socket on the host's loopback for every broker that the lab can have. Those of its present brokers listen.

    If a port is taken, the kernel chooses another.
    """
    ends = {}
    for number in range(1, BROKERS_MAX + 1):
        try:
            end = _loopback_end(EXPOSED_PORT_FIRST + number - 1, listens=number <= brokers)
        except OSError:
            end = _loopback_end(0, listens=number <= brokers)
        ends[f"kafka{number}"] = end
    return ends


def _loopback_end(port: int, *, listens: bool) -> socket.socket:
    end = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if listens:  # only here: a second socket could bind a port whose first socket does not listen
            end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        end.bind(("127.0.0.1", port))
        if listens:
            end.listen(256)
    except OSError:
        end.close()
        raise
    return end
