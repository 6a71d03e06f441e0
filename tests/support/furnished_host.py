"""A host that labs must leave as it was: namespaces with links, rules and mounts of other programs.

`standing` tells all of it to the last byte: links, addresses, routes, rules and sets of every family, mounts, and a
named namespace that has the same once more.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.nfnetlink import nftsocket
from pyroute2.nftables.expressions import genex, verdict
from pyroute2.nftables.main import NFTables

from ackproof.host import namespaces as kernel
from ackproof.lab.network.nftables import TABLE, Match, Rules
from tests.support.lab_network import SECONDS_MAX, NoNamespaces, in_a_child, set_elements, wait_until
from tests.support.skips import cannot_run

NAMED = Path("/run/netns/theirs")
FAMILIES = {"inet": 1, "ip": 2, "ip6": 10}
OTHERS = (
    ["nft", "-n", "list", "ruleset"],
    ["iptables-save", "-c"],
    ["ip6tables-save", "-c"],
)  # those of them that are installed
HEADER_BYTES = 16  # of a message of the kernel; it holds the number of the process that asked


def furnish() -> None:
    """Set up links, rules and mounts of another program that also uses a table of our name and an address of ours."""
    Path("/proc/sys/net/ipv6/conf/default/accept_dad").write_text(
        "0"
    )  # an address is usable at once, and does not change later
    with IPRoute() as routes:
        routes.link("set", index=1, state="up")
        routes.link("add", ifname="kafka1", kind="bridge")
        (index,) = routes.link_lookup(ifname="kafka1")
        routes.addr("add", index=index, address="198.18.1.1", prefixlen=24)
        routes.addr("add", index=index, address="fd00::1", prefixlen=64)
        routes.link("set", index=index, state="up")
        wait_until(lambda: _is_settled(routes, index), "the IPv6 addresses have their routes")
    for number in FAMILIES.values():
        _add_table("theirs", number)
        if number != FAMILIES["ip"]:
            _add_table(TABLE, number)
    rules = Rules()
    rules.add("f1", Match(), [("198.18.1.1", "198.18.1.2")])
    rules.close()


def _is_settled(routes: IPRoute, index: int) -> bool:
    """Return whether both IPv6 addresses have their local routes, which come later than the addresses."""
    addresses = {each.get_attr("IFA_ADDRESS") for each in routes.get_addr(family=socket.AF_INET6, index=index)}
    local = routes.get_routes(family=socket.AF_INET6, table=255)
    return len(addresses) == 2 and addresses <= {each.get_attr("RTA_DST") for each in local}


def _add_table(name: str, family: int) -> None:
    is_tcp = [
        genex("meta", {"key": 16, "dreg": 1}),
        genex("cmp", {"sreg": 1, "op": 0, "data": {"attrs": [("NFTA_DATA_VALUE", b"\x06")]}}),
    ]
    with NFTables(nfgen_family=family) as nft:
        nft.table("add", name=name)
        nft.chain("add", table=name, name="mark", hook="output", type="filter", policy=1)
        nft.rule("add", table=name, chain="mark", expressions=[is_tcp, verdict(1)])
        a_set = {"table": name, "name": "f1", "key_type": 7, "key_len": 4, "id": 1, "flags": set()}
        fields = {f"NFTA_SET_{field.upper()}": value for field, value in a_set.items()}
        nft._command(nftsocket.nft_set_msg, {"create": nftsocket.NFT_MSG_NEWSET}, "create", fields)
        elements = [{"attrs": [("NFTA_SET_ELEM_KEY", {"attrs": [("NFTA_DATA_VALUE", bytes([198, 18, 1, 1]))]})]}]
        fields = {"table": name, "set": "f1", "elements": elements}
        nft._command(nftsocket.nft_set_elem_list_msg, {"add": nftsocket.NFT_MSG_NEWSETELEM}, "add", fields)


def furnish_a_named_namespace() -> None:
    """Do what `ip netns add theirs` does."""
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", "/run", "tmpfs")
    NAMED.parent.mkdir()
    NAMED.touch()
    namespace = kernel.new_network()
    kernel.mount(f"/proc/self/fd/{namespace}", NAMED, flags=kernel.MS_BIND)
    with kernel.inside(namespace):
        furnish()
    os.close(namespace)


def standing() -> list[str]:
    named = os.open(NAMED, os.O_RDONLY)
    try:
        with kernel.inside(named):
            there = list(_in_this_namespace())
        number = os.fstat(named).st_ino
    finally:
        os.close(named)
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    names = sorted(each.name for each in NAMED.parent.iterdir())
    return [*_in_this_namespace(), str((names, number)), *mounts, *(f"in {NAMED.name}: {each}" for each in there)]


def _in_this_namespace() -> Iterator[str]:
    with IPRoute() as routes:
        for link in routes.get_links():
            yield str((link["index"], link.get_attr("IFLA_IFNAME"), link.get_attr("IFLA_ADDRESS"), link["flags"]))
        yield from (_without_ages(str(each["attrs"])) for each in (*routes.get_addr(), *routes.get_routes()))
    with NFTables(nfgen_family=0) as nft:
        for each in (*nft.get_tables(), *nft.get_chains(), *nft.get_rules(), *nft.get_sets()):
            message = each.data[each.offset + HEADER_BYTES : each.offset + each.length]
            yield f"{each['attrs'][0]}: {message.hex()}"
            if set_name := each.get_attr("NFTA_SET_NAME"):
                elements = set_elements(each["nfgen_family"], each.get_attr("NFTA_SET_TABLE"), set_name)
                yield f"elements: {list(map(str, elements))}"
    yield from told_by_others()


def told_by_others() -> Iterator[str]:
    """Yield the packet rules as other programs print them, with their counters and without the time."""
    for command in OTHERS:
        if program := shutil.which(command[0], path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
            told = subprocess.run([program, *command[1:]], capture_output=True, text=True, check=True).stdout
            yield from (f"{command[0]}: {line}" for line in told.splitlines() if not line.startswith("#"))


def _without_ages(attributes: str) -> str:
    return attributes.partition("('IFA_CACHEINFO'")[0].partition("('RTA_CACHEINFO'")[0]


def on_a_host(work: Callable[[], Any], seconds_max: int = SECONDS_MAX) -> tuple[list[str], list[str], Any]:
    """Return what is on a furnished host before some work and after it, and what the work returned."""

    def there() -> Any:
        try:
            kernel.unshare(kernel.CLONE_NEWNET | kernel.CLONE_NEWNS)
        except OSError as problem:
            return NoNamespaces(str(problem))
        furnish_a_named_namespace()
        furnish()
        before = standing()
        done = work()
        return before, standing(), done

    outcome = in_a_child(there, seconds_max)
    if isinstance(outcome, NoNamespaces):
        cannot_run(f"namespaces are not allowed here: {outcome}")
    if isinstance(outcome, BaseException):
        raise outcome
    before, after, done = outcome
    return before, after, done
