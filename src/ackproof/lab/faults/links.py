"""Severs links, wholly or in part, and proves it.

A link counts as severed when the fault's **own** rule counted the probe's packet and the packet did not arrive, while
the observer reaches both ends and an untouched direction, port, pair or connection still gets through:

    cut, partition          a datagram on each link, in its direction; an untouched pair still gets through
    cut --port P            datagrams to and from P are counted; another port of the same pair gets through
    cut --new-connections   the opening packet is counted; a connection from before still carries data
    cut --reset             the opening packet is counted and answered at once: refused
    flaky                   each datagram either arrived or was counted, in about the share asked for
"""

from __future__ import annotations

import errno
import math
import select
import socket
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing, contextmanager

from ackproof.core.errors import NotProved
from ackproof.lab.faults.proof import FaultProof
from ackproof.lab.network import probes
from ackproof.lab.network.nftables import Match
from ackproof.lab.network.router import PROBE_PORT, Network
from ackproof.lab.topology import Link

_PATIENCE_S = 1.0
_CONNECT_S = 5.0  # the kernel asks again after one second, if the first packet was lost
_LOSSES_WANTED = 60  # enough for the share to be seen, few enough to take no time
_PROBES_MAX = 20_000
_PROOF_S = 3.0  # more than a proof takes: a fault must not end by itself before its time counts
_SIGMAS = 6
# To a Kafka broker this opens a message of 64 KB, so that it patiently takes the single bytes that follow as its body.
_UNFINISHED_MESSAGE = b"\x00\x00\xff\xff"


@contextmanager
def severed(
    network: Network, fault: str, links: Collection[Link], match: Match, for_s: float | None = None
) -> Iterator[FaultProof]:
    """Cut the links. With `for_s` the kernel itself ends it, counted from the moment it was proved."""
    with ExitStack() as stack:
        network.expect_only_our_rules()
        old = _old_connections(stack, network, links, match) if match.new_connections else {}
        network.sever(fault, links, match, None if for_s is None else for_s + _PROOF_S)
        stack.callback(network.mend, fault)

        def prove() -> str:
            proved = _prove_severed(network, fault, links, match, old)
            network.expect_only_our_rules()
            return proved

        proved = prove()
        if for_s is not None:
            network.retime(fault, for_s)
        yield FaultProof(proved, prove, lambda: prove_open(network, links, match))


def prove_open(network: Network, links: Collection[Link], match: Match) -> str:
    """After mending: every link that no other fault touches lets a datagram through, and a connection where it was
    connections that were cut."""
    with network.lock:
        network.expect_only_our_rules()
        touched = network.touched_by_others(None)
        clean = sorted(link for link in links if link not in touched)
        if not clean:
            return "mended; other faults still stand on all its links"
        port = PROBE_PORT if match.port is None else match.port
        trial = probes.try_links(network, clean, port=port, copies=1)
        if missing := [link for link in clean if not trial.arrived.get(link)]:
            raise NotProved(f"healed, but nothing gets through: {_words(missing)}")
        if match.new_connections or match.reset:
            for link in (link for link in clean if link[::-1] not in touched):
                with probes.served(network, link[1], port), closing(probes.connect(network, link, port)):
                    pass
    return f"{_count(clean)} open again: a datagram arrived on each"


# -- severed links ---------------------------------------------------------------------------------------------------


def _prove_severed(
    network: Network, fault: str, links: Collection[Link], match: Match, old: dict[Link, socket.socket]
) -> str:
    with network.lock:
        standing = network.taken(fault)
        if gone := sorted(set(links) - set(standing)):
            raise NotProved(f"these links are open again, although the fault is active: {_words(gone)}")
        ends = {name for link in links for name in link}
        if deaf := ends - probes.observer_reaches(network, ends):
            raise NotProved(f"the observer does not reach {', '.join(sorted(deaf))}, so silence there proves nothing")
        if match.loss is not None:
            return _prove_loss(network, fault, links, match.loss)
        if match.new_connections or match.reset:
            return _prove_refusal(network, fault, links, match, old)
        return _prove_silence(network, fault, links, match)


def _prove_silence(network: Network, fault: str, links: Collection[Link], match: Match) -> str:
    if match.port is None:
        _expect_counted(network, fault, links)
        return (
            f"{_count(links)} severed, each probe counted by the rule, none arrived; {_untouched_pair(network, links)}"
        )
    _expect_counted(network, fault, links, port=match.port)
    _expect_counted(network, fault, links, source_port=match.port)
    other = PROBE_PORT if match.port != PROBE_PORT else PROBE_PORT + 1
    clean = [link for link in links if link not in network.touched_by_others(fault)]
    trial = probes.try_links(network, clean, port=other, source_port=other)
    if blocked := [link for link in clean if not trial.arrived.get(link)]:
        raise NotProved(f"port {match.port} is cut, but every other port is cut too: {_words(blocked)}")
    beside = "another port of the same pair still gets through" if clean else "another fault stands on the same pairs"
    return f"{_count(links)} severed for port {match.port}, each probe counted by the rule, none arrived; {beside}"


def _expect_counted(network: Network, fault: str, links: Collection[Link], **ports: int) -> None:
    trial = probes.try_links(network, links, fault=fault, **ports)
    if leaking := sorted(link for link in links if trial.arrived.get(link)):
        raise NotProved(f"still reachable: {_words(leaking)}")
    if uncounted := sorted(link for link in links if not trial.counted.get(link)):
        raise NotProved(f"a probe did not arrive, and the rule did not count it: {_words(uncounted)}")


def _untouched_pair(network: Network, links: Collection[Link]) -> str:
    touched = network.touched_by_others(None)
    names = network.names()
    free = [(a, b) for a in names for b in names if a != b and (a, b) not in touched]
    if not free:
        return "no pair is left untouched to compare with, but the observer reaches every end"
    # The reverse of a one-way cut says most, then a pair with the node that lost the most links.
    losses = Counter(name for link in links for name in link)
    pair = min(free, key=lambda link: (link[::-1] not in links, -losses[link[0]] - losses[link[1]], link))
    if not probes.try_links(network, [pair]).arrived:
        raise NotProved(f"more links are cut than requested: {_words([pair])} does not get through either")
    return f"{pair[0]} → {pair[1]} still gets through"


def _prove_loss(network: Network, fault: str, links: Collection[Link], share: float) -> str:
    clean = [link for link in links if link not in network.touched_by_others(fault)]
    tried = clean or links  # where others cut too, what this fault lets pass does not arrive: nothing to wait for
    copies = max(10, math.ceil(min(_PROBES_MAX, _LOSSES_WANTED / share) / len(tried)))
    patience_s = 2 * _PATIENCE_S if clean else 0.05
    trial = probes.try_links(network, tried, fault=fault, copies=copies, patience_s=patience_s)
    if odd := [link for link in clean if not trial.accounted(link)]:
        raise NotProved(f"probes did not arrive, and the rule did not count them: {_words(odd)}")
    # The rule counts what others send there too: how many probes it took is known by those that arrived, and where none
    # can arrive, only that it took enough.
    sent, taken = copies * len(tried), sum(min(copies, trial.counted.get(link, 0)) for link in tried)
    lost = sent - sum(trial.arrived.values()) if clean else taken
    spread = max(1, _SIGMAS * math.sqrt(sent * share * (1 - share)))
    if lost < sent * share - spread or (clean and lost > sent * share + spread):
        raise NotProved(f"of {sent} probes {lost} were lost, which is not {share:.2%}")
    return f"of {sent} probes on {_count(tried)} {lost} were lost, each counted by the rule ({lost / sent:.1%})"


# -- connections -----------------------------------------------------------------------------------------------------


def _old_connections(
    stack: ExitStack, network: Network, links: Collection[Link], match: Match
) -> dict[Link, socket.socket]:
    """A connection on each link, made before the fault, where no other fault stands in either direction."""
    port = PROBE_PORT if match.port is None else match.port
    touched = network.touched_by_others(None)
    old = {}
    for link in links:
        if link not in touched and link[::-1] not in touched:
            # A stand-in listens only until it is connected: the node may want its port while the fault stands.
            with probes.served(network, link[1], port) as stand_in:
                old[link] = stack.enter_context(closing(probes.connect(network, link, port, _CONNECT_S)))
                if stand_in is not None:
                    stack.enter_context(closing(stand_in.accept()[0]))
            old[link].send(_UNFINISHED_MESSAGE)
    return old


def _prove_refusal(
    network: Network, fault: str, links: Collection[Link], match: Match, old: dict[Link, socket.socket]
) -> str:
    """The opening packet is counted, and the connection does not come about: by silence, or by a reset."""
    port = PROBE_PORT if match.port is None else match.port
    touched = network.touched_by_others(fault)
    with ExitStack() as stack:
        attempts = {}
        for link in links:
            stack.enter_context(probes.served(network, link[1], port))
            attempts[link] = stack.enter_context(closing(probes.connecting(network, link[0])))
        before = network.taken(fault)
        for link, attempt in attempts.items():
            attempt.connect_ex((network.endpoints[link[1]].address, port))
        uncounted = _wait_until_counted(network, fault, before)
        if uncounted:
            raise NotProved(f"the rule did not count a new connection: {_words(sorted(uncounted))}")
        expected = errno.ECONNREFUSED if match.reset else errno.EINPROGRESS
        for link, attempt in attempts.items():
            if link not in touched and (outcome := _outcome(attempt, match.reset)) != expected:
                raise NotProved(f"{_words([link])}: a new connection ended as {errno.errorcode.get(outcome, outcome)}")
    others = network.touched_by_others(fault)
    for link, connection in list(old.items()):
        if link in others or link[::-1] in others:
            continue  # what passes there is not this fault's doing alone
        if (state := probes.carries(connection)) == "silent":
            raise NotProved(f"a connection that was open before the fault no longer carries data: {_words([link])}")
        if state == "closed":  # by the program at the far end, whose farewell came through
            del old[link]
    what = "reset" if match.reset else "dropped"
    beside = f"{len(old)} from before still carry data" if old else _untouched_pair(network, links)
    return f"new connections on {_count(links)} {what}, each counted by the rule; {beside}"


def _wait_until_counted(network: Network, fault: str, before: dict[Link, int]) -> set[Link]:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        now = network.taken(fault)
        uncounted = {link for link, count in before.items() if now.get(link, 0) <= count}
        if not uncounted or time.monotonic() > deadline:
            return uncounted
        time.sleep(0.002)


def _outcome(attempt: socket.socket, answer_expected: bool) -> int:
    """How a connection under way stands: EINPROGRESS while nothing came back."""
    _, writable, _ = select.select([], [attempt], [], _PATIENCE_S if answer_expected else 0.01)
    if not writable:
        return errno.EINPROGRESS
    return attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


def _count(links: Collection[Link]) -> str:
    return "1 link" if len(links) == 1 else f"{len(links)} links"


def _words(links: Collection[Link]) -> str:
    shown = [f"{source} → {target}" for source, target in links]
    return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more" if len(shown) > 6 else "")
