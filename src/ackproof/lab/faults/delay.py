"""Delays the packets of nodes by netem, and proves it."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager

from ackproof.core.errors import NotProved
from ackproof.lab.faults.proof import FaultProof
from ackproof.lab.network import probes
from ackproof.lab.network.router import Network

_PATIENCE_S = 1.0


@contextmanager
def delayed(network: Network, names: Collection[str], delay_ms: float) -> Iterator[FaultProof]:
    """Every packet to and from these nodes is late by half the delay each way. Only where the kernel has netem."""
    with ExitStack() as stack:
        for name in names:
            network.delay(name, delay_ms)
            stack.callback(network.undelay, name)

        def prove() -> str:
            return _prove_delayed(network, names, delay_ms)

        yield FaultProof(prove(), prove, lambda: _prove_undelayed(network, names))


def _prove_delayed(network: Network, names: Collection[str], delay_ms: float) -> str:
    with network.lock:
        touched = network.touched_by_others(None)
        seen = []
        for name in names:
            links = [(other, name) for other in network.names() if other != name and (other, name) not in touched][:1]
            begun = time.monotonic()
            patience_s = _PATIENCE_S + delay_ms / 1000
            reached = (
                probes.try_links(network, links, patience_s=patience_s).arrived
                if links
                else probes.observer_reaches(network, [name])
            )
            took_ms = (time.monotonic() - begun) * 1000
            if not reached:
                raise NotProved(f"{name} is not reached at all, so its delay cannot be measured")
            if took_ms < 0.4 * delay_ms:
                raise NotProved(f"a datagram reached {name} in {took_ms:.1f} ms: no delay of {delay_ms:.0f} ms")
            if len(network.delayed_ends(name)) < 2:  # a busy machine is slow without it
                raise NotProved(f"the delay of {name} does not work in both directions")
            seen.append(f"{name} {took_ms:.0f} ms")
    return f"a datagram took {', '.join(seen)}"


def _prove_undelayed(network: Network, names: Collection[str]) -> str:
    if slow := [name for name in names if network.delayed_ends(name)]:
        raise NotProved(f"the delay of {', '.join(slow)} is still there")
    return "the delay is gone"
