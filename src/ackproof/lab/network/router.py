"""The network of a lab: each node has a namespace, and a veth pair joins it to a router, the lab's own namespace.

A router joins the nodes, not a bridge. So all packets between two nodes pass one forward hook: every rule stands in one
place, where it can count packets, reset connections and look at ports, and no link-local traffic gets past it. Packets
that the router itself sends pass no forward hook. The supervisor lives in the router's namespace, so it is the
observer that no fault can touch.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pyroute2 import IPRoute, NetlinkError

from ackproof.core.errors import CannotHere, NotProved
from ackproof.host import namespaces as kernel
from ackproof.lab.network import netem
from ackproof.lab.network.nftables import Match, Rules
from ackproof.lab.spec import OBSERVER_ADDRESS
from ackproof.lab.topology import Link

PROBE_PORT = 7
OBSERVER = "observer"
NOT_ONLY_OURS = "an outsider changed the packet rules of the lab: what they let pass is unknown until a new lab is up"
T = TypeVar("T")
_SCOPE_LINK = 253


@dataclass(frozen=True)
class Endpoint:
    """A node's end of its link: its namespace, and the supervisor's own sockets there, with which it probes."""

    name: str
    address: str
    namespace: int
    interface: str
    datagrams: socket.socket
    listener: socket.socket
    accepted: list[socket.socket] = field(default_factory=list)


@contextmanager
def network_here() -> Iterator[None]:
    """Turn a refusal of the kernel into CannotHere. ("No space left" can mean too many network namespaces.)"""
    try:
        yield
    except (OSError, NetlinkError) as problem:
        raise CannotHere(
            f"this machine cannot make a lab's network ({problem}): `ackproof doctor` says what to do"
        ) from problem


class Network:
    """The nodes' namespaces and links, and the rules that cut links. The supervisor makes it in its own namespace.

    Each command of the lab runs in a thread of its own. A command holds `lock` while it probes or changes rules.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.endpoints: dict[str, Endpoint] = {}
        self.cuts: dict[str, tuple[Match, frozenset[Link]]] = {}
        self.router_namespace = kernel.own_network()
        # Each command is a thread, and pyroute2 keeps a socket for each thread that uses it: so one thread does it all.
        self._netlink = ThreadPoolExecutor(1, thread_name_prefix="netlink")
        self._router = self._ask(IPRoute)
        self._ask(lambda: self._router.link("set", index=1, state="up"))
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        self.rules = self._ask(Rules)
        self.observer = datagram_socket("0.0.0.0", 0)  # noqa: S104  # only inside the lab
        self._names: dict[str, str] = {}

    def _ask(self, question: Callable[[], T]) -> T:
        return self._netlink.submit(question).result()

    # -- nodes ---------------------------------------------------------------------------------------------------

    def attach(self, name: str, address: str) -> None:
        """Give a node its namespace, its address and its route to the router."""
        interface = f"to-{name}"[:15]
        namespace = kernel.new_network()
        with self.lock:
            self._ask(lambda: _configure_router_side(self._router, interface, address, namespace))
            with kernel.inside(namespace):
                _configure_node_side(address)
                datagrams = datagram_socket(address, PROBE_PORT)
                listener = socket.create_server((address, PROBE_PORT), backlog=64)
                listener.setblocking(False)
            self.endpoints[name] = Endpoint(name, address, namespace, interface, datagrams, listener)
            self._names[address] = name

    def detach(self, name: str) -> None:
        """Remove a node's link. Its namespace ends with its last process."""
        with self.lock:
            endpoint = self.endpoints.pop(name)
            self._names.pop(endpoint.address)
            self._ask(lambda: self._router.link("del", index=self._router.link_lookup(ifname=endpoint.interface)[0]))
            _close_endpoint(endpoint)

    def names(self) -> list[str]:
        return list(self.endpoints)

    # -- severing and mending --------------------------------------------------------------------------------------

    def sever(self, fault: str, links: Collection[Link], match: Match, timeout_s: float | None) -> None:
        with self.lock:
            addresses = [self._addresses(link) for link in links]
            self._ask(lambda: self.rules.add(fault, match, addresses, timeout_s))
            self.cuts[fault] = (match, frozenset(links))

    def retime(self, fault: str, timeout_s: float) -> None:
        """Start the time of a fault again, from now."""
        with self.lock:
            match, links = self.cuts[fault]
            addresses = [self._addresses(link) for link in links]
            self._ask(lambda: self.rules.fill(fault, match, addresses, timeout_s))

    def left_s(self, fault: str) -> float | None:
        """How long the kernel still holds this fault. None if it has no end."""
        with self.lock:
            return self._ask(lambda: self.rules.left_s(fault))

    def mend(self, fault: str) -> None:
        with self.lock:
            self.cuts.pop(fault, None)
            if fault in self._ask(self.rules.names):
                self._ask(lambda: self.rules.remove(fault))

    def taken(self, fault: str) -> dict[Link, int]:
        """The links that this fault severs now, according to the kernel, each with the number of packets it stopped."""
        with self.lock:
            try:
                counts = self._ask(lambda: self.rules.counted(fault))
            except NetlinkError as problem:
                if problem.code != errno.ENOENT:
                    raise
                return {}  # the whole set is gone, so the fault severs nothing
            names = self._names
            return {
                (names[source], names[target]): count
                for (source, target), count in counts.items()
                if source in names and target in names  # a detached node has no links
            }

    def touched_by_others(self, fault: str | None) -> frozenset[Link]:
        """Links that another fault severs too, so a result there does not prove this fault."""
        with self.lock:
            return frozenset(link for name, (_, links) in self.cuts.items() if name != fault for link in links)

    def expect_only_our_rules(self) -> None:
        """Raise NotProved if an outsider changed a rule: it may let packets through that differ from the probes."""
        with self.lock:
            if not self._ask(self.rules.only_ours):
                raise NotProved(NOT_ONLY_OURS)

    def _addresses(self, link: Link) -> tuple[str, str]:
        return self.endpoints[link[0]].address, self.endpoints[link[1]].address

    # -- delay: netem, at both ends of a node's link ---------------------------------------------------------------

    def delay(self, name: str, delay_ms: float) -> None:
        """Delay packets to the node by half, and packets from it by half. OSError if the kernel has no netem."""
        endpoint = self.endpoints[name]
        half_us = round(delay_ms * 1000 / 2)
        with self.lock:
            self._ask(lambda: netem.add_delay(self._router, endpoint.interface, half_us))
            try:
                with kernel.inside(endpoint.namespace), IPRoute() as node_side:
                    netem.add_delay(node_side, "eth0", half_us)
            except OSError:
                self.undelay(name)
                raise

    def undelay(self, name: str) -> None:
        endpoint = self.endpoints[name]
        with self.lock:
            netem.remove_delay(endpoint.interface, endpoint.namespace)

    def delayed_ends(self, name: str) -> list[str]:
        """The ends of a node's link, `router` or `node`, that delay packets."""
        endpoint = self.endpoints[name]
        with self.lock, kernel.inside(endpoint.namespace), IPRoute() as node_side:
            ends = {
                "router": self._ask(lambda: netem.has_delay(self._router, endpoint.interface)),
                "node": netem.has_delay(node_side, "eth0"),
            }
        return [end for end, is_delayed in ends.items() if is_delayed]

    def close(self) -> None:
        self._ask(self.rules.close)
        self._ask(self._router.close)
        self._netlink.shutdown()
        self.observer.close()
        for endpoint in self.endpoints.values():
            _close_endpoint(endpoint)


def _close_endpoint(endpoint: Endpoint) -> None:
    for connection in endpoint.accepted:
        connection.close()
    endpoint.datagrams.close()
    endpoint.listener.close()
    os.close(endpoint.namespace)


def _configure_router_side(router: IPRoute, interface: str, address: str, namespace: int) -> None:
    router.link("add", ifname=interface, kind="veth", peer={"ifname": "eth0", "net_ns_fd": namespace})
    index = router.link_lookup(ifname=interface)[0]
    router.addr("add", index=index, address=OBSERVER_ADDRESS, prefixlen=32)
    router.link("set", index=index, state="up")
    router.route("add", dst=f"{address}/32", oif=index)


def _configure_node_side(address: str) -> None:
    with IPRoute() as ends:
        ends.link("set", index=1, state="up")
        index = ends.link_lookup(ifname="eth0")[0]
        ends.addr("add", index=index, address=address, prefixlen=32)
        ends.link("set", index=index, state="up")
        ends.route("add", dst=f"{OBSERVER_ADDRESS}/32", oif=index, scope=_SCOPE_LINK)
        ends.route("add", dst="default", gateway=OBSERVER_ADDRESS, oif=index)


def datagram_socket(address: str, port: int) -> socket.socket:
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.setblocking(False)
    datagrams.bind((address, port))
    return datagrams
