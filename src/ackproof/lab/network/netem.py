"""Delay packets with the kernel's netem, at both ends of the veth pair that joins a node to the router."""

from __future__ import annotations

from contextlib import suppress

from pyroute2 import IPRoute, NetlinkError

from ackproof.host import namespaces as kernel

_HANDLE = "1:"


def add_delay(side: IPRoute, interface: str, delay_us: int) -> None:
    """Delay what this interface sends. OSError if the kernel has no netem."""
    try:
        side.tc("add", "netem", side.link_lookup(ifname=interface)[0], _HANDLE, delay=delay_us)
    except NetlinkError as problem:
        raise OSError(problem.code, "this kernel has no netem") from problem


def has_delay(side: IPRoute, interface: str) -> bool:
    queues = side.get_qdiscs(side.link_lookup(ifname=interface)[0])
    return any(queue.get_attr("TCA_KIND") == "netem" for queue in queues)


def remove_delay(interface: str, namespace: int) -> None:
    """Remove the delay at both ends. It may be gone already: a fault timer can have removed it first."""
    with suppress(NetlinkError), IPRoute() as router:
        router.tc("del", "netem", router.link_lookup(ifname=interface)[0], _HANDLE)
    with suppress(NetlinkError), kernel.inside(namespace), IPRoute() as node_side:
        node_side.tc("del", "netem", node_side.link_lookup(ifname="eth0")[0], _HANDLE)
