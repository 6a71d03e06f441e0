"""Probes: measure which node reaches which node, with datagrams and with TCP connections.

The supervisor holds a datagram socket and a listening socket in the namespace of every node, so a probe
does not depend on the process of the node (`Endpoint`). A datagram tests one direction of one pair of nodes. If it does
not arrive, the counter of the rule that stops it must have counted it. A probe waits until each datagram has arrived or
was counted, so a proof takes milliseconds and needs no guess. The result holds for all packets of the same kind, and
until another process changes the rules.
"""

from __future__ import annotations

import errno
import fcntl
import secrets
import selectors
import socket
import struct
import termios
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

from ackproof.core.errors import NotProved
from ackproof.host import namespaces as kernel
from ackproof.lab.network.router import OBSERVER, PROBE_PORT, Endpoint, Network, datagram_socket
from ackproof.lab.topology import Link

_PROBE = struct.Struct("!8sI")
_SETTLE_S = 1.0
_QUIET_S = 0.03
_BURST = 64  # datagrams in flight at once: far fewer than the buffer of a socket holds


@dataclass
class ProbeResult:
    """How many of the datagrams sent on each link arrived, and how many a rule counted."""

    copies: int
    arrived: dict[Link, int] = field(default_factory=dict)
    counted: dict[Link, int] = field(default_factory=dict)

    def accounted(self, link: Link) -> bool:
        return self.arrived.get(link, 0) + self.counted.get(link, 0) >= self.copies


class _Datagrams:
    """The datagrams of one probe: each carries the probe's random tag and the number of its link."""

    def __init__(self, links: Sequence[Link], receivers: Mapping[str, socket.socket], copies: int) -> None:
        self._links = links
        self._receivers = receivers
        self._tag = secrets.token_bytes(8)
        self.result = ProbeResult(copies)

    def packet(self, number: int) -> bytes:
        return _PROBE.pack(self._tag, number)

    def receive(self, quiet_s: float) -> None:
        """Read what has arrived, until nothing comes for `quiet_s`. Datagrams of other probes are ignored."""
        with selectors.DefaultSelector() as selector:
            for receiver in self._receivers.values():
                selector.register(receiver, selectors.EVENT_READ)
            while events := selector.select(timeout=quiet_s):
                for key, _ in events:
                    datagram = key.fileobj.recv(64)  # type: ignore[union-attr]
                    if len(datagram) == _PROBE.size:
                        tag, number = _PROBE.unpack(datagram)
                        if tag == self._tag:
                            link = self._links[number]
                            self.result.arrived[link] = self.result.arrived.get(link, 0) + 1

    def wait(self, patience_s: float, counted: Callable[[], dict[Link, int]] = dict) -> ProbeResult:
        """Wait until each datagram has arrived or was counted, at most `patience_s`."""
        deadline = time.monotonic() + patience_s
        while True:
            self.receive(quiet_s=0.002)
            self.result.counted = counted()
            if all(self.result.accounted(link) for link in self._links) or time.monotonic() > deadline:
                return self.result


# -- datagrams -------------------------------------------------------------------------------------------------------


def try_links(
    network: Network,
    links: Collection[Link],
    *,
    fault: str | None = None,
    port: int = PROBE_PORT,
    source_port: int = PROBE_PORT,
    copies: int = 1,
    patience_s: float = _SETTLE_S,
) -> ProbeResult:
    """Send `copies` datagrams on each link; wait until each has arrived or was counted by the rule of `fault`."""
    with network.lock, ExitStack() as stack:
        senders = {
            name: _datagrams_of(stack, network.endpoints[name], source_port) for name in {link[0] for link in links}
        }
        receivers = {name: _datagrams_of(stack, network.endpoints[name], port) for name in {link[1] for link in links}}
        ordered = list(links)
        datagrams = _Datagrams(ordered, receivers, copies)
        before = network.taken(fault) if fault else {}

        def counted() -> dict[Link, int]:
            now = network.taken(fault) if fault else {}
            return {link: now[link] - before.get(link, 0) for link in ordered if link in now}

        total = len(ordered) * copies
        for start in range(0, total, _BURST):
            for sent in range(start, min(start + _BURST, total)):
                number = sent % len(ordered)
                source, target = ordered[number]
                senders[source].sendto(datagrams.packet(number), (network.endpoints[target].address, port))
            datagrams.receive(quiet_s=0)
        return datagrams.wait(patience_s, counted)


def _datagrams_of(stack: ExitStack, endpoint: Endpoint, port: int) -> socket.socket:
    if port == PROBE_PORT:
        return endpoint.datagrams
    try:
        with kernel.inside(endpoint.namespace):
            return stack.enter_context(closing(datagram_socket(endpoint.address, port)))
    except OSError as problem:
        raise NotProved(
            f"port {port} of {endpoint.name} cannot be probed with datagrams: {problem.strerror}"
        ) from problem


def observer_reaches(network: Network, names: Collection[str]) -> set[str]:
    """The nodes that receive a datagram from the observer. No rule can stop it, so the other nodes have no network."""
    with network.lock:
        links = [(OBSERVER, name) for name in names]
        datagrams = _Datagrams(links, {name: network.endpoints[name].datagrams for name in names}, 1)
        for number, (_, name) in enumerate(links):
            network.observer.sendto(datagrams.packet(number), (network.endpoints[name].address, PROBE_PORT))
        return {name for _, name in datagrams.wait(_SETTLE_S).arrived}


def reachable(network: Network) -> dict[str, dict[str, bool]]:
    """Measure every ordered pair now. The list of cuts only decides how long to wait for a datagram."""
    with network.lock:
        names = network.names()
        pairs = [(source, target) for source in names for target in names if source != target]
        touched = network.touched_by_others(None)
        free = [link for link in pairs if link not in touched]
        arrived = set(try_links(network, free).arrived) if free else set()
        # A marked packet is dropped before sendto returns, or a few milliseconds later on a busy machine.
        doubtful = [link for link in pairs if link in touched]
        if doubtful:  # several datagrams each: a link that loses some of them is not cut
            arrived |= set(try_links(network, doubtful, copies=8, patience_s=_QUIET_S).arrived)
        return {a: {b: (a, b) in arrived for b in names if b != a} for a in names}


# -- connections -----------------------------------------------------------------------------------------------------


def connecting(network: Network, source: str) -> socket.socket:
    """A non-blocking TCP socket in the namespace of a node."""
    with kernel.inside(network.endpoints[source].namespace):
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    connection.setblocking(False)
    return connection


def connect(network: Network, link: Link, port: int = PROBE_PORT, timeout_s: float = 1.0) -> socket.socket:
    """A TCP connection from one node to another. OSError if it is refused, times out or finds no route."""
    connection = connecting(network, link[0])
    try:
        connection.settimeout(timeout_s)
        connection.connect((network.endpoints[link[1]].address, port))
    except OSError:
        connection.close()
        raise
    return connection


@contextmanager
def served(network: Network, name: str, port: int) -> Iterator[socket.socket | None]:
    """Make sure that a program listens on this port of this node.

    If the node itself does not listen, a stand-in does, and it is what this yields. The lock is held, so that the
    lab's own checks do not take the stand-in for a foreign program.
    """
    endpoint = network.endpoints[name]
    with network.lock, ExitStack() as stack:
        stand_in = None
        if port == PROBE_PORT:
            _accept_waiting(endpoint)
        else:
            with kernel.inside(endpoint.namespace):
                try:
                    stand_in = stack.enter_context(closing(socket.create_server((endpoint.address, port))))
                except OSError as problem:
                    if problem.errno != errno.EADDRINUSE:
                        raise
        yield stand_in


def _accept_waiting(endpoint: Endpoint) -> None:
    """Accept the connections that wait, because a full queue takes no more; close those that the far end closed."""
    with suppress(BlockingIOError):
        while True:
            endpoint.accepted.append(endpoint.listener.accept()[0])
    endpoint.accepted[:] = [connection for connection in endpoint.accepted if not _closed(connection)]


def _closed(connection: socket.socket) -> bool:
    """Whether the far end has closed the connection. If so, close this end too."""
    connection.setblocking(False)
    with suppress(OSError):
        try:
            while connection.recv(1024):
                pass
        except BlockingIOError:
            return False
    connection.close()
    return True


def carries(connection: socket.socket, patience_s: float = _SETTLE_S) -> Literal["carries", "closed", "silent"]:
    """Whether the far end's kernel acknowledges a byte sent now. The program there need not read it."""
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
