"""A running lab: the cluster, its network, the active faults, and the trail of what happened.

An active fault is an open context manager: `begin` enters it, `end` leaves it. A thread that does nothing else proves
each active fault again every second, and reports a fault that no longer holds. A node that was killed or stopped is not
an active fault, because only its start heals it; until then the same thread asks its port.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Collection
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import asdict, dataclass, field

from ackproof.core.errors import NotProved, UsageProblem
from ackproof.core.sites import RELAY
from ackproof.host.processes import Exit, Halt, Processes
from ackproof.lab.answers import StandingFault
from ackproof.lab.audit_log import Events
from ackproof.lab.cluster import Cluster
from ackproof.lab.conditions import LOOK_EVERY_S, Conditions, Proc
from ackproof.lab.faults.proof import FaultProof
from ackproof.lab.network import probes
from ackproof.lab.network.nftables import Match
from ackproof.lab.network.router import Network
from ackproof.lab.spec import Node
from ackproof.lab.topology import Link
from ackproof.model.faults import FREEZE

PROVE_EVERY_S = 1.0
# When a fault's time is up, the lab looks after this long: the kernel is on time, a timer has to wake and write first.
_KERNEL_GRACE_S = 0.05
_WATCHDOG_GRACE_S = 0.5
_KNOCK_S = 0.2  # within a node's own namespace, where a port refuses or takes a connection at once


@dataclass
class ActiveFault:
    """A fault that stands: what was asked for, and what became of it."""

    name: str
    kind: str
    targets: list[str]
    proof: FaultProof
    stack: ExitStack
    links: frozenset[Link] = frozenset()
    match: Match = field(default_factory=Match)
    until: float | None = None
    since: float = field(default_factory=time.monotonic)
    broken: str | None = None
    ended_by_kernel: bool = False

    @property
    def over(self) -> float:
        """When its time is up, and the kernel or the timer has had the time to end it."""
        grace_s = _KERNEL_GRACE_S if self.links else _WATCHDOG_GRACE_S
        return math.inf if self.until is None else self.until + grace_s

    def told(self) -> StandingFault:
        return StandingFault(
            fault=self.name,
            kind=self.kind,
            targets=self.targets,
            links=sorted(self.links),
            only={name: value for name, value in asdict(self.match).items() if value},
            proved=self.proof.proved,
            for_s=round(time.monotonic() - self.since, 3),
            left_s=None if self.until is None else round(max(0.0, self.until - time.monotonic()), 3),
            broken=self.broken,
        )


class Lab:
    def __init__(self, network: Network, events: Events, proc: Proc | None = None) -> None:
        self.network = network
        self.events = events
        self.processes = Processes(self._on_exit, self._on_halt)
        self.conditions = Conditions(self.processes, events, proc or Proc(os.getpid()))
        self.cluster: Cluster  # set once, by the supervisor, before the first command
        self.turn = threading.RLock()  # one change of a node's state at a time
        self.active: dict[str, ActiveFault] = {}
        self.down: dict[str, Exit] = {}  # nodes that a command ended and that were not started since
        self.clients: set[str] = set()  # programs of a run
        self._count = 0

    def _on_exit(self, name: str, how: Exit) -> None:
        with suppress(OSError):  # a full disk must not end the lab
            self._tell_exit(name, how)

    def _tell_exit(self, name: str, how: Exit) -> None:
        if name in self.cluster.nodes or name in self.clients:
            exit_facts = {"how": str(how), "code": how.code, "signal": how.signal, "by_itself": not how.asked}
            self.events.add("exited", node=name, **exit_facts)
        elif not how.asked and name.startswith(RELAY):
            self.events.add("exited", node=name, how=str(how), code=how.code, signal=how.signal, by_itself=True)
        elif not how.asked and how.code != 0:
            self.events.add("helper failed", helper=name, how=str(how))

    def _on_halt(self, halt: Halt) -> None:
        """Runs in the thread that reaps, so it takes no lock that a command may hold."""
        with suppress(OSError):
            if not halt.ours:
                (self.conditions.stopped if halt.stopped else self.conditions.continued)(halt.name)
            elif halt.woken:
                self._tell_if_woken(halt.name)

    def _tell_if_woken(self, name: str) -> None:
        """Report a pause that an outsider ended, unless it is being healed or its time is up."""
        for active in list(self.active.values()):
            its_pause = active.kind in FREEZE and active.targets == [name]
            if its_pause and active.broken is None and self._still_due(active):
                active.broken = f"an outsider continued {name}"
                self.events.add("no longer holds", fault=active.name, problem=active.broken)

    # -- nodes that are down ---------------------------------------------------------------------------------------

    def keep_down(self, name: str) -> None:
        """A command ended it: from now on nothing may serve there until the lab launches it."""
        with self.turn:
            if (how := self.processes.last_exit(name)) is not None:  # otherwise it was started again meanwhile
                self.down[name] = how

    def launch(self, node: Node) -> None:
        """Launch a node. The caller holds `turn`."""
        self.down.pop(node.name, None)
        self.cluster.launch(node)

    def _knock(self, name: str, how: Exit) -> None:
        port = self.cluster.nodes[name].port
        try:
            with self.network.lock:  # a proof of the lab may listen there in the node's place
                probes.connect(self.network, (name, name), port, _KNOCK_S).close()
        except OSError:
            return  # it refuses; for a node that is not reached nothing is known
        with self.turn:
            if self.down.get(name) is how:  # otherwise the lab launched it meanwhile
                del self.down[name]  # told once
                problem = f"{name} is down ({how}), but another process serves on its port {port}"
                self.events.add("no longer holds", node=name, problem=problem)

    # -- faults ----------------------------------------------------------------------------------------------------

    def next_name(self) -> str:
        with self.turn:
            self._count += 1
            return f"f{self._count}"

    def begin(
        self,
        name: str,
        kind: str,
        targets: list[str],
        fault: AbstractContextManager[FaultProof],
        *,
        links: Collection[Link] = (),
        match: Match | None = None,
        for_s: float | None = None,
    ) -> ActiveFault:
        """Enter the fault. It is active from now on, and its time counts from now on."""
        with ExitStack() as stack:
            held = stack.enter_context(fault)
            left_s = self.network.left_s(name) if links and for_s is not None else for_s
            until = None if for_s is None else time.monotonic() + (left_s or 0.0)  # its time may already be up
            active = ActiveFault(name, kind, targets, held, stack.pop_all(), frozenset(links), match or Match(), until)
        with self.turn:
            self.active[name] = active
        self.events.add("proved", fault=name, kind=kind, targets=targets, proof=held.proved, for_s=for_s)
        return active

    def heal(self, names: Collection[str]) -> list[str]:
        """Mend all first, prove afterwards: a link that two faults cut is open only when both are gone."""
        said, problems = [], []
        for name in names:
            self.look_once_more(name)
        mended = {name: self.mend(name) for name in names}
        for name, active in mended.items():
            try:
                said.append(f"{name}: {self.prove_over(active, 'heal') if active else 'is over already'}")
            except NotProved as problem:
                problems.append(problem.message)
        if problems:
            raise NotProved(problems[0], problems[1:])
        return said

    def end(self, name: str, by: str = "heal") -> str:
        """Leave the fault and prove that it is over. It stays mended even if the proof fails."""
        active = self.mend(name)
        return f"{name} is over already" if active is None else self.prove_over(active, by)

    def look_once_more(self, name: str) -> None:
        """Prove a fault once more right before it is healed, to see what broke since the last proof."""
        active = self.active.get(name)
        if active is not None and self._still_due(active):
            self._look_after(active)

    def mend(self, name: str) -> ActiveFault | None:
        with self.turn:
            active = self.active.pop(name, None)
        if active is not None:
            expired = active.until is not None and time.monotonic() >= active.until
            active.ended_by_kernel = expired and bool(active.links) and not self._taken(name)
            # First its timer, which must not end a later fault.
            self.processes.send(f"watchdog-{name}", signal.SIGKILL, ends=True)
            active.stack.close()
        return active

    def prove_over(self, active: ActiveFault, by: str) -> str:
        name = active.name
        by = "the kernel" if active.ended_by_kernel else by
        try:
            proof = active.proof.prove_over()
        except (NotProved, OSError) as problem:
            self.events.add("not healed", fault=name, by=by, problem=str(problem))
            raise NotProved(f"{name} ({active.kind}): {problem}") from problem
        # The kernel does not report that it ended a fault. The lab finds out when it looks.
        over_ns = int(active.until * 1e9) if active.ended_by_kernel and active.until is not None else None
        self.events.add("healed", fault=name, kind=active.kind, by=by, proof=proof, over_ns=over_ns)
        return proof

    def _taken(self, name: str) -> dict[Link, int]:
        return self.network.taken(name) if name in self.network.cuts else {}

    def find(self, names: Collection[str]) -> list[str]:
        with self.turn:
            if unknown := [name for name in names if name not in self.active]:
                known = ", ".join(self.active) or "none"
                raise UsageProblem(f"no fault {', '.join(unknown)} is active; active are: {known}")
            return list(names) or list(self.active)

    def keep_proving(self) -> None:
        """End faults whose time is up; prove the others again, and that ended nodes stay down. Runs in a thread."""
        while True:
            begun = time.monotonic()
            for active in list(self.active.values()):
                self._look_after(active)
            for name, how in list(self.down.items()):
                self._knock(name, how)
            time.sleep(max(0.1, self._next_wake(begun) - time.monotonic()))

    def keep_watching(self) -> None:
        """Watch the conditions under which the nodes run. Runs in a thread of its own, because proofs may take long."""
        while True:
            begun = time.monotonic()
            with suppress(OSError):  # a full disk must not end the watching
                self.conditions.look([node.name for node in self.cluster.servers])
            time.sleep(max(0.1, begun + LOOK_EVERY_S - time.monotonic()))

    def _next_wake(self, begun: float) -> float:
        return min([begun + PROVE_EVERY_S, *(active.over for active in list(self.active.values()))])

    def _look_after(self, active: ActiveFault) -> None:
        try:
            if time.monotonic() >= active.over:
                self.end(active.name, by="its time")
            elif active.name in self.active and active.broken is None and self._still_due(active):
                self.events.add("held", fault=active.name, proof=active.proof.prove())
        except Exception as problem:  # noqa: BLE001  # a proof that fails in any way must not end the proofs of others
            if active.name in self.active and self._still_due(active):
                active.broken = str(problem)
                self.events.add("no longer holds", fault=active.name, problem=str(problem))

    def _still_due(self, active: ActiveFault) -> bool:
        """Whether its time is not up: a proof that fails because the time ran out meanwhile means nothing."""
        return active.until is None or time.monotonic() < active.until
