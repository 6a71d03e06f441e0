"""One fault of a run, from the moment when it is due until it was proved that it is over.

What the lab answers says how a fault began. Everything after that is in the lab's trail: that it holds or not, who
ended it, and the proof that it is over.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, assert_never

from ackproof.core.errors import CannotHere, Problem, UsageProblem
from ackproof.host.processes import wait_until
from ackproof.lab import requests
from ackproof.lab.requests import Injected
from ackproof.model.fault import LastingFault, ProcessFault
from ackproof.model.faults import Fault
from ackproof.model.steps import CaughtUp, Elect, Resize, Seek, Translated
from ackproof.run.lab_trail import Expired, Healed

if TYPE_CHECKING:
    from ackproof.run.execution import RunExecution

GRACE_S = 5.0  # after which a fault that should be over ends by itself, because the run did not end it
ENDED_BY_ITSELF = ("the kernel", "watchdog", "its time")  # as the lab's trail says who ended it
TOLD_S = 5.0  # more than the lab takes to prove that such a fault is over


class FaultLifecycle:
    """One fault of the scenario: not begun, active, or over."""

    def __init__(self, number: int, plan: Fault, run: RunExecution) -> None:
        self.number = number
        self.plan: Fault = plan
        self.names: list[str] = []  # what the lab calls it
        self.targets: list[str] = []
        self.begun_at: float | None = None
        self.done_at: float | None = None  # it was proved or refused
        self.over = False
        self.broken = False  # it was found not to hold, and that was reported
        self.unproved = False  # that it began, or that it was healed
        self._run = run
        self._for_s: float | None = None  # after which it ends by itself
        self._healed: dict[str, str] = {}  # the proof of each of its names that is over, by the lab's trail
        self._expired: tuple[int, str] | None = None  # when its time was up, and who ended it then
        self._epoch_before: int | None = None

    # -- the beginning ---------------------------------------------------------------------------------------------

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
            injected = self._inject()
        except Problem as problem:
            self.done_at = time.monotonic()
            self.over = True
            self._not_begun(problem)
            return
        self.done_at = time.monotonic()
        self.names, self.targets = injected.faults, injected.nodes
        self.over = not plan.lasting
        run.journal_fault(self, "proved", text="; ".join(injected.said))
        if self.over:
            run.journal_fault(self, "healed", by="done", text="it does not last")
        run.tell("; ".join(injected.said))

    def _not_begun(self, problem: Problem) -> None:
        run, plan = self._run, self.plan
        if plan.may_fail and isinstance(problem, CannotHere):  # a bug of ours refuses nothing
            run.journal_fault(self, "proved", text=f"refused, as it may be: {problem.message}")
            run.journal_fault(self, "healed", by="done", text="nothing was done")
            run.tell(f"{plan.kind} was refused: {problem.message}")
            return
        self.unproved = True
        run.journal_fault(self, "not proved", text=problem.message)
        run.add_problem(f"{plan.kind}: {problem.message}")
        run.tell(f"{plan.kind} could not be proved: {problem.message}")

    def _inject(self) -> Injected:
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
            case ProcessFault() | LastingFault():
                self._for_s = self._lasts_s()
                if plan.on_clients:
                    return run.clients.disturb(plan, self._for_s)
                return requests.inject(run.lab, run.resolved(plan), self._for_s)
            case _:
                assert_never(plan)

    def _lasts_s(self) -> float | None:
        """Return the time after which the fault ends by itself.

        Without `until_s` that is as long as the scenario may take. Before the load begins it is not known.
        """
        plan, load_begun_ns = self.plan, self._run.record.marks.load_begun_ns
        if not isinstance(plan, LastingFault) or load_begun_ns is None:
            return None
        until_s = self._run.scenario.timeout_s if plan.until_s is None else plan.until_s
        left_s = until_s - (time.monotonic_ns() - load_begun_ns) / 1e9
        return max(left_s, plan.not_before_max_s if plan.not_before_new_epoch else 0.0) + GRACE_S

    # -- while it stands -------------------------------------------------------------------------------------------

    def report_broken(self, seen: str) -> None:
        """Report once that it does not hold: a fault with several names has several such events."""
        if not self.broken:
            self.broken = True
            self._run.tell(f"{self.plan.kind} {' '.join(self.targets)} no longer holds: {seen}")

    def note_end(self, event: Expired | Healed) -> None:
        """Note what the lab's trail says of its end."""
        over_ns = event.at_ns
        if isinstance(event, Healed):
            self._healed[event.fault] = event.proof
            over_ns = event.at_ns if event.over_ns is None else event.over_ns
        if self._expired is None and event.by in ENDED_BY_ITSELF:
            self._expired = over_ns, event.by

    # -- the end ---------------------------------------------------------------------------------------------------

    def ends(self, elapsed_s: float, sent: int, load_ended: bool) -> bool:
        """Whether it is due to be healed."""
        plan = self.plan
        if self.begun_at is None or self.over or not isinstance(plan, LastingFault):
            return False
        if plan.until_messages is not None:
            due = sent >= plan.until_messages or load_ended
        else:
            due = load_ended if plan.until else elapsed_s >= (plan.until_s or 0)
        return due and self._may_end(plan, self.begun_at)

    def _may_end(self, plan: LastingFault, begun_at: float) -> bool:
        """Whether there was the new leader epoch that it waits for. Healed too early, nothing fails over."""
        if plan.not_before_new_epoch is None or time.monotonic() - begun_at >= plan.not_before_max_s:
            return True
        now = self._run.clients.leaders.epoch(plan.not_before_new_epoch)
        return now is not None and self._epoch_before is not None and now > self._epoch_before

    def end(self, by: str = "the scenario", stuck: Problem | None = None) -> None:
        """Heal it, unless it ended by itself. `stuck` is why the lab cannot be asked."""
        run = self._run
        if stuck is None and self._should_be_over():
            self._wait_until_over()
        itself = self._ended_by_itself()
        self.over = True
        healing_ns, healer = itself or (time.monotonic_ns(), by)
        run.journal_fault(self, "healing", at_ns=healing_ns, by=healer)
        try:
            if itself is None:
                self.heal(stuck)
        except Problem as problem:
            was_over = isinstance(problem, UsageProblem) and stuck is None  # the lab ended it just before
            if not was_over or not self._wait_until_over():
                self._not_healed(problem, by)
                return
        healed_ns = time.monotonic_ns()
        said = [f"{name}: {proof}" for name, proof in self._healed_now().items()]
        if itself := self._ended_by_itself():
            healed_ns, healer = itself
            said = [f"its time was up ({healer})", *said]
        run.journal_fault(self, "healed", at_ns=max(healing_ns, healed_ns), by=healer, text="; ".join(said))
        run.tell("healed: " + "; ".join(said))

    def heal(self, stuck: Problem | None = None) -> None:
        if stuck is not None:
            raise stuck
        requests.heal(self._run.lab, self.names)

    def _not_healed(self, problem: Problem, by: str) -> None:
        self.unproved = True
        self._run.journal_fault(self, "not healed", by=by, text=problem.message)
        self._run.add_problem(f"healing {self.plan.kind}: {problem.message}")
        self._run.tell(f"healing {self.plan.kind} could not be proved: {problem.message}")

    def _healed_now(self) -> dict[str, str]:
        """Return the proof of each of its names that is over."""
        self._run.follow_lab()
        return self._healed

    def _ended_by_itself(self) -> tuple[int, str] | None:
        """Return when it ended and who ended it, once the lab has proved that it is over."""
        return self._expired if self._healed_now().keys() >= set(self.names) else None

    def _wait_until_over(self) -> bool:
        """Wait until the lab has proved it; its time is up, and the lab is about to say so if it is not stuck."""
        return wait_until(lambda: self._ended_by_itself() is not None, TOLD_S)

    def _should_be_over(self) -> bool:
        return self._for_s is not None and time.monotonic() > (self.done_at or 0.0) + self._for_s
