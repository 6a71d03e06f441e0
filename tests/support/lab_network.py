"""The lab's real network without Kafka: a child process enters new namespaces and builds it there.

Nothing needs to be cleaned up: when the child ends the kernel takes everything back. As root the same work is done a
second time the rootless way, by a child that has become an ordinary user first.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import socket
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from pyroute2 import IPRoute
from pyroute2.netlink.nfnetlink import nftsocket
from pyroute2.nftables.expressions import genex, verdict
from pyroute2.nftables.main import NFTables

from ackproof.host import namespaces as kernel
from ackproof.lab.audit_log import Events
from ackproof.lab.cluster import Cluster
from ackproof.lab.directory import LabDirectory
from ackproof.lab.faults.active import ActiveFault, Lab
from ackproof.lab.faults.injection import Injection, inject
from ackproof.lab.network import probes
from ackproof.lab.network.nftables import TABLE, Match
from ackproof.lab.network.router import Network
from ackproof.lab.spec import LabSpec
from ackproof.lab.topology import Link
from ackproof.model.fault import AnyFault
from tests.support.proving import size
from tests.support.skips import cannot_run

T = TypeVar("T")

NODES = ("kafka1", "kafka2", "kafka3", "client")
ANOTHER_UID = 65534
SECONDS_MAX = size(60, 600)
_PR_SET_DUMPABLE = 4
_ACCEPT, _META_L4PROTO = 1, 16  # of nftables
_HEADERS_BYTES = 20  # of netlink, and of nftables; the latter holds the generation
_LASTING = ("NFTA_SET_ELEM_KEY", "NFTA_SET_ELEM_TIMEOUT")  # of an element


class NoNamespaces(Exception):
    pass


def in_a_lab_network(work: Callable[[Network], T], *, rootless: bool | None = None) -> T:
    """Do `work` in a new network of four nodes, as root or `rootless` (default: as we are), and return its outcome."""
    outcome = in_a_child(lambda: work(_enter(os.getuid() != 0 if rootless is None else rootless)))
    if isinstance(outcome, NoNamespaces):
        cannot_run(str(outcome))
    if isinstance(outcome, BaseException):
        raise outcome
    result: T = outcome
    return result


def in_a_child(work: Callable[[], Any], seconds_max: int = SECONDS_MAX) -> Any:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds_max)
        with open(writing, "wb") as results:  # noqa: PTH123  # a descriptor, not a path
            results.write(_pickled(work))
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as results:  # noqa: PTH123
        data = results.read()
    _, status = os.waitpid(child, 0)
    if not data:
        raise AssertionError(f"the child ended with {os.waitstatus_to_exitcode(status)} and without a word")
    return pickle.loads(data)  # noqa: S301  # from our own child


def _pickled(work: Callable[[], Any]) -> bytes:
    try:
        return pickle.dumps(work())
    except BaseException as problem:  # noqa: BLE001  # it is raised again on the other side
        told = "".join(traceback.format_exception(problem))
        try:
            problem.add_note(told)
            pickle.loads(pickle.dumps(problem))  # noqa: S301  # not everything that pickles comes back
            return pickle.dumps(problem)
        except Exception:  # noqa: BLE001
            return pickle.dumps(AssertionError(told))


def _enter(rootless: bool) -> Network:
    if rootless and os.getuid() == 0:
        os.setgroups([])
        os.setgid(ANOTHER_UID)
        os.setuid(ANOTHER_UID)
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # otherwise its /proc/self still belongs to root
    kernel.die_with_parent(signal.SIGKILL)
    uid, gid = os.getuid(), os.getgid()
    try:
        if rootless:
            kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET)
            kernel.map_root(uid, gid)
        else:
            kernel.unshare(kernel.CLONE_NEWNET)
    except OSError as problem:
        raise NoNamespaces(f"namespaces are not allowed here: {problem}") from problem
    network = Network()
    for number, name in enumerate(NODES, start=1):
        network.attach(name, f"198.18.1.{number}")
    # The kernel opens the router's side of a new link a little later, and drops what comes before.
    wait_until(lambda: probes.observer_reaches(network, NODES) == set(NODES), "every node is reached")
    return network


@contextmanager
def injected(network: Network, fault: AnyFault) -> Iterator[ActiveFault]:
    """Inject a lasting fault at nodes of the network that are names without a program, and mend it."""
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(network, Events(Path(folder) / "events.jsonl"))
        lab.cluster = cast(Cluster, SimpleNamespace(state=SimpleNamespace(spec=LabSpec(kafka="3.9.2"))))
        (active,) = inject(Injection(lab, cast(LabDirectory, None)), fault).active
        try:
            yield active
        finally:
            lab.mend(active.name)


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 10) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s} s until {what}"
        time.sleep(0.01)


# -- behind the lab's back -------------------------------------------------------------------------------------------


def remove_rules(network: Network, fault: str | None = None) -> None:
    """Remove all rules that mark packets. The sets stay, with their elements and counters."""
    with NFTables(nfgen_family=2) as nft:
        for rule in nft.get_rules():
            if rule.get_attr("NFTA_RULE_CHAIN") == "mark" and (fault is None or fault in str(rule)):
                nft.rule("del", table=TABLE, chain="mark", handle=rule.get_attr("NFTA_RULE_HANDLE"))


def remove_table(_: Network) -> None:
    with NFTables(nfgen_family=2) as nft:
        nft.table("del", name=TABLE)


def let_connections_through(_: Network | None) -> None:
    """Do what `nft insert rule ackproof act meta l4proto tcp accept` does: all of TCP passes, and no datagram."""
    tcp = [
        genex("meta", {"key": _META_L4PROTO, "dreg": 1}),
        genex("cmp", {"sreg": 1, "op": 0, "data": _value(bytes([socket.IPPROTO_TCP]))}),
    ]
    with NFTables(nfgen_family=2) as nft:
        nft.rule("insert", table=TABLE, chain="act", expressions=(tcp, verdict(_ACCEPT)))


def let_connections_through_for_a_moment(network: Network) -> None:
    before = rule_set(network)
    let_connections_through(network)
    with NFTables(nfgen_family=2) as nft:
        first = next(rule for rule in nft.get_rules() if rule.get_attr("NFTA_RULE_CHAIN") == "act")
        nft.rule("del", table=TABLE, chain="act", handle=first.get_attr("NFTA_RULE_HANDLE"))
    assert rule_set(network) == before


def remove_links(network: Network, fault: str, links: list[Link], port: int | None = None) -> None:
    match, _ = network.cuts[fault]
    keys = [_key(network, link, port or match.port) for link in links]
    elements = [{"attrs": [("NFTA_SET_ELEM_KEY", _value(key))]} for key in keys]
    fields = {"table": TABLE, "set": fault, "elements": elements}
    with NFTables(nfgen_family=2) as nft:
        nft._command(nftsocket.nft_set_elem_list_msg, {"del": nftsocket.NFT_MSG_DELSETELEM}, "del", fields)


def move_to_port(network: Network, fault: str, links: list[Link], port: int) -> None:
    """Change the fault's rules so that they match the same links, but another port."""
    remove_links(network, fault, links)
    addresses = [(network.endpoints[a].address, network.endpoints[b].address) for a, b in links]
    network.rules.fill(fault, Match(port=port), addresses, None)


def _value(data: bytes) -> dict[str, Any]:
    return {"attrs": [("NFTA_DATA_VALUE", data)]}


def _key(network: Network, link: Link, port: int | None) -> bytes:
    addresses = b"".join(bytes(map(int, network.endpoints[name].address.split("."))) for name in link)
    return addresses if port is None else addresses + port.to_bytes(2, "big") + b"\0\0"


def rule_set(network: Network) -> list[str]:
    """Return every rule in the kernel to the last byte, and what queues packets at each end of a link.

    What counts packets or time is left out, and so is the generation, which only counts changes.
    """
    found = []
    with NFTables(nfgen_family=socket.AF_UNSPEC) as nft:
        for each in (*nft.get_tables(), *nft.get_chains(), *nft.get_rules(), *nft.get_sets()):
            message = each.data[each.offset + _HEADERS_BYTES : each.offset + each.length]
            found.append(f"{each['nfgen_family']} {each['attrs'][:2]}: {message.hex()}")
            if name := each.get_attr("NFTA_SET_NAME"):
                elements = set_elements(each["nfgen_family"], each.get_attr("NFTA_SET_TABLE"), name)
                found += sorted(f"in {name}: {[element.get_attr(part) for part in _LASTING]}" for element in elements)
    found += _queues()
    for node, endpoint in network.endpoints.items():
        with kernel.inside(endpoint.namespace):
            found += [f"{node}: {queue}" for queue in _queues()]
    return found


def _queues() -> list[str]:
    with IPRoute() as links:
        queues = links.get_qdiscs()
    words, attributes = ("index", "handle", "parent"), ("TCA_KIND", "TCA_OPTIONS")
    return [f"queue {[*(each[word] for word in words), *map(each.get_attr, attributes)]}" for each in queues]


def set_elements(family: int, table: str, name: str) -> list[Any]:
    with NFTables(nfgen_family=family) as nft:

        async def collect() -> list[Any]:
            message = nftsocket.nft_set_elem_list_msg()
            message["attrs"] = [["NFTA_SET_ELEM_LIST_TABLE", table], ["NFTA_SET_ELEM_LIST_SET", name]]
            answer = await nft.asyncore.request_get(message, nftsocket.NFT_MSG_GETSETELEM)
            return [part async for part in answer]

        parts = nft._run_with_cleanup(collect)
    return [element for part in parts for element in part.get_attr("NFTA_SET_ELEM_LIST_ELEMENTS") or []]
