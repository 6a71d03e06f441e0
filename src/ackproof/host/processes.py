"""The processes of the nodes: started in their namespaces, signalled by descriptor, reaped by the lab's first process.

Each process is held by a descriptor (a pidfd), never by its pid alone. So no signal can hit another process that got
the same pid later.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ackproof.core.errors import NotProved
from ackproof.host import namespaces as kernel

FREEZE_S = 5.0
KILL_CLIENT = (
    signal.SIGUSR1
)  # sent to an external client's listener, which kills the client and reads its output to the end


@dataclass(frozen=True)
class Exit:
    code: int | None
    signal: int | None
    asked: bool  # whether we ended it; else it ended by itself
    at: float

    def __str__(self) -> str:
        how = f"exit code {self.code}" if self.signal is None else signal.Signals(self.signal).name
        return how if self.asked else f"{how}, by itself"


@dataclass
class Process:
    pid: int
    handle: int
    started: float = field(default_factory=time.monotonic)
    asked_to_end: bool = False
    stopping: bool = False  # we stopped it, and it has not been continued since
    released: bool = False  # we continued it, and the kernel has not reported that yet
    pauses: int = 0  # how often a fault of ours has stopped it

    @property
    def paused(self) -> bool:
        """Whether a fault of ours stops it, or may have stopped it until a moment ago."""
        return self.stopping or self.released


class Halt(NamedTuple):
    """The kernel's report to the parent that a process was stopped or continued."""

    name: str
    stopped: bool
    ours: bool  # whether a fault of ours stops it, or had stopped it
    woken: bool = False  # whether an outsider continued a process that a fault of ours had stopped


class Processes:
    def __init__(self, on_exit: Callable[[str, Exit], None], on_halt: Callable[[Halt], None] = lambda _: None) -> None:
        self._changed = threading.Condition()
        self._running: dict[str, Process] = {}
        self._exits: dict[str, Exit] = {}
        self._on_exit = on_exit
        self._on_halt = on_halt

    def spawn(
        self,
        name: str,
        argv: Sequence[str],
        *,
        namespace: int,
        output: Path,
        environment: Mapping[str, str],
        descriptors: Mapping[int, int] | None = None,
    ) -> None:
        """Start a program in a network namespace. `descriptors`: descriptors by their number in the program."""
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(output), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            *((os.POSIX_SPAWN_DUP2, ours, theirs) for theirs, ours in (descriptors or {}).items()),
        ]
        # The lock makes the reaper wait until the child is registered.
        with self._changed, kernel.inside(namespace):
            pid = os.posix_spawn(
                argv[0],
                list(argv),
                dict(environment),
                file_actions=actions,
                setsid=True,
                setsigmask=[],
                setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE],
            )
            self._running[name] = Process(pid, os.pidfd_open(pid))
            self._exits.pop(name, None)

    def reap(self) -> None:
        """Reap every child that has ended, also adopted orphans, and report children that were stopped or continued.

        Only the first process of the lab calls this.
        """
        ended, halts = [], []
        with self._changed:
            while True:
                try:
                    pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
                except ChildProcessError:
                    break
                if pid == 0:
                    break
                name = next((name for name, process in self._running.items() if process.pid == pid), None)
                if name is not None and (os.WIFSTOPPED(status) or os.WIFCONTINUED(status)):
                    halts.append(self._halted(name, os.WIFSTOPPED(status)))
                elif name is not None:
                    ended.append((name, self._ended(name, status)))
            self._changed.notify_all()
        for halt in halts:
            self._on_halt(halt)
        for name, how in ended:
            self._on_exit(name, how)

    def _halted(self, name: str, stopped: bool) -> Halt:
        """Decide from our own last signal whether a stop or a continuation is ours.

        The kernel reports a stop only while it lasts, and a continuation only until the next stop. Of several in a row
        it may report only the last, so counting them would fail.
        """
        process = self._running[name]
        if stopped:
            process.released = False
            return Halt(name, stopped, process.stopping)
        halt = Halt(name, stopped, process.paused, woken=process.stopping and not process.released)
        process.stopping = process.stopping and process.released  # then the pause before this one is over
        process.released = False
        return halt

    def _ended(self, name: str, status: int) -> Exit:
        process = self._running.pop(name)
        os.close(process.handle)
        code = os.waitstatus_to_exitcode(status)
        how = Exit(code if code >= 0 else None, -code if code < 0 else None, process.asked_to_end, time.monotonic())
        self._exits[name] = how
        return how

    def send(self, name: str, number: signal.Signals, *, ends: bool = False) -> bool:
        """Signal a node's process; False if there is none. `ends`: the exit that follows is our doing."""
        with self._changed:
            process = self._running.get(name)
            if process is None:
                return False
            process.asked_to_end |= ends
            if number == signal.SIGSTOP and not process.stopping:
                process.stopping = True
                process.pauses += 1
            elif number == signal.SIGCONT and process.stopping:
                process.stopping, process.released = False, True
            signal.pidfd_send_signal(process.handle, number)
            return True

    @contextmanager
    def frozen(self, name: str, *, heard: bool = False) -> Iterator[tuple[Callable[[], str], Callable[[], str]]]:
        """Stop every thread of a process, and continue it afterwards. Yields proofs of the stop and of its end.

        With `heard`, the process is a listener: what it started is stopped, and it is not.
        """
        process = self.get(name)
        if process is None:  # it ran when the caller looked, so this is no wrong request
            raise NotProved(f"{name} ended meanwhile")

        def those() -> list[int]:
            return _those(process, heard)

        def stopped() -> bool:
            pids = those()
            return bool(pids) and all(map(stopped_threads, pids))

        def signalled(number: signal.Signals) -> None:
            if not heard:
                self.send(name, number)
            for pid in those() if heard else []:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)

        def stop() -> bool:
            """Stop again, because a new thread or process may have started meanwhile."""
            signalled(signal.SIGSTOP)
            return stopped()

        def prove() -> str:
            if not stopped():
                raise NotProved(f"{name}: not every thread is stopped")
            return f"every thread of {name} is stopped"

        def awake() -> bool:
            return not any(map(stopped_threads, those()))

        def prove_over() -> str:
            if not wait_until(awake, FREEZE_S):
                raise NotProved(f"{name} is still stopped")
            return f"{name} is {self.state(name)}"

        try:
            wait_until(stop, FREEZE_S)
            yield prove, prove_over
        finally:
            signalled(signal.SIGCONT)
            wait_until(awake, FREEZE_S)

    @contextmanager
    def handles(self, name: str, *, heard: bool = False) -> Iterator[list[int]]:
        """Descriptors with which another process can signal what `frozen` stops."""
        with ExitStack() as stack:
            found = []
            process = self.get(name)
            for pid in _those(process, heard) if process is not None else []:
                with suppress(ProcessLookupError):
                    found.append(os.pidfd_open(pid))
                    stack.callback(os.close, found[-1])
            yield found

    def wait_for_exit(self, name: str, deadline: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: name not in self._running, max(0, deadline - time.monotonic()))

    def get(self, name: str) -> Process | None:
        with self._changed:
            return self._running.get(name)

    def last_exit(self, name: str) -> Exit | None:
        with self._changed:
            return self._exits.get(name)

    def state(self, name: str) -> str:
        """The state of a process, according to the kernel: running, paused or down."""
        process = self.get(name)
        if process is None:
            return "down"
        return "paused" if stopped_threads(process.pid) else "running"


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def _those(process: Process, heard: bool) -> list[int]:
    return below(process.pid) if heard else [process.pid]


def below(pid: int) -> list[int]:
    """The living descendants of a process."""
    states, children = {}, defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = stat.read_bytes().rpartition(b")")[2].split()[:2]
            states[int(stat.parent.name)] = state
            children[int(parent)].append(int(stat.parent.name))
    found = list(children[pid])
    for each in found:
        found += children[each]  # the loop reaches these too
    return [each for each in found if states[each] not in b"ZX"]


def living_in(group: int) -> list[int]:
    """The living processes of a process group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, own = stat.read_bytes().rpartition(b")")[2].split()[:3]
            if int(own) == group and state not in b"ZX":
                found.append(int(stat.parent.name))
    return found


def stopped_threads(pid: int) -> bool:
    """Whether every thread of a process is stopped."""
    try:
        states = [
            (task / "stat").read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").iterdir()
        ]
    except OSError:
        return False
    return bool(states) and all(state in "Tt" for state in states)


def resident_mb(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
