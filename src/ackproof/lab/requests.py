"""What is asked of a lab about faults, and what it answers. JSON stays at the socket."""

from __future__ import annotations

import msgspec

from ackproof.lab import client
from ackproof.model.faults import Fault, Kill, Pause, Stop


class Inject(msgspec.Struct, frozen=True):
    fault: Fault
    for_s: float | None = None  # how long a fault that lasts stands if nobody heals it


class InjectAtClients(msgspec.Struct, frozen=True):
    """A fault at programs of a run."""

    fault: Kill | Stop | Pause
    processes: list[str]
    heard: list[str] = []  # those of them that listen to an external client, which is what the fault hits
    for_s: float | None = None


class Injected(msgspec.Struct, frozen=True):
    """A fault that was proved."""

    nodes: list[str]  # what it hit
    said: list[str]  # what was proved, in words
    faults: list[str] = []  # the lab's names of what stands now, such as f3


def inject(lab: str, fault: Fault, for_s: float | None = None) -> Injected:
    return msgspec.convert(client.call(lab, "inject", fault=fault, for_s=for_s), Injected)


def inject_at_clients(lab: str, request: InjectAtClients) -> Injected:
    return msgspec.convert(client.call(lab, "disturb", **msgspec.structs.asdict(request)), Injected)


def heal(lab: str, faults: list[str]) -> None:
    client.call(lab, "heal", faults=faults)
