"""A lab leaves everything on the host as it was, to the last byte. The lab's network is real, without Kafka."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from ackproof.lab.faults import links
from ackproof.lab.network.nftables import Match
from ackproof.lab.network.router import Network
from tests.support.furnished_host import on_a_host
from tests.support.lab_network import NODES, in_a_lab_network

Told = Callable[[str, object], None]


def two_faults(network: Network) -> int:
    pair = [("kafka1", "kafka2"), ("kafka2", "kafka1")]
    with links.severed(network, "f1", pair, Match()), links.severed(network, "f2", pair[:1], Match(reset=True)):
        pass
    return len(NODES)


@pytest.mark.proves("A7")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can furnish a host")
def test_a_lab_leaves_the_host_as_it_was(record_property: Told) -> None:
    before, after, done = on_a_host(
        lambda: [in_a_lab_network(two_faults, rootless=rootless) for rootless in (False, True)]
    )
    assert done == [len(NODES)] * 2
    assert after == before
    record_property("figure", f"{len(before)} things of others equal to the last byte after two labs' networks")
