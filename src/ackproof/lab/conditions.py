"""Watch the conditions under which the nodes' processes run, and report what an outsider does to them.

A node that an outsider stops, traces or starves answers late or not at all, and a run would take that for the effect of
its own fault. So two things are watched:

    reports of the kernel  the supervisor is the parent of each process, so the kernel reports every stop and every
                           continuation to it, even a short one; those that no pause of the lab caused are an outsider's
    a sample each second   of every thread of a node: whether it is stopped or traced, its nice value, its scheduling
                           policy, cgroup and processors, and whether its processor time stands still

The samples also tell how long each thread waited for a processor. On a busy machine all nodes wait, so that is no
disturbance of one node. But the judge has to know it, because Kafka is then late without a fault.

A tracer outside the lab's pid namespace has no pid inside it. So samples are read from the /proc of the place where the
lab was started, which the supervisor opened before it mounted its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ackproof.host.processes import Processes
from ackproof.lab.audit_log import Events

LOOK_EVERY_S = 1.0
# If two samples are further apart, the machine is slow, and they do not show that a node stands still.
ON_TIME_S = 2.0
# An idle JVM uses the processor several times a second, even a ZooKeeper node without clients: at load 29 one stood
# still for 0.26 s. This is less than the 6 s of a session, after which the cluster continues without the node.
STILL_S = 3.0
# Disturbances that last, and the words that report their end.
KINDS = {"traced": "is traced no longer", "stopped": "goes on", "still": "uses processor time again"}
# A node lacks processors if one of its threads waits for one for this share of the time between two samples.
WAITED_SHARE = 0.2
# Since Linux 6.12 the kernel may count sleep as waiting. A thread that works runs for more than this share.
WORKS_SHARE = 0.01
# Threads that delay no client: the one that starts the JVM, and those that compile.
ASIDE = ("java", "C1 Compiler", "C2 Compiler")
PF_EXITING = 0x4  # the kernel's flag for a process that is ending
POLICIES = {0: "normal", 1: "FIFO", 2: "round robin", 3: "batch", 5: "idle", 6: "deadline"}


class Thread(NamedTuple):
    state: str
    nice: int
    policy: int
    name: str = ""
    ran_ns: int = 0
    waited_ns: int = 0  # waiting time for a processor, without a wait that is not over


@dataclass(frozen=True)
class Sample:
    """The state of a process at one moment."""

    at: float
    threads: Mapping[int, Thread]
    cpu_ns: int
    tracer: str | None  # the process that traces one of its threads
    cgroup: str
    processors: str
    still_s: float = 0.0  # how long its processor time has stood still, while samples were on time

    @property
    def stopped(self) -> bool:
        return bool(self.threads) and all(thread.state in "Tt" for thread in self.threads.values())


def following(before: Sample | None, now: Sample) -> Sample:
    """The later of two samples of a process, with the time for which its processor time has stood still."""
    if before is None or now.cpu_ns != before.cpu_ns or now.at - before.at > ON_TIME_S:
        return now
    return replace(now, still_s=before.still_s + now.at - before.at)


def waited_ns(before: Sample, now: Sample) -> int:
    """The longest wait of a thread for a processor between two samples of a process; 0 if it is too short to count."""
    between_ns = round((now.at - before.at) * 1e9)
    pairs = [(before.threads[tid], now.threads[tid]) for tid in now.threads if tid in before.threads]
    longest_ns = max((_waited_ns(old, new, between_ns) for old, new in pairs), default=0)
    return longest_ns if longest_ns >= WAITED_SHARE * between_ns else 0


def _waited_ns(old: Thread, new: Thread, between_ns: int) -> int:
    ran_ns, counted_ns = new.ran_ns - old.ran_ns, new.waited_ns - old.waited_ns
    if new.name.startswith(ASIDE):
        return 0
    if old.state == "R":
        # The wait may have begun before the first sample, because the kernel counts it when it is over.
        return between_ns if new.state == "R" and ran_ns == 0 else min(counted_ns, between_ns)
    return min(counted_ns, between_ns) if ran_ns >= WORKS_SHARE * between_ns else 0


def states(now: Sample, paused: bool) -> dict[str, str]:
    """The lasting disturbances of a process. `paused`: a fault of the lab has stopped it."""
    found = {}
    if now.tracer is not None:
        found["traced"] = f"is traced by {now.tracer}"
    elif now.stopped and not paused:
        found["stopped"] = "is stopped, and no fault of the lab stops it"
    elif now.still_s >= STILL_S and not paused:
        found["still"] = f"has used no processor time for {now.still_s:.0f} s, and no fault of the lab stops it"
    return found


def changes(before: Sample, now: Sample) -> list[str]:
    """What an outsider changed between two samples of a process. The lab itself changes none of it."""
    pairs = [(before.threads[tid], now.threads[tid]) for tid in now.threads if tid in before.threads]
    reniced = [(old.nice, new.nice) for old, new in pairs if old.nice != new.nice]
    scheduled = [(old.policy, new.policy) for old, new in pairs if old.policy != new.policy]
    told = []
    if reniced:
        (old, new), share = reniced[0], f"{len(reniced)} of {len(pairs)} threads"
        told.append(f"was reniced from {old} to {new} ({share})")
    if scheduled:
        (old, new), share = scheduled[0], f"{len(scheduled)} of {len(pairs)} threads"
        told.append(f"was given the scheduling policy {_policy(new)} in place of {_policy(old)} ({share})")
    if before.cgroup != now.cgroup:
        told.append(f"was moved into another cgroup ({_first_difference(before.cgroup, now.cgroup)})")
    if before.processors != now.processors:
        told.append(f"was bound to processors {now.processors} in place of {before.processors}")
    return told


def _policy(number: int) -> str:
    return POLICIES.get(number, str(number))


def _first_difference(before: str, now: str) -> str:
    """The first line that is new, of two files with a cgroup in each line."""
    return next((line for line in now.splitlines() if line not in before.splitlines()), "none")


# -- looking ---------------------------------------------------------------------------------------------------------


def thread_of(stat: str, schedstat: str = "") -> Thread:
    """A thread, from two files of /proc/PID/task/TID.

    Its name may contain anything, so fields are counted from its closing bracket. Without schedstat it never waits.
    """
    before, _, after = stat.rpartition(")")
    words, times = after.split(), schedstat.split() or ["0", "0"]
    name = before.partition("(")[2]
    return Thread(words[0], int(words[16]), int(words[38]), name, ran_ns=int(times[0]), waited_ns=int(times[1]))


def _is_ending(stat: str) -> bool:
    return bool(int(stat.rpartition(")")[2].split()[6]) & PF_EXITING)


def fields_of(status: str) -> dict[str, str]:
    """The fields of /proc/PID/status."""
    pairs = (line.partition(":") for line in status.splitlines())
    return {name: value.strip() for name, _, value in pairs}


def cpu_ns(pid: int) -> int:
    """The processor time of all threads of a process, in nanoseconds, from the kernel's clock for it."""
    return time.clock_gettime_ns((~pid << 3) | 2)


class Proc:
    """A /proc in which the supervisor has this pid. `descriptor` opens one over which another is mounted."""

    def __init__(self, supervisor: int, descriptor: int | None = None) -> None:
        self._root = Path("/proc" if descriptor is None else f"/proc/self/fd/{descriptor}")
        self._supervisor = supervisor
        self._pids: dict[int, int] = {}  # the pid here, by the pid inside the lab

    def sample(self, pid: int) -> Sample | None:
        """A sample of a child of the supervisor. None if it has ended or is ending, starting or being reaped."""
        with suppress(OSError, ValueError, IndexError, KeyError):
            folder = self._folder(pid)
            threads, tracer = {}, None
            for task in (folder / "task").iterdir():
                with suppress(FileNotFoundError, ProcessLookupError):  # threads come and go
                    threads[int(task.name)] = thread_of((task / "stat").read_text(), _schedstat(task))
                    tracer = tracer or _tracer(folder.parent, (task / "status").read_text())
            if tracer is None and any(thread.state == "t" for thread in threads.values()):
                tracer = "a process that cannot be seen from here"
            processors = fields_of((folder / "status").read_text())["Cpus_allowed_list"]
            cgroup = (folder / "cgroup").read_text()
            if _is_ending((folder / "stat").read_text()):
                return None  # for such a process the kernel may report the root cgroup instead of its own
            return Sample(time.monotonic(), threads, cpu_ns(pid), tracer, cgroup, processors)
        self._pids.pop(pid, None)  # another process may have this pid now
        return None

    def _folder(self, pid: int) -> Path:
        """The folder of a process in this /proc, found among the children of the supervisor.

        If the kernel does not list children, it is the folder in the lab's own /proc.
        """
        if pid not in self._pids:
            self._pids = {}
            for children in (self._root / str(self._supervisor) / "task").glob("*/children"):
                for child in children.read_text().split():
                    with suppress(OSError):
                        inside = fields_of((self._root / child / "status").read_text())["NSpid"].split()[-1]
                        self._pids[int(inside)] = int(child)
        return self._root / str(self._pids[pid]) if pid in self._pids else Path(f"/proc/{pid}")


def _schedstat(task: Path) -> str:
    with suppress(FileNotFoundError):
        return (task / "schedstat").read_text()
    return ""


def _tracer(proc: Path, status: str) -> str | None:
    number = fields_of(status)["TracerPid"]
    if number == "0":
        return None
    with suppress(OSError):
        return f"{(proc / number / 'comm').read_text().strip()} (process {number})"
    return f"process {number}"


class Conditions:
    """The present disturbances of each process. Their beginnings and ends go to the audit log."""

    def __init__(self, processes: Processes, events: Events, proc: Proc) -> None:
        self._processes = processes
        self._events = events
        self._proc = proc
        self._turn = threading.Lock()
        self._before: dict[str, tuple[int, Sample]] = {}  # pid and last sample of each, for `look`
        self._wrong: dict[tuple[str, str], float] = {}  # since when, by process and kind

    def look(self, names: Iterable[str]) -> None:
        waited: dict[str, int] = {}
        for name in names:
            if (process := self._processes.get(name)) is None:
                self._forget(name)
                continue
            paused, pauses = process.paused, process.pauses
            seen = self._proc.sample(process.pid)
            paused = paused or process.paused or process.pauses != pauses  # a pause may have begun or ended meanwhile
            if seen is not None and self._processes.get(name) is process:
                waited[name] = self._take(name, process.pid, seen, paused)
        longest = max(waited, key=waited.__getitem__, default="")
        if longest and waited[longest]:
            self._events.add("waited", node=longest, waited_ns=waited[longest])

    def _take(self, name: str, pid: int, seen: Sample, paused: bool) -> int:
        """Report the disturbances that a sample shows. Returns how long the process waited for a processor."""
        if self._before.get(name, (pid,))[0] != pid:
            self._forget(name)
        _, before = self._before.get(name, (pid, None))
        now = seen if paused else following(before, seen)  # time in a pause of ours does not count
        self._before[name] = pid, now
        found = states(now, paused)
        with self._turn:
            for told in changes(before, now) if before is not None else []:
                self._tell(name, told)
            for kind in KINDS:
                if kind in found:
                    self._begin(name, kind, found[kind])
                else:
                    self._end(name, kind)
        return 0 if before is None else waited_ns(before, now)

    def stopped(self, name: str) -> None:
        """The kernel reported a stop that no fault of ours caused."""
        with self._turn:
            self._begin(name, "stopped", "is stopped, and no fault of the lab stops it")

    def continued(self, name: str) -> None:
        with self._turn:
            if (name, "stopped") not in self._wrong:
                self._begin(name, "stopped", "was stopped for a moment, and no fault of the lab stops it")
            self._end(name, "stopped")

    def _forget(self, name: str) -> None:
        """Drop what is known of a process that has ended."""
        self._before.pop(name, None)
        with self._turn:
            for kind in KINDS:
                self._wrong.pop((name, kind), None)

    def _begin(self, name: str, kind: str, told: str) -> None:
        if (name, kind) not in self._wrong:
            self._wrong[name, kind] = time.monotonic()
            self._tell(name, told)

    def _tell(self, name: str, told: str) -> None:
        self._events.add("disturbed", node=name, problem=f"{name} {told}")

    def _end(self, name: str, kind: str) -> None:
        if (since := self._wrong.pop((name, kind), None)) is not None:
            after_s = time.monotonic() - since
            self._events.add("goes on", node=name, text=f"{name} {KINDS[kind]}, {after_s:.1f} s later")
