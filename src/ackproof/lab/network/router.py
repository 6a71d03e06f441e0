"""The lab's network: one namespace per node, each joined by a veth pair to a router that is the lab itself.

The nodes are joined by a router, not by a bridge: all packets between two nodes then pass one forward hook, so that
every rule stands in one place and can count, reset and look at ports, and no link-local traffic passes beside it. What
the router itself sends passes no forward hook at all: the supervisor, who lives there, is the observer that no fault
can touch.

Probing: the supervisor holds a datagram socket and a listening socket in every node's namespace, whatever the node's
process does. A datagram tries one direction of one pair; where it does not arrive, a rule's own counter must have
counted it. Both are looked for until each probe is accounted for, so a proof takes milliseconds and never a guess.
What holds for a datagram holds for all that passes, and since the last probe, as long as nobody else changed the rules.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import selectors
import socket
import struct
import termios
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from pyroute2 import IPRoute, NetlinkError

from ackproof.core.errors import CannotHere, NotProved
from ackproof.host import namespaces as kernel
from ackproof.lab.network.nftables import Match, Rules
from ackproof.lab.spec import OBSERVER_ADDRESS
from ackproof.lab.topology import Link

PROBE_PORT = 7
OBSERVER = "observer"
NOT_ONLY_OURS = (
    "somebody else changed the packet rules of the lab: what they let pass is not known, until a new lab is up"
)
T = TypeVar("T")
_PROBE = struct.Struct("!8sI")
_SCOPE_LINK = 253
_SETTLE_S = 1.0
_QUIET_S = 0.03
_BURST = 64  # datagrams under way at once: far below what a socket's buffer holds


@dataclass(frozen=True)
class Endpoint:
    """One node's end: its namespace, and the supervisor's own sockets in it."""

    name: str
    address: str
    namespace: int
    interface: str
    datagrams: socket.socket
    listener: socket.socket
    accepted: list[socket.socket] = field(default_factory=list)


@dataclass
class Trial:
    """What became of the datagrams sent on each link."""

    copies: int
    arrived: dict[Link, int] = field(default_factory=dict)
    counted: dict[Link, int] = field(default_factory=dict)

    def accounted(self, link: Link) -> bool:
        return self.arrived.get(link, 0) + self.counted.get(link, 0) >= self.copies


@contextmanager
def network_here() -> Iterator[None]:
    """What the kernel refuses of a network is this machine's lack; of one too many it says that no space is left."""
    try:
        yield
    except (OSError, NetlinkError) as problem:
        raise CannotHere(
            f"this machine cannot make a lab's network ({problem}): `ackproof doctor` says what to do"
        ) from problem


class Network:
    """Made by the supervisor in its own, new network namespace. `lock` keeps probes and rules of two verbs apart."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.endpoints: dict[str, Endpoint] = {}
        self.cuts: dict[str, tuple[Match, frozenset[Link]]] = {}
        self.router_namespace = kernel.own_network()
        # pyroute2 keeps a socket for every thread that ever asked, and every verb is a thread: so one asks for all.
        self._netlink = ThreadPoolExecutor(1, thread_name_prefix="netlink")
        self._router = self._ask(IPRoute)
        self._ask(lambda: self._router.link("set", index=1, state="up"))
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        self.rules = self._ask(Rules)
        self._observer = _datagram_socket("0.0.0.0", 0)  # noqa: S104  # inside the lab alone
        self._names: dict[str, str] = {}

    def _ask(self, question: Callable[[], T]) -> T:
        return self._netlink.submit(question).result()

    # -- nodes ---------------------------------------------------------------------------------------------------

    def attach(self, name: str, address: str) -> None:
        """Give a node its namespace, its address, and its way to the router."""
        interface = f"to-{name}"[:15]
        namespace = kernel.new_network()
        with self.lock:
            self._ask(lambda: _configure_router_side(self._router, interface, address, namespace))
            with kernel.inside(namespace):
                _configure_node_side(address)
                datagrams = _datagram_socket(address, PROBE_PORT)
                listener = socket.create_server((address, PROBE_PORT), backlog=64)
                listener.setblocking(False)
            self.endpoints[name] = Endpoint(name, address, namespace, interface, datagrams, listener)
            self._names[address] = name

    def detach(self, name: str) -> None:
        """Take a node's end away again; its namespace goes with its last process."""
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
        """Let the time of a fault count from now."""
        with self.lock:
            match, links = self.cuts[fault]
            addresses = [self._addresses(link) for link in links]
            self._ask(lambda: self.rules.fill(fault, match, addresses, timeout_s))

    def left_s(self, fault: str) -> float | None:
        """How long the kernel will still hold this fault; None where it has no end."""
        with self.lock:
            return self._ask(lambda: self.rules.left_s(fault))

    def mend(self, fault: str) -> None:
        with self.lock:
            self.cuts.pop(fault, None)
            if fault in self._ask(self.rules.names):
                self._ask(lambda: self.rules.remove(fault))

    def taken(self, fault: str) -> dict[Link, int]:
        """The links this fault severs now, as the kernel says, each with the packets it has taken."""
        with self.lock:
            try:
                counts = self._ask(lambda: self.rules.counted(fault))
            except NetlinkError as problem:
                if problem.code != errno.ENOENT:
                    raise
                return {}  # the whole set is gone, so it severs nothing
            names = self._names
            return {
                (names[source], names[target]): count
                for (source, target), count in counts.items()
                if source in names and target in names  # a node that was taken away has no links
            }

    def touched_by_others(self, fault: str | None) -> frozenset[Link]:
        """Links on which some other fault stands, so that what happens there is not this fault's doing alone."""
        with self.lock:
            return frozenset(link for name, (_, links) in self.cuts.items() if name != fault for link in links)

    def expect_only_our_rules(self) -> None:
        """NotProved from the moment on at which somebody else changed a rule: it may let through what no probe is."""
        with self.lock:
            if not self._ask(self.rules.only_ours):
                raise NotProved(NOT_ONLY_OURS)

    def _addresses(self, link: Link) -> tuple[str, str]:
        return self.endpoints[link[0]].address, self.endpoints[link[1]].address

    # -- delay: netem, at both ends of a node's link ---------------------------------------------------------------

    def delay(self, name: str, delay_ms: float) -> None:
        """Half of the delay towards the node, half on the way back. OSError where the kernel has no netem."""
        endpoint = self.endpoints[name]
        half_us = round(delay_ms * 1000 / 2)
        with self.lock:
            self._ask(lambda: _add_delay(self._router, endpoint.interface, half_us))
            try:
                with kernel.inside(endpoint.namespace), IPRoute() as node_side:
                    _add_delay(node_side, "eth0", half_us)
            except OSError:
                self.undelay(name)
                raise

    def undelay(self, name: str) -> None:
        endpoint = self.endpoints[name]
        with self.lock:
            drop_delay(endpoint.interface, endpoint.namespace)

    def delayed_ends(self, name: str) -> list[str]:
        """Which ends of a node's link hold packets back."""
        endpoint = self.endpoints[name]
        with self.lock, kernel.inside(endpoint.namespace), IPRoute() as node_side:
            ends = {
                "router": self._ask(lambda: _has_delay(self._router, endpoint.interface)),
                "node": _has_delay(node_side, "eth0"),
            }
        return [end for end, is_delayed in ends.items() if is_delayed]

    # -- datagrams: one direction of one pair ------------------------------------------------------------------------

    def try_links(
        self,
        links: Collection[Link],
        *,
        fault: str | None = None,
        port: int = PROBE_PORT,
        source_port: int = PROBE_PORT,
        copies: int = 1,
        patience_s: float = _SETTLE_S,
    ) -> Trial:
        """Send `copies` datagrams on each link; wait until each has arrived or was counted by the fault's own rule."""
        with self.lock, ExitStack() as stack:
            senders = {name: self._datagrams(stack, name, source_port) for name in {link[0] for link in links}}
            receivers = {name: self._datagrams(stack, name, port) for name in {link[1] for link in links}}
            before = self.taken(fault) if fault else {}
            trial = Trial(copies)
            nonce, ordered = secrets.token_bytes(8), list(links)
            for start in range(0, len(ordered) * copies, _BURST):
                for shot in range(start, min(start + _BURST, len(ordered) * copies)):
                    number = shot % len(ordered)
                    source, target = ordered[number]
                    senders[source].sendto(_PROBE.pack(nonce, number), (self.endpoints[target].address, port))
                _collect(receivers, nonce, ordered, trial, quiet_s=0)
            self._account(trial, ordered, receivers, nonce, fault, before, patience_s)
            return trial

    def _account(
        self,
        trial: Trial,
        links: list[Link],
        receivers: Mapping[str, socket.socket],
        nonce: bytes,
        fault: str | None,
        before: Mapping[Link, int],
        patience_s: float,
    ) -> None:
        deadline = time.monotonic() + patience_s
        while True:
            _collect(receivers, nonce, links, trial, quiet_s=0.002)
            if fault:
                now = self.taken(fault)
                trial.counted = {link: now[link] - before.get(link, 0) for link in links if link in now}
            if all(trial.accounted(link) for link in links) or time.monotonic() > deadline:
                return

    def _datagrams(self, stack: ExitStack, name: str, port: int) -> socket.socket:
        endpoint = self.endpoints[name]
        if port == PROBE_PORT:
            return endpoint.datagrams
        try:
            with kernel.inside(endpoint.namespace):
                return stack.enter_context(closing(_datagram_socket(endpoint.address, port)))
        except OSError as problem:
            raise NotProved(f"port {port} of {name} cannot be probed with datagrams: {problem.strerror}") from problem

    def observer_reaches(self, names: Collection[str]) -> set[str]:
        """Nodes whose end of the network is alive: the router's own datagrams, which no rule can touch, arrive."""
        with self.lock:
            nonce, ordered = secrets.token_bytes(8), [(OBSERVER, name) for name in names]
            for number, (_, name) in enumerate(ordered):
                self._observer.sendto(_PROBE.pack(nonce, number), (self.endpoints[name].address, PROBE_PORT))
            trial = Trial(1)
            self._account(
                trial, ordered, {name: self.endpoints[name].datagrams for name in names}, nonce, None, {}, _SETTLE_S
            )
            return {name for _, name in trial.arrived}

    def reachable(self) -> dict[str, dict[str, bool]]:
        """Every ordered pair, measured now. What is remembered of cuts decides only how long to wait."""
        with self.lock:
            names = self.names()
            pairs = [(source, target) for source in names for target in names if source != target]
            touched = self.touched_by_others(None)
            free = [link for link in pairs if link not in touched]
            arrived = set(self.try_links(free).arrived) if free else set()
            # A marked packet is dropped before sendto returns, or a few milliseconds later on a busy machine.
            doubtful = [link for link in pairs if link in touched]
            # Several to each: one that is only flaky is not cut.
            arrived |= set(self.try_links(doubtful, copies=8, patience_s=_QUIET_S).arrived) if doubtful else set()
            return {a: {b: (a, b) in arrived for b in names if b != a} for a in names}

    # -- connections ---------------------------------------------------------------------------------------------

    def connecting(self, source: str) -> socket.socket:
        """A TCP socket in a node's namespace that does not wait."""
        with kernel.inside(self.endpoints[source].namespace):
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.setblocking(False)
        return connection

    def connect(self, link: Link, port: int = PROBE_PORT, timeout_s: float = 1.0) -> socket.socket:
        """A TCP connection from one node to another, or OSError: refused, timed out, unreachable."""
        connection = self.connecting(link[0])
        try:
            connection.settimeout(timeout_s)
            connection.connect((self.endpoints[link[1]].address, port))
        except OSError:
            connection.close()
            raise
        return connection

    @contextmanager
    def served(self, name: str, port: int) -> Iterator[socket.socket | None]:
        """Something listens on this port of this node: the node itself or, where it does not, the stand-in given, which
        nobody who holds the lock takes for somebody else."""
        endpoint = self.endpoints[name]
        with self.lock, ExitStack() as stack:
            stand_in = None
            if port == PROBE_PORT:
                self._accept_waiting(endpoint)
            else:
                with kernel.inside(endpoint.namespace):
                    try:
                        stand_in = stack.enter_context(closing(socket.create_server((endpoint.address, port))))
                    except OSError as problem:
                        if problem.errno != errno.EADDRINUSE:
                            raise
            yield stand_in

    def _accept_waiting(self, endpoint: Endpoint) -> None:
        """Nobody else does, and a queue that is full takes no more connections. Those that are over are let go."""
        with self.lock:
            with suppress(BlockingIOError):
                while True:
                    endpoint.accepted.append(endpoint.listener.accept()[0])
            endpoint.accepted[:] = [connection for connection in endpoint.accepted if not _let_go(connection)]

    def close(self) -> None:
        self._ask(self.rules.close)
        self._ask(self._router.close)
        self._netlink.shutdown()
        self._observer.close()
        for endpoint in self.endpoints.values():
            _close_endpoint(endpoint)


def _let_go(connection: socket.socket) -> bool:
    """Whether the far end has closed it; then so do we."""
    connection.setblocking(False)
    with suppress(OSError):
        try:
            while connection.recv(1024):
                pass
        except BlockingIOError:
            return False
    connection.close()
    return True


def _close_endpoint(endpoint: Endpoint) -> None:
    for connection in endpoint.accepted:
        connection.close()
    endpoint.datagrams.close()
    endpoint.listener.close()
    os.close(endpoint.namespace)


def carries(connection: socket.socket, patience_s: float = _SETTLE_S) -> Literal["carries", "closed", "silent"]:
    """Whether the far end's kernel acknowledges a byte sent now: data passes, whatever the far program does with it."""
    connection.setblocking(False)
    try:
        if connection.recv(1024) == b"":
            return "closed"
    except BlockingIOError:
        pass
    except OSError:
        return "closed"
    connection.send(b"\xff")
    deadline = time.monotonic() + patience_s
    while True:
        (unacknowledged,) = struct.unpack("i", fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, b"\0" * 4))
        if unacknowledged == 0:
            return "carries"
        if time.monotonic() > deadline:
            return "silent"
        time.sleep(0.001)


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


def _add_delay(side: IPRoute, interface: str, delay_us: int) -> None:
    try:
        side.tc("add", "netem", side.link_lookup(ifname=interface)[0], "1:", delay=delay_us)
    except NetlinkError as problem:
        raise OSError(problem.code, "this kernel has no netem") from problem


def _has_delay(side: IPRoute, interface: str) -> bool:
    queues = side.get_qdiscs(side.link_lookup(ifname=interface)[0])
    return any(queue.get_attr("TCA_KIND") == "netem" for queue in queues)


def drop_delay(interface: str, namespace: int) -> None:
    """Absent is as good as removed: a watchdog may have been first."""
    with suppress(NetlinkError), IPRoute() as router:
        router.tc("del", "netem", router.link_lookup(ifname=interface)[0], "1:")
    with suppress(NetlinkError), kernel.inside(namespace), IPRoute() as node_side:
        node_side.tc("del", "netem", node_side.link_lookup(ifname="eth0")[0], "1:")


def _datagram_socket(address: str, port: int) -> socket.socket:
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.setblocking(False)
    datagrams.bind((address, port))
    return datagrams


def _collect(
    receivers: Mapping[str, socket.socket], nonce: bytes, links: list[Link], trial: Trial, quiet_s: float
) -> None:
    """Take in what has arrived, until nothing came for `quiet_s`. A stale or foreign datagram is not ours to count."""
    with selectors.DefaultSelector() as selector:
        for receiver in receivers.values():
            selector.register(receiver, selectors.EVENT_READ)
        while events := selector.select(timeout=quiet_s):
            for key, _ in events:
                datagram = key.fileobj.recv(64)  # type: ignore[union-attr]
                if len(datagram) == _PROBE.size:
                    seen, number = _PROBE.unpack(datagram)
                    if seen == nonce:
                        link = links[number]
                        trial.arrived[link] = trial.arrived.get(link, 0) + 1
