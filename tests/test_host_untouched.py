"""What stands on the host before a lab stands there afterwards, to the last byte: rules, links, addresses, routes.

The host of this test is a network namespace of its own, with rules and an interface that are none of ours.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from pyroute2 import IPRoute
from pyroute2.nftables.main import NFTables

from ackproof import faults
from ackproof.lab import kernel
from ackproof.lab.network import Network
from ackproof.lab.rules import TABLE, Match
from conftest import cannot_run
from lab_network import NODES, NoNamespaces, in_a_child, in_a_lab_network

Told = Callable[[str, object], None]


def furnish() -> None:
    """As somebody may have who also has a table of our name, and an address of ours."""
    with IPRoute() as routes:
        routes.link("add", ifname="kafka1", kind="bridge")
        (index,) = routes.link_lookup(ifname="kafka1")
        routes.addr("add", index=index, address="198.18.1.1", prefixlen=24)
        routes.link("set", index=index, state="up")
    with NFTables(nfgen_family=2) as nft:
        for name in ("theirs", TABLE):
            nft.table("add", name=name)
            nft.chain("add", table=name, name="mark", hook="output", type="filter", policy=1)


def standing() -> list[str]:
    with IPRoute() as routes:
        links = [str((link["index"], link.get_attr("IFLA_IFNAME"), link["flags"])) for link in routes.get_links()]
        addresses = [str(each["attrs"]) for each in routes.get_addr()]
        ways = [str(each["attrs"]) for each in routes.get_routes()]
    with NFTables(nfgen_family=2) as nft:
        rules = [str(each["attrs"]) for each in (*nft.get_tables(), *nft.get_chains(), *nft.get_rules())]
    return [*links, *(_without_ages(each) for each in (*addresses, *ways)), *rules]


def _without_ages(attributes: str) -> str:
    return attributes.partition("('IFA_CACHEINFO'")[0]


def work(network: Network) -> int:
    pair = [("kafka1", "kafka2"), ("kafka2", "kafka1")]
    with faults.severed(network, "f1", pair, Match()), faults.severed(network, "f2", pair[:1], Match(reset=True)):
        pass
    return len(NODES)


@pytest.mark.proves("A7")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can furnish a host")
def test_rules_links_and_addresses_of_others_are_as_before(record_property: Told) -> None:
    def on_a_host() -> Any:
        try:
            kernel.unshare(kernel.CLONE_NEWNET)
        except OSError as problem:
            return NoNamespaces(str(problem))
        furnish()
        before = standing()
        done = [in_a_lab_network(work, rootless=rootless) for rootless in (False, True)]
        return before, standing(), done

    outcome = in_a_child(on_a_host)
    if isinstance(outcome, BaseException):
        if isinstance(outcome, NoNamespaces):
            cannot_run(f"namespaces are not allowed here: {outcome}")
        raise outcome
    before, after, done = outcome
    assert done == [len(NODES)] * 2
    assert any("theirs" in each for each in before)
    assert after == before
    record_property("figure", f"{len(before)} links, addresses, routes and rules of others equal after two labs")
