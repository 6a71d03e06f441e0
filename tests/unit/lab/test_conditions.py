"""Disturbances of a node's process by an outsider: in samples made by hand, with near misses beside hits, and of a real
process that is stopped, traced, reniced and bound."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ackproof.host import namespaces as kernel
from ackproof.host.processes import Halt, Process, Processes, stopped_threads, wait_until
from ackproof.lab.audit_log import Events
from ackproof.lab.conditions import (
    ON_TIME_S,
    STILL_S,
    Conditions,
    Proc,
    Sample,
    Thread,
    changes,
    following,
    states,
    thread_of,
    waited_ns,
)

NODES = ("kafka1", "kafka2", "zk1")
AWAKE, ASLEEP, STOPPED = Thread("R", 0, 0), Thread("S", 0, 0), Thread("T", 0, 0)
USUAL = Sample(
    at=10.0,
    threads={7: ASLEEP, 8: AWAKE},
    cpu_ns=1_000,
    tracer=None,
    cgroup="6:freezer:/\n0::/lab\n",
    processors="0-1",
)
FROZEN = replace(USUAL, threads={7: STOPPED, 8: STOPPED})
STATES: dict[str, tuple[Sample, bool, list[str]]] = {
    "near miss: it runs": (USUAL, False, []),
    "every thread is stopped": (FROZEN, False, ["stopped"]),
    "every thread is stopped, by a tracer": (replace(FROZEN, threads={7: Thread("t", 0, 0)}), False, ["stopped"]),
    "near miss: a fault of the lab has stopped it": (FROZEN, True, []),
    "near miss: one thread is stopped, as a signal begins to take effect": (
        replace(USUAL, threads={7: STOPPED, 8: AWAKE}),
        False,
        [],
    ),
    "near miss: no thread is left": (replace(USUAL, threads={}), False, []),
    "traced": (replace(USUAL, tracer="strace (process 9)"), False, ["traced"]),
    "traced while a fault of the lab stops it": (replace(FROZEN, tracer="strace (process 9)"), True, ["traced"]),
    "still": (replace(USUAL, still_s=STILL_S), False, ["still"]),
    "near miss: still for a little less": (replace(USUAL, still_s=STILL_S - 0.1), False, []),
    "near miss: still while a fault of the lab stops it": (replace(USUAL, still_s=2 * STILL_S), True, []),
}


@pytest.mark.proves("D2")
@pytest.mark.parametrize("case", STATES)
def test_lasting_disturbances_of_a_process(case: str) -> None:
    seen, paused, kinds = STATES[case]
    assert list(states(seen, paused)) == kinds


CHANGES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "near miss: nothing": ({}, []),
    "near miss: threads that come and go": ({"threads": {8: ASLEEP, 9: Thread("S", 5, 3)}}, []),
    "near miss: it used the processor": ({"cpu_ns": 2_000}, []),
    "reniced": ({"threads": {7: ASLEEP, 8: Thread("S", 19, 0)}}, ["was reniced from 0 to 19 (1 of 2 threads)"]),
    "idle": (
        {"threads": {7: Thread("S", 0, 5), 8: Thread("S", 0, 5)}},
        ["was given the scheduling policy idle in place of normal (2 of 2 threads)"],
    ),
    "another cgroup": (
        {"cgroup": "6:freezer:/frozen\n0::/lab\n"},
        ["was moved into another cgroup (6:freezer:/frozen)"],
    ),
    "fewer processors": ({"processors": "0"}, ["was bound to processors 0 in place of 0-1"]),
}


@pytest.mark.proves("D2")
@pytest.mark.parametrize("case", CHANGES)
def test_changes_between_two_samples_are_reported(case: str) -> None:
    changed, told = CHANGES[case]
    assert changes(USUAL, replace(USUAL, **changed)) == told


LOOKS: dict[str, tuple[list[float], list[int], bool]] = {
    "frozen for the 7 s after which a broker has lost its session": ([1.0] * 7, [0] * 7, True),
    "no processor time in just enough looks": ([1.0] * 3, [0] * 3, True),
    "near miss: one look fewer": ([1.0] * 2, [0] * 2, False),
    "near miss: a nanosecond in between": ([1.0] * 5, [0] * 2 + [1] + [0] * 2, False),
    "near miss: a look was late, so the machine was slow": ([1.0] * 2 + [ON_TIME_S + 0.1] + [1.0] * 2, [0] * 5, False),
    "late by no more than may be": ([ON_TIME_S] * 2, [0] * 2, True),
}


@pytest.mark.proves("D2")
@pytest.mark.parametrize("case", LOOKS)
def test_processor_time_stands_still_only_if_samples_were_on_time(case: str) -> None:
    gaps, used, still = LOOKS[case]

    def next_look(before: Sample, step: tuple[float, int]) -> Sample:
        gap_s, used_ns = step
        return following(before, replace(USUAL, at=before.at + gap_s, cpu_ns=before.cpu_ns + used_ns))

    last = reduce(next_look, zip(gaps, used, strict=True), following(None, USUAL))
    assert ("still" in states(last, paused=False)) is still


@pytest.mark.proves("D2")
def test_a_pause_by_the_lab_does_not_count_as_standing_still(tmp_path: Path) -> None:
    """At the first sample after a long pause, the node has not used the processor yet."""
    trail = Events(tmp_path / "events.jsonl")
    conditions = Conditions(Processes(lambda *_: None), trail, Proc(os.getpid()))
    for second in range(8):
        conditions._take("kafka1", 7, replace(USUAL, at=float(second)), paused=second < 6)
    assert trail.read() == []
    for second in range(8, 10):
        conditions._take("kafka1", 7, replace(USUAL, at=float(second)), paused=False)
    assert [event["event"] for event in trail.read()] == ["disturbed"]


def test_the_name_of_a_thread_may_contain_brackets_and_spaces() -> None:
    stat = "7 (a) T 9 (b) S 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 25 5 1 0 9 1 1 1 1 1 1 0 0 0 0 0 0 0 0 0 17 1 0 3 0 0"
    assert thread_of(stat) == Thread("S", 5, 3, "a) T 9 (b")
    assert thread_of(stat, "71 82 9") == Thread("S", 5, 3, "a) T 9 (b", ran_ns=71, waited_ns=82)


MS = 1_000_000


def slept(name: str = "kafka-handler") -> Thread:
    return Thread("S", 0, 0, name)


def worked(waited_ms: int, name: str = "kafka-handler", ran_ms: int = 90) -> Thread:
    """Return the thread of `slept` one second later."""
    return Thread("S", 0, 0, name, ran_ms * MS, waited_ms * MS)


RUNNABLE = Thread("R", 0, 0, "kafka-handler")
WAITS: dict[str, tuple[Thread, Thread, int]] = {
    "it waited for half a second": (slept(), worked(500), 500),
    "it waited for a fifth of the time": (slept(), worked(200), 200),
    "near miss: it waited for a little less": (slept(), worked(199), 0),
    "it hardly ran because it waited": (RUNNABLE, worked(700, ran_ms=1), 700),
    "near miss: it slept, and the kernel counts that as a wait": (slept(), worked(18_600, ran_ms=0), 0),
    "it waits still, and the kernel counts a wait when it is over": (RUNNABLE, RUNNABLE, 1_000),
    "its wait is over, and began before the look before": (RUNNABLE, worked(3_000), 1_000),
    "near miss: it starts the JVM": (slept("java"), worked(700, "java"), 0),
    "near miss: it compiles": (slept("C1 CompilerThre"), worked(700, "C1 CompilerThre"), 0),
}


@pytest.mark.proves("D3")
@pytest.mark.parametrize("case", WAITS)
def test_the_longest_wait_of_a_thread_for_a_processor(case: str) -> None:
    old, new, waited_ms = WAITS[case]
    before, now = replace(USUAL, threads={6: ASLEEP, 7: old}), replace(USUAL, at=11.0, threads={7: new, 8: worked(900)})
    assert waited_ns(before, now) == waited_ms * MS


@pytest.mark.proves("D3")
def test_the_node_with_the_longest_wait_is_logged(tmp_path: Path) -> None:
    def at(second: int, *waited: int) -> dict[int, Sample]:
        return {
            pid: replace(USUAL, at=10.0 + second, threads={7: worked(each, ran_ms=90 * second)}, cpu_ns=second)
            for pid, each in enumerate(waited, start=1)
        }

    looks = iter([at(0, 0, 0, 0), at(1, 300, 400, 100), at(2, 310, 410, 110)])
    nodes = {name: SimpleNamespace(pid=pid, paused=False, pauses=0) for pid, name in enumerate(NODES, start=1)}
    trail, processes, proc = Events(tmp_path / "events.jsonl"), SimpleNamespace(get=nodes.get), SimpleNamespace()
    conditions = Conditions(cast(Processes, processes), trail, cast(Proc, proc))
    for seen in looks:
        proc.sample = seen.get
        conditions.look(NODES)
    assert [(each["event"], each["node"], each["waited_ns"]) for each in trail.read()] == [
        ("waited", "kafka2", 400 * MS)
    ]


# -- a real process --------------------------------------------------------------------------------------------------

AT_WORK = "import time\nwhile True: time.sleep(0.01)"


PINNED = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


class Watched:
    """One process that the lab started, and its events in the audit trail."""

    def __init__(self, folder: Path) -> None:
        self._trail = Events(folder / "events.jsonl")
        self.processes = Processes(lambda *_: None, self._on_halt)
        self._conditions = Conditions(self.processes, self._trail, Proc(os.getpid()))
        network = kernel.own_network()
        argv = [sys.executable, "-c", AT_WORK]
        self.processes.spawn("kafka1", argv, namespace=network, output=Path("/dev/null"), environment={})
        os.close(network)
        process = self.processes.get("kafka1")
        assert process is not None
        self.pid = process.pid
        self.look()

    def _on_halt(self, halt: Halt) -> None:
        if not halt.ours:
            (self._conditions.stopped if halt.stopped else self._conditions.continued)(halt.name)

    def look(self) -> list[str]:
        self.processes.reap()
        self._conditions.look(["kafka1"])
        disturbances = [event for event in self._trail.read() if event["event"] != "waited"]
        return [event.get("problem") or event["text"].partition(",")[0] for event in disturbances]

    def wait_for(self, number: int) -> list[str]:
        assert wait_until(lambda: len(self.look()) >= number, 20), self.look()
        return self.look()


@contextmanager
def watched(folder: Path) -> Iterator[Watched]:
    try:
        made = Watched(folder)
    except PermissionError:
        pytest.skip("only root may stand in a network namespace")
    try:
        yield made
    finally:
        made.processes.send("kafka1", signal.SIGCONT)
        made.processes.send("kafka1", signal.SIGKILL, ends=True)
        assert wait_until(lambda: made.look() is not None and made.processes.get("kafka1") is None, 20)


IS_STOPPED = "kafka1 is stopped, and no fault of the lab stops it"


@pytest.mark.proves("D2")
def test_a_stop_by_an_outsider_and_its_end_are_logged_even_if_it_is_short(tmp_path: Path) -> None:
    with watched(tmp_path) as process:
        os.kill(process.pid, signal.SIGSTOP)
        assert wait_until(lambda: stopped_threads(process.pid), 20)
        os.kill(process.pid, signal.SIGCONT)  # without a sample in between
        moment = ["kafka1 was stopped for a moment, and no fault of the lab stops it", "kafka1 goes on"]
        assert process.wait_for(2) == moment
        os.kill(process.pid, signal.SIGSTOP)
        assert process.wait_for(3) == [*moment, IS_STOPPED]
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait_for(4) == [*moment, IS_STOPPED, "kafka1 goes on"]


@pytest.mark.proves("D2")
def test_a_pause_by_the_lab_is_not_logged_and_a_later_stop_is(tmp_path: Path) -> None:
    with watched(tmp_path) as process:
        with process.processes.frozen("kafka1"):
            assert process.look() == []
        assert wait_until(lambda: not process.look() and not _paused(process), 20)
        os.kill(process.pid, signal.SIGSTOP)
        assert process.wait_for(1) == [IS_STOPPED]


def judged_halts(*steps: str) -> tuple[list[bool], list[bool]]:
    """For each stop and continuation that the kernel reports: is it ours, and did a stranger end our pause?

    The steps `stop` and `go` are our requests; `stopped` and `goes on` are reports of the kernel."""
    processes, handle = Processes(lambda *_: None), os.pidfd_open(os.getpid())
    processes._running["kafka1"] = Process(os.getpid(), handle)
    halts = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signal, "pidfd_send_signal", lambda *_: None)
        for step in steps:
            if step in ("stop", "go"):
                processes.send("kafka1", signal.SIGSTOP if step == "stop" else signal.SIGCONT)
            else:
                halts.append(processes._halted("kafka1", step == "stopped"))
    os.close(handle)
    return [halt.ours for halt in halts], [halt.woken for halt in halts]


HALTS: dict[str, tuple[list[str], list[bool], list[bool]]] = {
    "a pause of ours": (["stop", "stopped", "go", "goes on"], [True, True], [False, False]),
    "our second pause begins before the end of the first is reported": (
        ["stop", "stopped", "go", "stop", "goes on", "stopped", "go", "goes on"],
        [True] * 4,
        [False] * 4,
    ),
    "our second pause begins, and the end of the first is never reported": (
        ["stop", "stopped", "go", "stop", "stopped", "goes on"],
        [True] * 3,
        [False, False, True],
    ),
    "a stranger stops it": (["stopped", "goes on"], [False, False], [False, False]),
    "a stranger stops it before the end of our pause is reported": (
        ["stop", "stopped", "go", "stopped", "goes on"],
        [True, False, False],
        [False] * 3,
    ),
    "a stranger ends our pause, and stops it in turn": (
        ["stop", "stopped", "goes on", "stopped"],
        [True, True, False],
        [False, True, False],
    ),
    "we stop it again, to be sure": (["stop", "stop", "stopped", "go", "goes on"], [True, True], [False, False]),
}


@pytest.mark.proves("D2")
@pytest.mark.parametrize("case", HALTS)
def test_a_stop_is_ours_or_a_strangers(case: str) -> None:
    steps, ours, woken = HALTS[case]
    assert judged_halts(*steps) == (ours, woken)


def _paused(process: Watched) -> bool:
    found = process.processes.get("kafka1")
    return found is not None and found.paused


TRACE = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(0x4206, int(sys.argv[1]), None, None) != 0:  # PTRACE_SEIZE, which stops nothing
    sys.exit(os.strerror(ctypes.get_errno()))
print("traced", flush=True)
time.sleep(600)
"""


@pytest.mark.proves("D2")
def test_a_tracer_is_named_when_it_appears_and_when_it_ends(tmp_path: Path) -> None:
    with watched(tmp_path) as process:
        words = [sys.executable, "-c", TRACE, str(process.pid)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as tracer:
            assert tracer.stdout is not None
            if tracer.stdout.readline() != "traced\n":
                pytest.skip("nothing may be traced here")
            name = Path(f"/proc/{tracer.pid}/comm").read_text().strip()
            assert process.wait_for(1) == [f"kafka1 is traced by {name} (process {tracer.pid})"]
            tracer.kill()
        assert process.wait_for(2)[1:] == ["kafka1 is traced no longer"]


@pytest.mark.proves("D2")
def test_a_new_nice_value_and_fewer_processors_are_logged_once(tmp_path: Path) -> None:
    with watched(tmp_path) as process:
        os.setpriority(os.PRIO_PROCESS, process.pid, 19)
        assert process.wait_for(1) == ["kafka1 was reniced from 0 to 19 (1 of 1 threads)"]
        here = os.sched_getaffinity(process.pid)
        if len(here) > 1:
            os.sched_setaffinity(process.pid, {min(here)})
            assert process.wait_for(2)[1].startswith(f"kafka1 was bound to processors {min(here)} in place of ")
        assert process.look() == process.look()


def test_a_restarted_process_is_not_compared_with_the_old_one(tmp_path: Path) -> None:
    trail, proc = Events(tmp_path / "events.jsonl"), Proc(os.getpid())
    conditions = Conditions(Processes(lambda *_: None), trail, proc)
    conditions._take("kafka1", 7, USUAL, paused=False)
    conditions._take("kafka1", 7, replace(FROZEN, at=time.monotonic()), paused=False)
    conditions._take("kafka1", 8, replace(USUAL, processors="0"), paused=False)
    assert [event["event"] for event in trail.read()] == ["disturbed"]


def test_a_process_that_is_ending_is_not_sampled() -> None:
    with subprocess.Popen([sys.executable, "-c", AT_WORK]) as process:
        assert Proc(os.getpid()).sample(process.pid) is not None
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert Proc(os.getpid()).sample(process.pid) is None


@pytest.mark.proves("D3")
def test_two_processes_on_one_processor_wait_for_it() -> None:
    """By the kernel's own figures each thread gets half of the processor at most."""
    processor = str(min(os.sched_getaffinity(0)))
    both = [subprocess.Popen([sys.executable, "-c", PINNED, processor]) for _ in range(2)]
    try:
        proc, (first, _) = Proc(os.getpid()), both
        before: list[Sample] = []

        def waited() -> int:
            seen = proc.sample(first.pid)
            assert seen is not None
            before.append(seen)
            return waited_ns(before[0], seen)

        waited()
        assert wait_until(lambda: waited() > 0, 30)
    finally:
        for each in both:
            each.kill()
            each.wait()
