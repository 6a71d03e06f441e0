"""A run: a scenario is carried out in a lab of its own, and everything is written down. `_timeline` is the timeline.

    start the lab -> topics -> observer, consumers, producers -> go -> faults as they fall due -> last send -> heal
    -> outcomes -> final read -> seal

The run never judges. It leaves a run directory that explains itself, also after an interrupt, a fault that could not be
proved, or a client that died. The judge says whether that is evidence.
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

from ackproof.core.errors import FULL, CannotHere, Ended, Problem, no_space
from ackproof.journal.compaction import merge_small_files
from ackproof.journal.files import rows_sealed
from ackproof.journal.seal import seal_all
from ackproof.journal.writer import Writer
from ackproof.lab import client as control
from ackproof.lab import requests
from ackproof.lab.audit_log import Events
from ackproof.lab.directory import LabDirectory
from ackproof.model.faults import Fault
from ackproof.model.run_record import Clock, RunRecord, write_record
from ackproof.model.scenario import Scenario
from ackproof.run.acls import set_rules
from ackproof.run.client_processes import ended_how
from ackproof.run.clients import Clients
from ackproof.run.exports import export_outboxes
from ackproof.run.fault_lifecycle import FaultLifecycle
from ackproof.run.health_check import HealthFeed
from ackproof.run.lab_trail import (
    Asked,
    Disturbed,
    Event,
    Exited,
    Expired,
    Failed,
    GoesOn,
    Healed,
    Held,
    LabTrail,
    NoLongerHolds,
    Refused,
    Waited,
)
from ackproof.run.mirrors import Mirrors
from ackproof.run.topics import Topics

TICK_S = 0.005
SETTLE_S = 120.0
FULL_BYTES = 1 << 20  # left on a disk
STOP_S = 8.0  # of the 15 that an interrupted run may take
ANSWER_S = 3.0  # likewise, for a lab whose supervisor may be stopped

Tell = Callable[[str], None]


class RunExecution:
    """A run that goes on: its record, its lab, its clients and its faults."""

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
        self.faults = [FaultLifecycle(number, plan, self) for number, plan in enumerate(scenario.faults, start=1)]
        self._faults_table = Writer(directory, "faults", record.run, "run")
        self._probes_table = Writer(directory, "probes", record.run, "run")
        self._nodes_table = Writer(directory, "nodes", record.run, "run")
        self._lateness_table = Writer(directory, "lateness", record.run, "nodes")
        self._trail = LabTrail(Events(LabDirectory.of(lab).events))
        self._died: list[str] = []  # servers, by themselves
        self._disturbed: list[str] = []  # servers that an outsider disturbed

    def mark(self, **moments: int) -> None:
        self.note(marks=msgspec.structs.replace(self.record.marks, **moments))

    def note(self, **changes: Any) -> None:
        self.record = msgspec.structs.replace(self.record, **changes)
        write_record(self.directory, self.record)

    def add_problem(self, text: str) -> None:
        self.note(problems=[*self.record.problems, text])

    def journal_fault(self, fault: FaultLifecycle, event: str, **facts: Any) -> None:
        plan = fault.plan
        row = {"fault": fault.number, "event": event, "kind": plan.kind, "asked": plan.asked, "targets": fault.targets}
        self._faults_table.add(**{"at_ns": time.monotonic_ns(), **row, **facts})
        self._faults_table.flush()

    # -- what the lab's trail says ---------------------------------------------------------------------------------

    def follow_lab(self) -> None:
        """Bring the lab's trail into the journal: proofs that hold or do not, and nodes that end."""
        for event in self._trail.new_events():
            self._hear(event)
        for ended in self.clients.processes.on_host.newly_ended():
            self._journal_exit(Exited(at_ns=time.monotonic_ns(), **ended._asdict()))
        for table in (self._probes_table, self._nodes_table, self._lateness_table):
            table.flush_if_due()
        self._health.follow()

    def _hear(self, event: Event) -> None:
        match event:
            case Held():
                if fault := self._fault(event.fault):
                    self._probes_table.add(fault=fault.number, at_ns=event.at_ns, held=True, text=event.proof)
            case NoLongerHolds():
                if fault := self._fault(event.fault) or self._who_ended(event.node):
                    self._probes_table.add(fault=fault.number, at_ns=event.at_ns, held=False, text=event.problem)
                    self.journal_fault(fault, "broken", at_ns=event.at_ns, text=event.problem)
                    fault.report_broken(event.problem)
            case Expired() | Healed():
                if fault := self._fault(event.fault):
                    fault.note_end(event)
            case Asked() | Refused() | Failed():
                self._hear_others(event)
            case Exited():
                self._journal_exit(event)
            case Disturbed():
                self._journal_disturbance(event, event.problem)
                if self.record.is_server(event.node):
                    self._disturbed.append(event.node)
            case GoesOn():
                self._journal_disturbance(event, event.text)
            case Waited():
                self._lateness_table.add(client=event.node, at_ns=event.at_ns, behind_ns=event.waited_ns)
            case _:
                assert_never(event)

    def _fault(self, name: str | None) -> FaultLifecycle | None:
        """Return the fault that the lab calls by a name."""
        return next((fault for fault in self.faults if name in fault.names), None)

    def _who_ended(self, node: str | None) -> FaultLifecycle | None:
        """Return the last fault that took a node down. For such a fault the lab's trail has no name but the node's."""
        those = [fault for fault in self.faults if fault.plan.about.takes_down and node in fault.targets]
        return max(those, key=lambda fault: fault.begun_at or 0.0, default=None)

    def _hear_others(self, event: Asked | Refused | Failed) -> None:
        """Note a command to the lab that is not part of the run: the run is another experiment then."""
        if event.by.endswith(f"pid {os.getpid()}"):
            return
        what, others = f"{event.asked} ({event.by})", list(self.record.others)
        match event:
            case Asked():
                self.tell(f"a command that is not part of this run reaches its lab: {what}")
                others.append(what)
            case Failed():
                self.tell(f"it failed, and may have had effects all the same: {what}")
            case Refused() if what in others:
                self.tell(f"it was refused, so it had no effect: {what}")
                others.remove(what)
        self.note(others=others)

    def doubts(self) -> list[str]:
        """Return what was seen already for which the judge would call the run unfit."""
        broken = {fault.number: "did not hold" for fault in self.faults if fault.broken}
        unproved = {fault.number: "was not proved" for fault in self.faults if fault.unproved}
        others = ["a command that is not part of the run changed the lab"] if self.record.others else []
        died = [f"{node} died by itself" for node in self._died]
        disturbed = [f"an outsider disturbed {node}" for node in dict.fromkeys(self._disturbed)]
        faults = [f"fault {number} {what}" for number, what in (unproved | broken).items()]
        return [*faults, *died, *disturbed, *others]

    def _journal_disturbance(self, event: Disturbed | GoesOn, text: str) -> None:
        """Journal what an outsider did to a process, or that it is over.

        It counts before the load as well: a server that was stopped then may still be catching up, and a changed
        priority, cgroup or set of processors stays for the whole run.
        """
        kind = "disturbed" if isinstance(event, Disturbed) else "goes on"
        self._nodes_table.add(at_ns=event.at_ns, node=event.node, event=kind, by_itself=False, text=text)
        self.tell(text)

    def _journal_exit(self, ended: Exited) -> None:
        how = {"code": ended.code, "signal": ended.signal, "by_itself": ended.by_itself}
        self._nodes_table.add(at_ns=ended.at_ns, event="exited", node=ended.node, **how)
        clients = (*self.clients.producers, *self.clients.consumers)
        died = ended.by_itself and self.record.is_server(ended.node)
        if died:
            self._died.append(ended.node)
        if died or (ended.by_itself and ended.code != 0 and ended.node in clients):
            self.tell(f"{ended.node} ended by itself ({ended_how(ended.code, ended.signal)})")

    def resolved(self, plan: Fault) -> Fault:
        """Return the fault with each `target:N` replaced by the nodes that fault N hit."""

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


# -- the run ---------------------------------------------------------------------------------------------------------


def carry_out(run: RunExecution, watch: Callable[[dict[str, int]], None], under_way: Callable[[], None]) -> None:
    """Carry out the run in a lab that serves. The run directory is complete afterwards, or says what it lacks."""
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


def _why(run: RunExecution, problem: Exception) -> Exception:
    """Return the cause of a problem: clients die with their lab, and on a full disk they cannot say why they died."""
    if not LabDirectory.of(run.lab).alive():
        others = [what for what in run.record.others if what.startswith("down")]
        why = f"another command ended it: {others[-1]}" if others else "was its supervisor killed, or memory short?"
        return CannotHere(f"the lab ended in the middle of the run: {why}")
    if isinstance(problem, OSError) and problem.errno in FULL:
        return no_space(problem.filename or run.directory, problem.errno)
    return no_space(run.directory) if _is_full(run.directory) else problem


def _is_full(place: Path) -> bool:
    return place.exists() and shutil.disk_usage(place).free < FULL_BYTES


def _put_away(run: RunExecution) -> None:
    """Close and seal the journal. What cannot be sealed stays as it was flushed."""
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


def _prepare(run: RunExecution) -> None:
    run.topics.create(after=None)
    if run.scenario.cluster.access is not None:
        run.tell(set_rules(run.scenario.cluster.access, run.lab, run.directory))
    for fault in run.faults:
        if fault.plan.before_clients:
            fault.begin()
            run.topics.create(after=fault.number)
    run.mirrors.wait_until_made()
    where = requests.where(run.lab)
    run.clients.start(where.sites, where.users)


def _timeline(run: RunExecution, watch: Callable[[dict[str, int]], None], under_way: Callable[[], None]) -> None:
    """Begin and end each fault when it is due. The load ends with the last send, not with the last outcome."""
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
        if _is_full(labs := LabDirectory.of(run.lab).path):  # then the lab could not report that a fault is over
            raise no_space(labs)
        if ended_ns is not None and all(fault.over or fault.begun_at is None for fault in faults):
            break
        if time.monotonic() > deadline:
            raise CannotHere(f"the scenario was not over after its timeout_s of {scenario.timeout_s:g} s")
        time.sleep(TICK_S)
    run.mark(healed_ns=time.monotonic_ns())


def _final_read(run: RunExecution) -> None:
    """Read the healed log. Nodes that the scenario left down are started first: what they hold belongs to the log."""
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


def _heal_quickly(run: RunExecution) -> None:
    """Stop the load, heal the faults, and journal what can be journaled. No step may prevent the next one."""
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
                    fault.heal(stuck)
                    run.tell(f"healed {fault.plan.kind}")


def _stuck(lab: str) -> Problem | None:
    """Return why the lab does not answer, or None. When it is taken down, its clients and faults end with it."""
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
