"""The faults at programs of a run: kill, stop and pause. What starts a client again is in `run/client_processes.py`."""

from __future__ import annotations

import signal
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import assert_never

from ackproof.core.errors import NotProved, UsageProblem
from ackproof.host.processes import KILL_CLIENT
from ackproof.lab.faults.active import Lab
from ackproof.lab.faults.injection import FaultResult, Injection
from ackproof.lab.faults.nodes import wake_in_time
from ackproof.lab.faults.proof import FaultProof
from ackproof.lab.requests import InjectAtClients
from ackproof.model.faults import Kill, Pause, Stop

END_S = 30.0


def inject_at_clients(how: Injection, request: InjectAtClients) -> FaultResult:
    """Inject a fault at programs; for those in `heard`, at the external client that they listen to."""
    for name in request.processes:
        if how.lab.processes.get(name) is None:
            raise UsageProblem(f"{name} does not run: there is nothing to {request.fault.kind}")
    match request.fault:
        case Pause():
            return _pause(how, request.processes, request.heard)
        case Kill():
            return _end(how.lab, request.processes, request.heard, kills=True)
        case Stop():
            return _end(how.lab, request.processes, request.heard, kills=False)
        case _:
            assert_never(request.fault)


def _end(lab: Lab, names: Sequence[str], heard: Collection[str], *, kills: bool) -> FaultResult:
    for name in names:
        kill = KILL_CLIENT if name in heard else signal.SIGKILL
        lab.processes.send(name, kill if kills else signal.SIGTERM, ends=True)
    for name in names:
        if not lab.processes.wait_for_exit(name, time.monotonic() + END_S):
            raise NotProved(f"{name} is still there after {END_S:.0f} s")
    return FaultResult(list(names), [f"{name}: {lab.processes.last_exit(name)}" for name in names])


def _pause(how: Injection, names: Sequence[str], heard: Collection[str]) -> FaultResult:
    lab, active = how.lab, []
    try:
        for name in names:
            held = _paused(lab, name, name in heard)
            active.append(lab.begin(lab.next_name(), "pause", [name], held, for_s=how.for_s))
            wake_in_time(how, active[-1], heard=name in heard)
    except BaseException:  # if one of them cannot be paused, none stays paused
        for each in active:
            lab.mend(each.name)
        raise
    said = [f"{each.name}: pause {each.targets[0]}: {each.proof.proved}" for each in active]
    return FaultResult(list(names), said, active)


@contextmanager
def _paused(lab: Lab, name: str, heard: bool) -> Iterator[FaultProof]:
    with lab.processes.frozen(name, heard=heard) as (prove, prove_over):
        yield FaultProof(prove(), prove, prove_over)
