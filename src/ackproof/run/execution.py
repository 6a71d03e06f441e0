"""A run: a scenario carried out in a lab of its own, everything written down. The timeline is `_timeline`, below.

    start the lab -> topics -> observer, consumers, producers -> go -> faults as they fall due -> last send -> heal
    -> outcomes -> final read -> seal

The run never judges. What it leaves is a run directory that explains itself, whatever happened on the way: an
interrupt, a fault that could not be proved, a client that died. It is for the judge to say what that is worth.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, assert_never

import msgspec

from ackproof.core.errors import FULL, CannotHere, Ended, Problem, UsageProblem, no_space
from ackproof.host.processes import wait_until
from ackproof.journal.compaction import merge_small_files
from ackproof.journal.files import rows_sealed
from ackproof.journal.seal import seal_all
from ackproof.journal.writer import Writer
from ackproof.lab import client as control
from ackproof.lab.audit_log import Events
from ackproof.lab.directory import LabDirectory
from ackproof.model.faults import (
    TAKE_DOWN,
    AddDirectory,
    CaughtUp,
    Cut,
    Elect,
    Fault,
    Flaky,
    Isolate,
    Kill,
    LastingFault,
    Partition,
    Pause,
    Replace,
    Resize,
    Restart,
    Seek,
    Slow,
    Start,
    Stop,
    Translated,
)
from ackproof.model.run_record import Clock, RunRecord, write_record
from ackproof.model.scenario import Scenario
from ackproof.run.acls import set_rules
from ackproof.run.client_processes import ended_how
from ackproof.run.clients import Clients
from ackproof.run.exports import export_outboxes
from ackproof.run.health_check import HealthFeed
from ackproof.run.mirrors import Mirrors
from ackproof.run.topics import Topics

TICK_S = 0.005
SETTLE_S = 120.0
FULL_BYTES = 1 << 20  # left on a disk
STOP_S = 8.0  # of the 15 that an interrupted run may take
ANSWER_S = 3.0  # likewise, for a lab whose supervisor may be stopped
GRACE_S = 5.0  # after which a fault that should be over ends by itself: nobody was there to end it
ENDED_BY_ITSELF = ("the kernel", "watchdog", "its time")  # as the lab's trail says who ended it
TOLD_S = 5.0  # more than the lab takes to prove that such a fault is over

Tell = Callable[[str], None]


class Ongoing:
    """A run under way: the record as it stands, the lab, the clients, and the faults."""

    def __init__(self, scenario: Scenario, record: RunRecord, directory: Path, lab: str, tell: Tell) -> None:
        self.scenario = scenario
        self.directory = directory
        self.lab = lab
        self.tell = tell
        self.record = record
        self.clients = Clients(scenario, record, directory, lab)
        self.topics = Topics(scenario, record, directory, lab)
        self._health = HealthFeed(scenario.health, directory, tell)
        self.mirrors = Mirrors(scenario, record, directory, lab)
        self.faults = [ActiveFault(number, plan, self) for number, plan in enumerate(scenario.faults, start=1)]
        self._faults_table = Writer(directory, "faults", record.run, "run")
        self._probes_table = Writer(directory, "probes", record.run, "run")
        self._nodes_table = Writer(directory, "nodes", record.run, "run")
        self._lateness_table = Writer(directory, "lateness", record.run, "nodes")
        self._trail = Events(LabDirectory.of(lab).events)
        self._told = 0
        self._died: list[str] = []  # servers, by themselves
        self._disturbed: list[str] = []  # servers, by somebody outside of the lab

    def mark(self, **moments: int) -> None:
        self.note(marks=msgspec.structs.replace(self.record.marks, **moments))

    def note(self, **changes: Any) -> None:
        self.record = msgspec.structs.replace(self.record, **changes)
        write_record(self.directory, self.record)

    def journal_fault(self, fault: ActiveFault, event: str, **facts: Any) -> None:
        plan = fault.plan
        row = {"fault": fault.number, "event": event, "kind": plan.kind, "asked": plan.asked, "targets": fault.targets}
        self._faults_table.add(**{"at_ns": time.monotonic_ns(), **row, **facts})
        self._faults_table.flush()

    def follow_lab(self) -> None:
        """Bring the lab's own trail into the journal: proofs that hold or do not, nodes that end."""
        names = {name: fault for fault in self.faults for name in fault.names}
        events, self._told = self._trail.read_from(self._told)
        for event in events:
            kind, at_ns = event["event"], event["at_ns"]
            fault = names.get(event.get("fault", "")) or self._who_ended(event.get("node", ""))
            if kind in ("held", "no longer holds") and fault is not None:
                held, text = kind == "held", event["proof" if kind == "held" else "problem"]
                self._probes_table.add(fault=fault.number, at_ns=at_ns, held=held, text=text)
                if not held:
                    self.journal_fault(fault, "broken", at_ns=at_ns, text=text)
                    fault.tell_broken(text)
            elif kind in ("expired", "healed") and fault is not None:
                fault.hear(event)
            elif kind in ("asked", "refused", "failed"):
                self._hear_others(event)
            elif kind == "exited":
                self._journal_exit(at_ns, {name: event.get(name) for name in ("node", "code", "signal", "by_itself")})
            elif kind in ("disturbed", "goes on"):
                self._journal_disturbance(event)
            elif kind == "waited":
                self._lateness_table.add(client=event["node"], at_ns=at_ns, behind_ns=event["waited_ns"])
        for ended in self.clients.processes.on_host.newly_ended():
            self._journal_exit(time.monotonic_ns(), ended)
        self._probes_table.flush_if_due()
        self._nodes_table.flush_if_due()
        self._lateness_table.flush_if_due()
        self._health.follow()

    def _who_ended(self, node: str) -> ActiveFault | None:
        """The last fault that took a node down: the lab has no name for such a one, and tells of the node."""
        those = [fault for fault in self.faults if fault.plan.kind in TAKE_DOWN and node in fault.targets]
        return max(those, key=lambda fault: fault.begun_at or 0.0, default=None)

    def _hear_others(self, event: dict[str, Any]) -> None:
        """Whoever else changes the lab makes another experiment of the run."""
        if str(event["by"]).endswith(f"pid {os.getpid()}"):
            return
        what, others = f"{event['asked']} ({event['by']})", list(self.record.others)
        if event["event"] == "asked":
            self.tell(f"somebody else asks something of the lab of this run: {what}")
            others.append(what)
        elif event["event"] == "failed":
            self.tell(f"it failed, and something may have come of it all the same: {what}")
        elif what in others:
            self.tell(f"it was refused, so nothing came of it: {what}")
            others.remove(what)
        self.note(others=others)

    def doubts(self) -> list[str]:
        """What was seen already for which the judge would call the run unfit."""
        broken = {fault.number: "did not hold" for fault in self.faults if fault.broken}
        unproved = {fault.number: "was not proved" for fault in self.faults if fault.unproved}
        others = ["somebody else changed the lab"] if self.record.others else []
        died = [f"{node} died by itself" for node in self._died]
        disturbed = [f"somebody disturbed {node}" for node in dict.fromkeys(self._disturbed)]
        faults = [f"fault {number} {what}" for number, what in (unproved | broken).items()]
        return [*faults, *died, *disturbed, *others]

    def _journal_disturbance(self, event: dict[str, Any]) -> None:
        """Journal what somebody did to a process, and when that was over.

        It counts before the load as well: a server that was stopped then may still be catching up, and a changed
        priority, cgroup or set of processors stays for the whole run.
        """
        node, kind = event["node"], event["event"]
        text = event["problem" if kind == "disturbed" else "text"]
        self._nodes_table.add(at_ns=event["at_ns"], node=node, event=kind, by_itself=False, text=text)
        self.tell(text)
        if kind == "disturbed" and self.record.is_server(node):
            self._disturbed.append(node)

    def _journal_exit(self, at_ns: int, ended: dict[str, Any]) -> None:
        self._nodes_table.add(at_ns=at_ns, event="exited", **ended)
        clients = (*self.clients.producers, *self.clients.consumers)
        died = bool(ended["by_itself"]) and self.record.is_server(ended["node"])
        if died:
            self._died.append(ended["node"])
        if died or (ended["by_itself"] and ended["code"] != 0 and ended["node"] in clients):
            self.tell(f"{ended['node']} ended by itself ({ended_how(ended['code'], ended['signal'])})")

    def resolved(self, plan: Fault) -> Fault:
        """`target:N` is whatever fault N hit."""

        def nodes(names: list[str]) -> list[str]:
            found = []
            for name in names:
                role, _, number = name.partition(":")
                found += self.faults[int(number) - 1].targets if role == "target" else [name]
            return found

        return plan.renamed(nodes)

    def close(self) -> None:
        self.follow_lab()
        for table in (self._faults_table, self._probes_table, self._nodes_table, self._lateness_table):
            table.close(seal=False)
        self.topics.close()
        self._health.close()
        self.mirrors.close()


class ActiveFault:
    """One fault of the scenario: not begun, standing, or over."""

    def __init__(self, number: int, plan: Fault, run: Ongoing) -> None:
        self.number = number
        self.plan = plan
        self.names: list[str] = []  # what the lab calls it
        self.targets: list[str] = []
        self.begun_at: float | None = None
        self.done_at: float | None = None  # it stands, or is over
        self.over = False
        self.broken = False  # it was found not to hold, and that was told
        self.unproved = False  # that it began, or that it was healed
        self._run = run
        self._for_s: float | None = None  # after which it ends though nobody ends it
        self._healed: dict[str, str] = {}  # of its names, those that are over by the lab's own word, and the proof
        self._expired: tuple[int, str] | None = None  # when its time was up, and who ended it then
        self._epoch_before: int | None = None

    def due(self, elapsed_s: float, sent: int) -> bool:
        if self.begun_at is not None:
            return False
        if self.plan.at_messages is not None:
            return sent >= self.plan.at_messages
        if self.plan.after_s is not None:
            done_at = self._run.faults[self.number - 2].done_at
            return done_at is not None and time.monotonic() - done_at >= self.plan.after_s
        return elapsed_s >= (self.plan.at_s or 0)

    def begin(self) -> None:
        run, plan = self._run, self.plan
        self.begun_at = time.monotonic()
        if isinstance(plan, LastingFault) and plan.not_before_new_epoch:
            self._epoch_before = run.clients.leaders.epoch(plan.not_before_new_epoch)
        run.journal_fault(self, "asked")
        try:
            result = self._done()
            self.done_at = time.monotonic()
        except Problem as problem:
            self.done_at = time.monotonic()
            self.over = True
            if plan.may_fail and isinstance(problem, CannotHere):  # a bug of ours refuses nothing
                run.journal_fault(self, "proved", text=f"refused, as it may be: {problem.message}")
                run.journal_fault(self, "healed", by="done", text="nothing was done")
                run.tell(f"{plan.kind} was refused: {problem.message}")
                return
            self.unproved = True
            run.journal_fault(self, "not proved", text=problem.message)
            run.note(problems=[*run.record.problems, f"{plan.kind}: {problem.message}"])
            run.tell(f"{plan.kind} could not be proved: {problem.message}")
            return
        self.names = result.get("faults", [])
        self.targets = result.get("nodes") or result.get("hit") or []
        self.over = not plan.lasting
        run.journal_fault(self, "proved", text="; ".join(result["said"]))
        if self.over:
            run.journal_fault(self, "healed", by="done", text="it does not last")
        run.tell("; ".join(result["said"]))

    def _done(self) -> dict[str, Any]:
        run, plan = self._run, self.plan
        match plan:
            case Elect():
                return run.topics.elect(plan)
            case Resize():
                return run.topics.resize(plan)
            case Seek():
                return run.topics.seek(self.number, plan)
            case CaughtUp():
                return run.mirrors.wait_until_caught_up(plan.partitions)
            case Translated():
                return run.mirrors.tell_group(plan)
        self._for_s = self._lasts_s()
        if plan.on_clients:
            return run.clients.disturb(plan.kind, plan.asked, self._for_s)
        verb, arguments = _verb(run.resolved(plan))
        result: dict[str, Any] = control.call(run.lab, verb, **arguments, for_s=self._for_s)
        return result

    def _lasts_s(self) -> float | None:
        """For how long it stands if nobody ends it: without `until_s`, for as long as the scenario may take. Before the
        load begins nobody knows when that is."""
        plan, load_begun_ns = self.plan, self._run.record.marks.load_begun_ns
        if not isinstance(plan, LastingFault) or load_begun_ns is None:
            return None
        until_s = self._run.scenario.timeout_s if plan.until_s is None else plan.until_s
        left_s = until_s - (time.monotonic_ns() - load_begun_ns) / 1e9
        return max(left_s, plan.not_before_max_s if plan.not_before_new_epoch else 0.0) + GRACE_S

    def ends(self, elapsed_s: float, sent: int, load_ended: bool) -> bool:
        plan = self.plan
        if self.begun_at is None or self.over or not isinstance(plan, LastingFault):
            return False
        if plan.until_messages is not None:
            due = sent >= plan.until_messages or load_ended
        else:
            due = load_ended if plan.until else elapsed_s >= (plan.until_s or 0)
        return due and self._may_end(plan)

    def _may_end(self, plan: LastingFault) -> bool:
        """Healed too early, nothing fails over and nothing is lost."""
        if plan.not_before_new_epoch is None or time.monotonic() - (self.begun_at or 0) >= plan.not_before_max_s:
            return True
        now = self._run.clients.leaders.epoch(plan.not_before_new_epoch)
        return now is not None and self._epoch_before is not None and now > self._epoch_before

    def tell_broken(self, seen: str) -> None:
        """Once, though it has several names: the lab finds out of each by itself."""
        if not self.broken:
            self.broken = True
            self._run.tell(f"{self.plan.kind} {' '.join(self.targets)} no longer holds: {seen}")

    def hear(self, event: dict[str, Any]) -> None:
        """What the lab tells of its end."""
        if event["event"] == "healed":
            self._healed[event["fault"]] = event["proof"]
        if self._expired is None and event["by"] in ENDED_BY_ITSELF:
            self._expired = event.get("over_ns", event["at_ns"]), event["by"]

    def _ended_by_itself(self) -> tuple[int, str] | None:
        """When, and by whom, once the lab has proved that it is over."""
        self._run.follow_lab()
        return self._expired if self._healed.keys() >= set(self.names) else None

    def _wait_until_told(self) -> bool:
        """Its time is up, and the lab is about to say so, if it is not stuck."""
        return wait_until(lambda: self._ended_by_itself() is not None, TOLD_S)

    def _should_be_over(self) -> bool:
        return self._for_s is not None and time.monotonic() > (self.done_at or 0.0) + self._for_s

    def end(self, by: str = "the scenario", stuck: Problem | None = None) -> None:
        run = self._run
        if stuck is None and self._should_be_over():
            self._wait_until_told()
        itself = self._ended_by_itself()
        self.over = True
        healing_ns, by = itself or (time.monotonic_ns(), by)
        run.journal_fault(self, "healing", at_ns=healing_ns, by=by)
        try:
            said = [] if itself else self.heal(stuck)
        except Problem as problem:
            stands_no_longer = isinstance(problem, UsageProblem) and stuck is None
            if not stands_no_longer or not self._wait_until_told():
                self.unproved = True
                run.journal_fault(self, "not healed", by=by, text=problem.message)
                run.note(problems=[*run.record.problems, f"healing {self.plan.kind}: {problem.message}"])
                run.tell(f"healing {self.plan.kind} could not be proved: {problem.message}")
                return
        healed_ns = time.monotonic_ns()
        if itself := self._ended_by_itself():
            healed_ns, by = itself
            said = [f"its time was up ({by})", *(f"{name}: {proof}" for name, proof in self._healed.items())]
        run.journal_fault(self, "healed", at_ns=max(healing_ns, healed_ns), by=by, text="; ".join(said))
        run.tell("healed: " + "; ".join(said))

    def heal(self, stuck: Problem | None = None) -> list[str]:
        """What the lab says of it; `stuck` is why it cannot be asked."""
        if stuck is not None:
            raise stuck
        said: list[str] = control.call(self._run.lab, "heal", faults=self.names)["said"]
        return said


def _verb(plan: Fault) -> tuple[str, dict[str, Any]]:
    """The lab's verb and its arguments for a fault of a scenario."""
    targets = ",".join(plan.asked)
    match plan:
        case Kill() | Stop() | Start() | Restart() | Pause():
            return plan.kind, {"nodes": plan.targets}
        case Replace():
            return "restart", {"nodes": plan.targets, "kill": True, "wipe": True}
        case AddDirectory():
            return "restart", {"nodes": plan.targets, "add_log_dir": True}
        case Isolate() if not plan.apart_from:
            return "partition", {"groups": [targets]}
        case Isolate() | Cut():
            names = ("one_way", "port", "new_connections", "reset")
            options = {name: getattr(plan, name) for name in names}
            return "cut", {"left": targets, "right": ",".join(plan.apart_from), **options}
        case Partition():
            return "partition", {"groups": plan.asked}
        case Flaky():
            return "flaky", {"nodes": targets, "loss": plan.loss}
        case Slow():
            return "slow", {"nodes": targets, "delay_ms": plan.delay_ms}
        case Elect() | Resize() | Seek() | CaughtUp() | Translated():
            raise AssertionError(f"{plan.kind} is not done by the lab")
        case _:
            assert_never(plan)


# -- the run ---------------------------------------------------------------------------------------------------------


def carry_out(run: Ongoing, watch: Callable[[dict[str, int]], None], under_way: Callable[[], None]) -> None:
    """From a lab that serves to a run directory that is complete, or says what it lacks."""
    try:
        _prepare(run)
        _timeline(run, watch, under_way)
        run.clients.wait_for_outcomes(watch)
        run.tell(_all_sent(run.clients.counts()))
        export_outboxes(run.scenario, run.record, run.directory)
        _final_read(run)
        run.note(ended="complete")
    except (KeyboardInterrupt, Ended):
        with suppress(OSError):
            run.note(ended="interrupted", problems=[*run.record.problems, "interrupted by the user"])
        _heal_quickly(run)
        raise
    except (Problem, OSError) as problem:
        why = _why(run, problem)
        with suppress(OSError):
            run.note(ended="failed", problems=[*run.record.problems, str(why)])
        _heal_quickly(run)
        raise why from problem
    finally:
        _put_away(run)


def _why(run: Ongoing, problem: Exception) -> Exception:
    """What stands behind it: clients die with their lab, and on a full disk they cannot even say of what they died."""
    if not LabDirectory.of(run.lab).alive():
        others = [what for what in run.record.others if what.startswith("down")]
        why = f"somebody else asked it to: {others[-1]}" if others else "was its supervisor killed, or memory short?"
        return CannotHere(f"the lab ended in the middle of the run: {why}")
    if isinstance(problem, OSError) and problem.errno in FULL:
        return no_space(problem.filename or run.directory, problem.errno)
    return no_space(run.directory) if _is_full(run.directory) else problem


def _is_full(place: Path) -> bool:
    return place.exists() and shutil.disk_usage(place).free < FULL_BYTES


def _put_away(run: Ongoing) -> None:
    """What cannot be sealed stays as it was flushed."""
    try:
        run.close()
        seal_all(run.directory)
        merge_small_files(run.directory)
        rows = rows_sealed(run.directory)
        run.note(ended_at=Clock(time.time_ns(), time.monotonic_ns()), rows=rows)
    except OSError as problem:
        raise _why(run, problem) from problem


def _all_sent(counts: Mapping[str, int]) -> str:
    told = ", ".join(f"{counts[name]:,} {name}" for name in ("sent", "acked", "failed", "unknown"))
    return f"the load is over ({told}); the final read waits until every replica is in sync"


def _prepare(run: Ongoing) -> None:
    run.topics.create(after=None)
    if run.scenario.cluster.access is not None:
        run.tell(set_rules(run.scenario.cluster.access, run.lab, run.directory))
    for fault in run.faults:
        if fault.plan.before_clients:
            fault.begin()
            run.topics.create(after=fault.number)
    run.mirrors.wait_until_made()
    where = control.call(run.lab, "bootstrap")
    run.clients.start(where["sites"], where["users"])


def _timeline(run: Ongoing, watch: Callable[[dict[str, int]], None], under_way: Callable[[], None]) -> None:
    """Each fault begins and ends when it is due; the load ends with the last send, never with the last outcome."""
    scenario, faults = run.scenario, run.faults
    begun = run.clients.go()
    run.mark(load_begun_ns=begun)
    under_way()
    deadline = time.monotonic() + scenario.timeout_s
    ended_ns: int | None = None
    while True:
        run.clients.start_next()
        now = run.clients.counts()
        elapsed_s = (time.monotonic_ns() - begun) / 1e9
        for fault in faults:
            if ended_ns is None and fault.due(elapsed_s, now["sent"]):
                fault.begin()
        to_come = any(fault.begun_at is None and fault.plan.starts_a_producer for fault in faults)
        if ended_ns is None and (now["sent"] >= scenario.total or (run.clients.all_ended() and not to_come)):
            ended_ns = time.monotonic_ns()
            run.mark(load_ended_ns=ended_ns)
            run.clients.stop_health()
        for fault in faults:
            if fault.ends(elapsed_s, now["sent"], ended_ns is not None):
                fault.end()
        watch(now)
        run.follow_lab()
        if _is_full(labs := LabDirectory.of(run.lab).path):  # where the lab could not say that a fault is over
            raise no_space(labs)
        if ended_ns is not None and all(fault.over or fault.begun_at is None for fault in faults):
            break
        if time.monotonic() > deadline:
            raise CannotHere(f"the scenario was not over after its timeout_s of {scenario.timeout_s:g} s")
        time.sleep(TICK_S)
    run.mark(healed_ns=time.monotonic_ns())


def _final_read(run: Ongoing) -> None:
    """Nodes that the scenario left dead come back: what they hold belongs to the answer."""
    status = control.call(run.lab, "status")
    dead = [node["name"] for node in status["nodes"] if node["state"] == "down"]
    if dead:
        run.tell(f"starting {', '.join(dead)} again for the final read")
        control.call(run.lab, "start", nodes=dead)
    run.mirrors.settle(run.tell)
    whole = run.clients.final_read(SETTLE_S, run.tell)
    run.mark(drained_ns=time.monotonic_ns())
    run.tell("every partition is read to its end" if whole else "not every partition could be read to its end")
    run.note(unread=run.clients.stop_watching(run.tell))


def _heal_quickly(run: Ongoing) -> None:
    """The load stops, faults end, the journal gets what it can; nothing here may stand in the way of the rest."""
    stuck = _stuck(run.lab)
    with suppress(Problem, OSError):
        run.clients.stop_all(STOP_S, stuck)
    with suppress(Problem, OSError):
        export_outboxes(run.scenario, run.record, run.directory)
    for fault in run.faults:
        if fault.begun_at is not None and not fault.over:
            with suppress(Problem):
                try:
                    fault.end(by="the interrupt", stuck=stuck)
                except OSError:  # the disk takes no more rows
                    run.tell("healed: " + "; ".join(fault.heal(stuck)))


def _stuck(lab: str) -> Problem | None:
    """Why nothing can be asked of the lab; whoever takes it down then ends its clients and its faults with it."""
    try:
        control.call(lab, "nodes", answer_s=ANSWER_S)
    except Problem as problem:
        return problem
    except OSError as problem:
        return CannotHere(f"the lab cannot be asked ({problem.strerror})")
    return None


def versions(kafka: str) -> dict[str, str]:
    from importlib.metadata import version

    from confluent_kafka import libversion

    names = ("ackproof", "confluent-kafka", "pyspark", "pyarrow", "pyroute2")
    return {
        "kafka": kafka,
        "python": sys.version.split()[0],
        "librdkafka": libversion()[0],
        **{name: version(name) for name in names},
    }
