"""Injects a fault: finds the function of its kind by name, and gives it what it needs.

The function of a kind is in `lab/faults/<family>.py` and has the name of the kind, with `_` for `-`. The family and the
name are in `model/faults.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import msgspec

from ackproof.core.errors import UsageProblem
from ackproof.host.own_program import own_program
from ackproof.lab.answers import FaultProved, FaultsProved
from ackproof.lab.directory import LabDirectory
from ackproof.lab.faults.active import ActiveFault, Lab
from ackproof.lab.roles import resolvers
from ackproof.lab.spec import Node
from ackproof.lab.targets import resolve
from ackproof.model.fault import AnyFault, kind_of


@dataclass
class FaultResult:
    """A fault that was injected and proved."""

    nodes: list[str]  # what it hit
    said: list[str]  # what was proved, in words
    active: list[ActiveFault] = field(default_factory=list)  # what stands now

    def answer(self) -> FaultProved | FaultsProved:
        """Return it for JSON. If the fault is one that stands, with its facts."""
        result = FaultsProved(self.nodes, [each.name for each in self.active], self.said)
        if len(self.active) != 1:
            return result
        told, proved = self.active[0].told(), msgspec.structs.asdict(result)
        return FaultProved(**msgspec.structs.asdict(told), hit=self.nodes, **proved)


@dataclass
class Injection:
    """The lab where a fault is injected, and how the fault was asked for."""

    lab: Lab
    directory: LabDirectory
    for_s: float | None = None  # it ends by itself after this time
    timeout_s: float | None = None  # how long a process may take to end or to serve
    wait: bool = True  # until a node that is started serves
    progress: Callable[[str], None] = lambda _: None

    def named(self, names: Sequence[str]) -> list[str]:
        """Return the nodes that names, globs and roles mean at this moment."""
        return resolve(",".join(names), self.lab.network.names(), resolvers(self.lab.cluster.state))

    def nodes(self, names: Sequence[str], states: Collection[str], verb: str) -> list[Node]:
        """Return the nodes that are meant if the fault can begin from the state of each; else nothing is touched."""
        nodes = [self.lab.cluster.nodes[name] for name in self.named(names)]
        for node in nodes:
            if node.role == "client":
                raise UsageProblem(f"client is a namespace for programs, not a server: there is nothing to {verb}")
            state = self.lab.processes.state(node.name)
            if state not in states:
                raise UsageProblem(f"{node.name} is {state}: {verb} needs a node that is {' or '.join(states)}")
        return nodes

    def start_timer(self, active: ActiveFault, action: list[str], descriptors: dict[int, int]) -> None:
        """Start a small process that ends the fault on time even if the supervisor is stopped."""
        self.lab.processes.spawn(
            f"watchdog-{active.name}",
            own_program(
                "ackproof.lab.server.fault_timer", str(active.until), str(self.directory.events), active.name, *action
            ),
            namespace=self.lab.network.router_namespace,
            output=self.directory.supervisor_log,
            environment=os.environ,
            descriptors=descriptors,
        )


def function_of(fault: type[AnyFault]) -> Callable[[Injection, Any], FaultResult]:
    """Return the function of a kind of fault."""
    module = import_module(f"ackproof.lab.faults.{fault.family}")
    function: Callable[[Injection, Any], FaultResult] = getattr(module, kind_of(fault).replace("-", "_"))
    return function


def inject(how: Injection, fault: AnyFault) -> FaultResult:
    """Inject a fault and prove it."""
    if fault.family is None:
        raise UsageProblem(f"{fault.kind} is a step of a run: the lab cannot do it")
    return function_of(type(fault))(how, fault)
