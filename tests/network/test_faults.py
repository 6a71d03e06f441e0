"""Every fault proves itself, and every fault that is broken without the lab's knowledge is reported.

The tests use the real network of `lab_network`, in the kernel, without Kafka. They measure with sockets of their own
what gets through, not with the lab's probes.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroute2 import IPRoute, NetlinkError

from ackproof.core.errors import NotProved, Problem
from ackproof.host import namespaces as kernel
from ackproof.lab.audit_log import Events
from ackproof.lab.cluster import Cluster
from ackproof.lab.faults import delay
from ackproof.lab.faults import links as link_faults
from ackproof.lab.faults import nodes as node_faults
from ackproof.lab.faults.active import Lab
from ackproof.lab.faults.proof import FaultProof
from ackproof.lab.network import probes
from ackproof.lab.network.nftables import TABLE, Match, Rules
from ackproof.lab.network.router import NOT_ONLY_OURS, PROBE_PORT, Network
from ackproof.lab.server import commands as verbs
from ackproof.lab.server.commands import Request, Server
from ackproof.lab.spec import LabSpec
from ackproof.lab.topology import Link, links_of, severed_between, severed_by_groups
from tests.support.lab_network import (
    NODES,
    SECONDS_MAX,
    in_a_lab_network,
    let_connections_through,
    let_connections_through_for_a_moment,
    move_to_port,
    remove_links,
    remove_rules,
    remove_table,
    rule_set,
    wait_until,
)
from tests.support.proving import size

Told = Callable[[str, object], None]

PORT = 9092
ARRIVES_S = 2.0  # a deadline, met in well under a millisecond
SILENCE_S = 0.1
IMPATIENT_S = 0.15

BOTH = sorted(severed_between(["kafka1"], ["kafka2"]))
KINDS = {
    "cut": Match(),
    "port": Match(port=PORT),
    "new connections": Match(new_connections=True),
    "new connections of a port": Match(new_connections=True, port=PORT),
    "reset": Match(reset=True),
    "reset of a port": Match(reset=True, port=PORT),
    "reset of new connections": Match(reset=True, new_connections=True),
    "loss": Match(loss=0.3),
}

each_kind = pytest.mark.parametrize("match", KINDS.values(), ids=KINDS)


@pytest.fixture(params=[False, True], ids=["root", "rootless"])
def rootless(request: pytest.FixtureRequest) -> bool:
    if not request.param and os.getuid() != 0:
        pytest.skip("we are not root: the rootless half covers this machine")
    return bool(request.param)


# -- traffic of the test's own ---------------------------------------------------------------------------------------


def datagram_arrives(network: Network, link: Link, port: int = 5000, source_port: int = 0) -> bool:
    """Return whether one of five datagrams arrives. It waits only a little, because the kernel drops at once."""
    source, target = (network.endpoints[name] for name in link)
    with ExitStack() as stack:
        with kernel.inside(target.namespace):
            receiving = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            receiving.bind((target.address, port))
        with kernel.inside(source.namespace):
            sending = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            sending.bind((source.address, source_port))
        sending.sendto(b"hello", (target.address, port))
        severed = any(link in links for _, links in network.cuts.values())
        readable, _, _ = select.select([receiving], [], [], SILENCE_S if severed else ARRIVES_S)
        return bool(readable)


def connects(network: Network, link: Link, port: int = PROBE_PORT) -> str:
    """Try to connect, and return "connected", "refused" or "silent"."""
    with probes.served(network, link[1], port):
        try:
            probes.connect(network, link, port, timeout_s=SILENCE_S).close()
        except ConnectionRefusedError:
            return "refused"
        except TimeoutError:
            return "silent"
    return "connected"


def open_pairs(network: Network) -> set[Link]:
    return {(a, b) for a, row in probes.reachable(network).items() for b, hears in row.items() if hears}


ALL_PAIRS = set(permutations(NODES, 2))


# -- each kind holds, and heals --------------------------------------------------------------------------------------


def test_each_kind_proves_itself_again_and_again_and_leaves_no_rule(rootless: bool) -> None:
    def work(network: Network) -> None:
        before = rule_set(network)
        for match in KINDS.values():
            with link_faults.severed(network, "f1", BOTH, match) as held:
                assert held.proved
                for _ in range(3):
                    held.prove()
                assert rule_set(network) != before
            assert "open again" in link_faults.prove_open(network, BOTH, match)
            assert rule_set(network) == before
        assert open_pairs(network) == ALL_PAIRS

    in_a_lab_network(work, rootless=rootless)


def test_these_tests_see_rules_that_differ_in_one_value() -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", BOTH, Match(port=PORT)):
            before = rule_set(network)
            move_to_port(network, "f1", BOTH, PORT + 1)
            assert rule_set(network) != before
            remove_links(network, "f1", BOTH, PORT + 1)
            network.rules.fill("f1", Match(port=PORT), [network._addresses(link) for link in BOTH], None)
            assert rule_set(network) == before

    in_a_lab_network(work)


def test_a_cut_stops_both_directions_and_nothing_else(rootless: bool) -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", BOTH, Match()):
            for link in permutations(NODES, 2):
                assert datagram_arrives(network, link) == (link not in BOTH), link
                assert connects(network, link) == ("silent" if link in BOTH else "connected"), link
        assert all(datagram_arrives(network, link) for link in BOTH)

    in_a_lab_network(work, rootless=rootless)


def test_a_one_way_cut_leaves_the_way_back() -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", [("kafka1", "kafka2")], Match()) as held:
            assert "kafka2 → kafka1 still gets through" in held.proved
            assert not datagram_arrives(network, ("kafka1", "kafka2"))
            assert datagram_arrives(network, ("kafka2", "kafka1"))
            assert connects(network, ("kafka2", "kafka1")) == "silent"  # without the way back there is no handshake

    in_a_lab_network(work)


def test_a_cut_of_a_port_stops_it_at_either_end_and_leaves_all_others() -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", BOTH, Match(port=PORT)):
            for link in BOTH:
                assert not datagram_arrives(network, link, port=PORT)
                assert not datagram_arrives(network, link, source_port=PORT)
                assert datagram_arrives(network, link, port=PORT + 1)
                assert connects(network, link, PORT) == "silent"
                assert connects(network, link, PORT + 1) == "connected"
            assert datagram_arrives(network, ("kafka1", "kafka3"), port=PORT)

    in_a_lab_network(work)


def test_a_cut_of_a_port_that_a_program_uses_for_datagrams_is_proved_or_refused_with_a_reason() -> None:
    def work(network: Network) -> None:
        with kernel.inside(network.endpoints["kafka2"].namespace):
            taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with taken, suppress(Problem):
            taken.bind((network.endpoints["kafka2"].address, PORT))
            with link_faults.severed(network, "f1", BOTH, Match(port=PORT)):
                pass

    in_a_lab_network(work)


def test_a_node_can_take_its_port_while_its_new_connections_are_cut() -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", BOTH, Match(port=PORT, new_connections=True)):
            node = network.endpoints["kafka2"]
            with kernel.inside(node.namespace):
                socket.create_server((node.address, PORT)).close()

    in_a_lab_network(work)


def test_new_connections_are_dropped_and_old_ones_go_on() -> None:
    def work(network: Network) -> None:
        with closing(probes.connect(network, ("kafka1", "kafka2"))) as old:
            with link_faults.severed(network, "f1", BOTH, Match(new_connections=True)) as held:
                assert "2 from before still carry data" in held.proved
                assert connects(network, ("kafka1", "kafka2")) == "silent"
                assert probes.carries(old) == "carries"
                assert datagram_arrives(network, ("kafka1", "kafka2"))
            assert connects(network, ("kafka1", "kafka2")) == "connected"

    in_a_lab_network(work)


def test_new_connections_can_be_cut_any_number_of_times() -> None:
    """They are cut more often than connections fit into the queue of the lab's listener."""

    def work(network: Network) -> None:
        match = Match(new_connections=True)
        for number in range(40):
            with link_faults.severed(network, f"f{number}", BOTH, match):
                pass
            link_faults.prove_open(network, BOTH, match)
        for name in ("kafka1", "kafka2"):
            assert len(network.endpoints[name].accepted) <= 2  # the descriptors of the last fault

    in_a_lab_network(work)


def test_a_reset_refuses_at_once_and_breaks_old_connections() -> None:
    def work(network: Network) -> None:
        with (
            closing(probes.connect(network, ("kafka1", "kafka2"))) as old,
            link_faults.severed(network, "f1", BOTH, Match(reset=True)),
        ):
            assert connects(network, ("kafka1", "kafka2")) == "refused"
            assert connects(network, ("kafka1", "kafka3")) == "connected"
            old.send(b"x")
            wait_until(lambda: probes.carries(old, 0.1) == "closed", "the old connection is reset")

    in_a_lab_network(work)


@pytest.mark.parametrize("share", [0.05, 1.0])
def test_loss_drops_about_its_share_of_the_tests_own_datagrams(share: float) -> None:
    def work(network: Network) -> None:
        links = sorted(links_of(["kafka2"], NODES))
        sent = 1000
        with link_faults.severed(network, "f1", links, Match(loss=share)):
            lost = sent - _arrivals(network, ("kafka1", "kafka2"), sent)
            spread = 6 * (sent * share * (1 - share)) ** 0.5
            assert abs(lost - sent * share) <= spread
            assert _arrivals(network, ("kafka1", "kafka3"), 50) == 50

    in_a_lab_network(work)


def test_other_traffic_on_a_lossy_link_is_not_counted_as_lost_probes() -> None:
    def work(network: Network) -> None:
        over = threading.Event()
        with kernel.inside(network.endpoints["kafka1"].namespace):
            sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

        def send() -> None:
            while not over.is_set():
                sending.sendto(b"hello", (network.endpoints["kafka2"].address, 5000))

        others = threading.Thread(target=send)
        others.start()
        try:
            for share in (0.3, 1.0):
                with link_faults.severed(network, "f1", BOTH, Match(loss=share)) as held:
                    held.prove()
                    with link_faults.severed(network, "f2", BOTH, Match()):
                        held.prove()
        finally:
            over.set()
            others.join()
            sending.close()

    in_a_lab_network(work)


def _arrivals(network: Network, link: Link, count: int) -> int:
    """Return how many datagrams arrive, until none comes for a while that is long even on a busy machine."""
    source, target = (network.endpoints[name] for name in link)
    with ExitStack() as stack:
        with kernel.inside(target.namespace):
            receiving = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            receiving.bind((target.address, 5000))
        with kernel.inside(source.namespace):
            sending = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        got = 0
        for sent in range(1, count + 1):
            sending.sendto(b"hello", (target.address, 5000))
            while (readable := select.select([receiving], [], [], 0.5 if sent == count else 0)[0]) != []:
                got += len(readable[0].recv(16)) > 0
        return got


def test_a_delay_is_proved_or_refused_and_leaves_nothing() -> None:
    def work(network: Network) -> None:
        with suppress(NoNetem), _or_no_netem(), delay.delayed(network, ["kafka2"], 60) as held:
            assert "kafka2" in held.proved
            begun = time.monotonic()
            assert datagram_arrives(network, ("kafka1", "kafka2"))
            assert time.monotonic() - begun >= 0.02
        assert open_pairs(network) == ALL_PAIRS

    in_a_lab_network(work)


class NoNetem(Exception):
    pass


@contextmanager
def _or_no_netem() -> Iterator[None]:
    """Allow the refusal of a kernel without netem. Any other OSError is an error."""
    try:
        yield
    except OSError as problem:
        if "no netem" in str(problem):
            raise NoNetem from problem
        raise


# -- sabotage --------------------------------------------------------------------------------------------------------


@contextmanager
def refuted(network: Network, match: str | None = None) -> Iterator[None]:
    """Assert that the proof within fails because of a probe, and not only because an outsider changed the rules.

    The proof has little time, because a sabotaged fault does not recover."""
    link_faults._PATIENCE_S = delay._PATIENCE_S = IMPATIENT_S
    probes.carries = partial(probes.carries, patience_s=IMPATIENT_S)
    probes.try_links = partial(probes.try_links, patience_s=IMPATIENT_S)
    with pytest.raises(NotProved, match=match) as told:
        yield
    assert NOT_ONLY_OURS not in str(told.value)


@pytest.mark.proves("D1")
@each_kind
def test_a_fault_whose_rules_were_removed_is_reported(match: Match) -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", BOTH, match) as held:
            remove_rules(network)
            with refuted(network):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
@each_kind
def test_a_fault_that_lost_one_of_its_links_is_reported(match: Match) -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", BOTH, match) as held:
            remove_links(network, "f1", [BOTH[1]])
            with refuted(network, match="kafka2 → kafka1"):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
@pytest.mark.parametrize("kind", ["cut", "reset", "loss"])
def test_a_fault_whose_whole_table_is_gone_is_reported(kind: str) -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", BOTH, KINDS[kind]) as held:
            remove_table(network)
            with refuted(network):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
@pytest.mark.parametrize("kind", ["port", "new connections of a port", "reset of a port"])
def test_a_cut_of_the_wrong_port_is_reported(kind: str) -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", BOTH, KINDS[kind]) as held:
            move_to_port(network, "f1", BOTH, PORT + 1)
            with refuted(network):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
@each_kind
def test_a_fault_whose_rules_are_in_another_namespace_is_reported(match: Match) -> None:
    def work(network: Network) -> None:
        node = network.endpoints["kafka1"].namespace

        def in_the_nodes() -> Rules:
            with kernel.inside(node):
                return Rules()

        before = rule_set(network)
        network.rules = network._ask(in_the_nodes)
        with refuted(network), link_faults.severed(network, "f1", BOTH, match):
            pass
        assert rule_set(network) == before
        with kernel.inside(node):
            assert any(TABLE in each for each in rule_set(network))

    in_a_lab_network(work)


@pytest.mark.proves("D1")
def test_a_cut_of_a_port_that_cuts_every_port_is_reported() -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", BOTH, Match(port=PORT)) as held:
            network.rules.add("stray", Match(), [network._addresses(link) for link in BOTH])
            with refuted(network, match="every other port is cut too"):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
def test_a_one_way_cut_that_cuts_both_ways_is_reported() -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", [("kafka1", "kafka2")], Match()) as held:
            network.rules.add("stray", Match(), [network._addresses(("kafka2", "kafka1"))])
            with refuted(network, match="more links are cut than requested"):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
def test_a_cut_of_new_connections_that_stops_old_ones_too_is_reported() -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", BOTH, Match(new_connections=True)) as held:
            network.rules.add("stray", Match(), [network._addresses(link) for link in BOTH])
            with refuted(network, match="no longer carries data"):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
def test_a_reset_that_sends_no_reset_is_reported() -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", BOTH, Match(reset=True)) as held:
            network.rules.add("stray", Match(), [network._addresses(link) for link in BOTH])
            with refuted(network):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
@pytest.mark.parametrize("wrong", [0.02, 0.9])
def test_a_loss_of_another_share_is_reported(wrong: float) -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", BOTH, Match(loss=0.3)) as held:
            network.rules.remove("f1")
            network.rules.add("f1", Match(loss=wrong), [network._addresses(link) for link in BOTH])
            with refuted(network):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
def test_a_delay_that_does_not_delay_is_reported() -> None:
    def work(network: Network) -> None:
        network.delay = network.undelay = lambda *_: None  # type: ignore[method-assign,assignment]
        with refuted(network), delay.delayed(network, ["kafka2"], 100):
            pass

    in_a_lab_network(work)


@pytest.mark.proves("D1")
def test_a_delay_that_is_removed_while_it_is_active_is_reported() -> None:
    def work(network: Network) -> None:
        if not has_netem(network):
            stand_in_for_netem(network)
        with delay.delayed(network, ["kafka2"], 1000) as held:
            held.prove()
            network.undelay("kafka2")
            with refuted(network, match="no delay of 1000 ms"):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
@pytest.mark.parametrize("left", [[], ["router"], ["node"]])
def test_a_short_delay_that_is_removed_is_reported_even_on_a_machine_that_is_as_slow(left: list[str]) -> None:
    def work(network: Network) -> None:
        if not has_netem(network):
            stand_in_for_netem(network)
        with delay.delayed(network, ["kafka2"], 1) as held:
            held.prove()
            network.delayed_ends = lambda _: left  # type: ignore[method-assign,assignment]
            with refuted(network, match="does not work in both directions"):
                held.prove()
            network.delayed_ends = lambda _: []  # type: ignore[method-assign,assignment]

    in_a_lab_network(work)


def has_netem(network: Network) -> bool:
    with suppress(NoNetem), _or_no_netem():
        network.delay("kafka1", 1)
        network.undelay("kafka1")
        return True
    return False


def stand_in_for_netem(network: Network) -> None:
    """Hold datagrams back before they are sent. The proof of a delay cannot tell this from the kernel's delay."""
    late: dict[str, float] = {}
    try_links = probes.try_links

    def held_back(network: Network, links: list[Link], **options: Any) -> probes.ProbeResult:
        time.sleep(max(late.get(target, 0) for _, target in links) / 2000)
        return try_links(network, links, **options)

    probes.try_links = held_back  # type: ignore[assignment]
    network.delay = late.__setitem__  # type: ignore[method-assign,assignment]
    network.undelay = lambda name: late.pop(name, None)  # type: ignore[method-assign,assignment]
    network.delayed_ends = lambda name: ["router", "node"] if name in late else []  # type: ignore[method-assign]


@pytest.mark.proves("D1")
def test_a_fault_on_a_node_that_was_removed_is_reported() -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", BOTH, Match()) as held:
            network.detach("kafka2")  # as after an `add` that failed
            with refuted(network):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
def test_silence_at_a_node_whose_network_is_gone_proves_nothing() -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", BOTH, Match()) as held:
            with kernel.inside(network.endpoints["kafka2"].namespace), IPRoute() as node_side:
                node_side.link("set", index=node_side.link_lookup(ifname="eth0")[0], state="down")
            with refuted(network, match="proves nothing"):
                held.prove()

    in_a_lab_network(work)


def test_a_healed_link_on_which_nothing_gets_through_is_reported() -> None:
    def work(network: Network) -> None:
        network.rules.add("stray", Match(), [network._addresses(BOTH[0])])
        with refuted(network, match="nothing gets through"):
            link_faults.prove_open(network, BOTH, Match())

    in_a_lab_network(work)


@pytest.mark.proves("D1")
def test_a_fault_that_cannot_be_proved_is_removed() -> None:
    def work(network: Network) -> None:
        before = rule_set(network)
        sever = network.sever

        def lame(fault: str, links: list[Link], match: Match, timeout_s: float | None) -> None:
            sever(fault, links, match, timeout_s)
            remove_rules(network)

        network.sever = lame  # type: ignore[method-assign,assignment]
        with refuted(network), link_faults.severed(network, "f1", BOTH, Match()):
            pass
        assert rule_set(network) == before
        assert not network.cuts

    in_a_lab_network(work)


@pytest.mark.proves("D1")
def test_a_rule_of_an_outsider_that_no_probe_meets_is_reported(rootless: bool) -> None:
    def work(network: Network) -> None:
        far = sorted(severed_between(["kafka3"], ["client"]))
        with (
            link_faults.severed(network, "f1", BOTH, Match()) as near,
            link_faults.severed(network, "f2", far, Match()) as other,
        ):
            let_connections_through(network)
            assert connects(network, BOTH[0]) == "connected"
            assert not datagram_arrives(network, BOTH[0])
            assert_nothing_is_proved(network, near, other)

    in_a_lab_network(work, rootless=rootless)


@pytest.mark.proves("D1")
@each_kind
def test_a_fault_that_was_interrupted_between_two_probes_is_reported(match: Match) -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", BOTH, match) as held:
            held.prove()
            let_connections_through_for_a_moment(network)
            assert_nothing_is_proved(network, held)

    in_a_lab_network(work)


def assert_nothing_is_proved(network: Network, *standing: FaultProof) -> None:
    """Assert that no active fault, no healing and no later fault is proved, also after changes by the lab itself."""
    for held in standing * 2:
        with pytest.raises(NotProved, match=NOT_ONLY_OURS):
            held.prove()
    with pytest.raises(NotProved, match=NOT_ONLY_OURS):
        link_faults.prove_open(network, BOTH, Match())
    network.mend("f1")
    with pytest.raises(NotProved, match=NOT_ONLY_OURS), link_faults.severed(network, "f3", BOTH, Match()):
        pass
    assert "f3" not in network.rules.names()


@pytest.mark.proves("D1")
def test_a_change_by_an_outsider_just_before_one_of_ours_is_reported() -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", BOTH, Match()) as held:
            let_connections_through_for_a_moment(network)
            network.retime("f1", LONG_S)
            assert_nothing_is_proved(network, held)

    in_a_lab_network(work)


def test_our_changes_the_kernels_expiries_and_what_others_read_or_change_elsewhere_are_no_foreign_change(
    rootless: bool,
) -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", BOTH, Match()) as first:
            for number, match in enumerate(KINDS.values(), start=2):
                with link_faults.severed(network, f"f{number}", BOTH, match, for_s=LONG_S):
                    first.prove()
                first.prove()
            with link_faults.severed(network, "short", BOTH, Match(), for_s=BRIEFLY_S):
                wait_until(lambda: network.taken("short") == {}, "the kernel has forgotten it")
                first.prove()
            with pytest.raises(NetlinkError):
                network.rules.add("f1", Match(), [])  # the table exists already, so nothing changes
            rule_set(network)
            with kernel.inside(network.endpoints["kafka1"].namespace):
                Rules().close()
            first.prove()
        link_faults.prove_open(network, BOTH, Match())

    in_a_lab_network(work, rootless=rootless)


# -- faults together -------------------------------------------------------------------------------------------------


@pytest.mark.proves("A6")
def test_overlapping_cuts_are_their_union_and_healing_one_leaves_the_other(rootless: bool) -> None:
    def work(network: Network) -> None:
        group = sorted(severed_by_groups([["kafka1"]], NODES))
        with ExitStack() as outer:
            outer.enter_context(link_faults.severed(network, "f1", BOTH, Match()))
            with link_faults.severed(network, "f2", group, Match()) as second:
                assert open_pairs(network) == ALL_PAIRS - set(BOTH) - set(group)
                second.prove()
            assert open_pairs(network) == ALL_PAIRS - set(BOTH)
            assert link_faults.prove_open(network, BOTH, Match()) == "mended; other faults still stand on all its links"
        assert open_pairs(network) == ALL_PAIRS

    in_a_lab_network(work, rootless=rootless)


def test_every_kind_holds_on_links_that_are_already_cut() -> None:
    def work(network: Network) -> None:
        with link_faults.severed(network, "f1", BOTH, Match()) as first:
            for match in KINDS.values():
                with link_faults.severed(network, "f2", BOTH, match):
                    first.prove()
        assert open_pairs(network) == ALL_PAIRS

    in_a_lab_network(work)


@pytest.mark.proves("A4")
def test_the_kernel_ends_every_kind_by_itself_when_its_time_is_up(rootless: bool) -> None:
    def work(network: Network) -> None:
        pairs = [sorted(severed_between([a], [b])) for a, b in combinations(NODES, 2)]
        kinds = [match for name, match in KINDS.items() if name in ("cut", "port", "new connections", "reset", "loss")]
        with ExitStack() as stack:
            held = [
                stack.enter_context(link_faults.severed(network, f"f{number}", links, match, for_s=1.0))
                for number, (match, links) in enumerate(zip(kinds, pairs, strict=False))
            ]
            # Nothing heals them: the rules and the sets stay, and the kernel removes the elements of the sets.
            for number in range(len(kinds)):
                wait_until(lambda fault=f"f{number}": network.taken(fault) == {}, "the kernel has forgotten the links")  # type: ignore[misc]
            assert open_pairs(network) == ALL_PAIRS
            assert connects(network, ("kafka1", "kafka3"), PORT) == "connected"
            for each in held:
                with pytest.raises(NotProved, match="open again"):
                    each.prove()

    in_a_lab_network(work, rootless=rootless)


def test_a_time_out_does_not_touch_another_fault_on_the_same_links() -> None:
    def work(network: Network) -> None:
        with (
            link_faults.severed(network, "f1", BOTH, Match()) as first,
            link_faults.severed(network, "f2", BOTH, Match(), for_s=0.3),
        ):
            wait_until(lambda: network.taken("f2") == {}, "the kernel has forgotten the second fault")
            first.prove()
            assert open_pairs(network) == ALL_PAIRS - set(BOTH)

    in_a_lab_network(work)


@dataclass(frozen=True)
class Cut:
    links: frozenset[Link]
    match: Match
    for_s: float | None

    @property
    def takes_datagrams(self) -> bool:
        return self.match in (Match(), Match(reset=True))

    def takes(self, link: Link, port: int, opens: bool) -> bool:
        """Return whether it stops the packet that opens a connection to this port, or later packets, on this link."""
        match = self.match
        return link in self.links and match.port in (None, port) and (opens or not match.new_connections)


BRIEFLY_S, LONG_S = 0.1, 3600.0
LINKS = st.frozensets(st.sampled_from(sorted(ALL_PAIRS)), min_size=1, max_size=6)
GROUPS = st.lists(st.sets(st.sampled_from(NODES), min_size=1), min_size=1, max_size=3).map(
    lambda groups: severed_by_groups([sorted(group) for group in groups], NODES)
)
MATCHES = st.one_of(
    st.just(Match()),
    st.builds(Match, port=st.sampled_from([None, PORT]), new_connections=st.booleans(), reset=st.booleans()),
    st.builds(Match, loss=st.sampled_from([0.05, 0.3, 1.0])),
)
CUTS = st.builds(Cut, LINKS | GROUPS.filter(bool), MATCHES, st.sampled_from([None, None, LONG_S, BRIEFLY_S]))
PAUSES = st.sampled_from(NODES[:2])
HEALS = st.integers(0, 29)
OPERATIONS = st.integers(0, 30).flatmap(
    lambda count: st.lists(st.one_of(CUTS, CUTS, PAUSES, HEALS), min_size=count, max_size=count)
)


@pytest.mark.proves("A6")
@pytest.mark.timeout(SECONDS_MAX + 60)
def test_after_any_sequence_of_faults_and_heals_the_cut_links_are_the_union_of_the_active_faults(
    rootless: bool, record_property: Told
) -> None:
    def work(network: Network) -> Counter[str]:
        baseline, played = rule_set(network), Counter[str]()

        @settings(max_examples=size(8, 100), deadline=None, database=None)
        @given(operations=OPERATIONS)
        def follows_the_model(operations: list[Cut | str | int]) -> None:
            play = Play(lab)
            try:
                for operation in operations:
                    play.do(operation)
                    play.expect()
                play.prove()
                play.expect_connections()
                play.heal_all()
                assert rule_set(network) == baseline
                assert open_pairs(network) == ALL_PAIRS
                assert {lab.processes.state(name) for name in NODES[:2]} == {"running"}
            finally:
                for name in list(lab.active):
                    lab.mend(name)
            played.update(sequences=1, operations=len(operations))

        with a_lab_of_sleepers(network) as lab:
            follows_the_model()
            assert [each for each in lab.events.read() if each["event"] == "not healed"] == []
        return played

    played = in_a_lab_network(work, rootless=rootless)
    how = "rootless" if rootless else "root"
    record_property("figure", f"{how}: {played['sequences']} sequences of {played['operations']:,} faults and heals")


@contextmanager
def a_lab_of_sleepers(network: Network) -> Iterator[Lab]:
    """Yield nodes that can be paused, and never answer."""
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(network, Events(Path(folder) / "events.jsonl"))
        nodes = {name: LabSpec(kafka="3.9.2").broker(number) for number, name in enumerate(NODES[:2], start=1)}
        lab.cluster = cast(Cluster, SimpleNamespace(nodes=nodes, state=SimpleNamespace(answers=lambda *_: False)))
        for name in nodes:
            sleep = ["/bin/sleep", str(SECONDS_MAX)]
            place = network.endpoints[name].namespace
            lab.processes.spawn(name, sleep, namespace=place, output=Path("/dev/null"), environment={})
        try:
            yield lab
        finally:
            for name in nodes:
                lab.processes.send(name, signal.SIGKILL, ends=True)


class Play:
    """The active faults of a lab, and the effect that they must have together."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._network = lab.network
        self._server = cast(Server, SimpleNamespace(lab=lab))
        self._standing: dict[str, Cut | str] = {}

    def do(self, operation: Cut | str | int) -> None:
        if isinstance(operation, int):
            if self._standing:
                self._heal(list(self._standing)[operation % len(self._standing)])
        elif isinstance(operation, Cut):
            self._cut(operation)
        elif operation not in self._paused():
            name, node = self._lab.next_name(), self._lab.cluster.nodes[operation]
            self._lab.begin(name, "pause", [operation], node_faults.paused(self._lab, node, False))
            self._standing[name] = operation

    def _heal(self, *names: str) -> None:
        healed = verbs.heal(self._server, asked(faults=list(names))).healed
        for name in healed:
            del self._standing[name]

    def heal_all(self) -> None:
        self._heal()
        assert (self._standing, self._lab.active) == ({}, {})

    def _cut(self, cut: Cut) -> None:
        name = self._lab.next_name()
        severed = link_faults.severed(self._network, name, sorted(cut.links), cut.match, cut.for_s)
        self._lab.begin(name, "cut", sorted(NODES), severed, links=cut.links, match=cut.match, for_s=cut.for_s)
        assert (self._network.left_s(name) or 0) > (LONG_S / 2 if cut.for_s == LONG_S else -1)
        if cut.for_s == BRIEFLY_S:
            wait_until(lambda: self._network.taken(name) == {}, f"the kernel has ended {name}")
            cut = replace(cut, links=frozenset())  # its rules stay until it is healed, and stop nothing
        self._standing[name] = cut

    def _paused(self) -> set[str]:
        return {what for what in self._standing.values() if isinstance(what, str)}

    def _cuts(self) -> list[Cut]:
        return [what for what in self._standing.values() if isinstance(what, Cut)]

    def prove(self) -> None:
        """Prove again every fault that the kernel has not ended."""
        for name, what in self._standing.items():
            if isinstance(what, str) or what.links:
                self._lab.active[name].proof.prove()

    def expect(self) -> None:
        """Expect datagrams to arrive where no fault stops them, and nowhere else. On a lossy link either will do."""
        severed = {link for cut in self._cuts() if cut.takes_datagrams for link in cut.links}
        lossy = {link for cut in self._cuts() if cut.match.loss is not None for link in cut.links}
        seen: set[Link] = set()

        def all_open() -> bool:
            seen.update(open_pairs(self._network))
            return seen >= ALL_PAIRS - severed - lossy

        wait_until(all_open, "every link that no fault cuts is open")
        assert not seen & severed
        for name in NODES[:2]:
            assert self._lab.processes.state(name) == ("paused" if name in self._paused() else "running")

    def expect_connections(self) -> None:
        """Expect a new connection on every link and to two ports to be made, refused or unanswered."""
        expected = {(link, port): self._expected(link, port) for link in ALL_PAIRS for port in (PROBE_PORT, PORT)}
        outcomes: dict[tuple[Link, int], str] = {}
        with ExitStack() as stack:
            attempts: dict[socket.socket, tuple[Link, int]] = {}
            for (source, target), port in expected:
                stack.enter_context(probes.served(self._network, target, port))
                attempt = stack.enter_context(closing(probes.connecting(self._network, source)))
                attempt.connect_ex((self._network.endpoints[target].address, port))
                attempts[attempt] = ((source, target), port)

            def look(seconds: float) -> bool:
                for attempt in select.select([], list(attempts), [], seconds)[1]:
                    problem = attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    outcomes[attempts.pop(attempt)] = "refused" if problem == errno.ECONNREFUSED else "connected"
                return all(place in outcomes for place, told in expected.items() if told in ("connected", "refused"))

            wait_until(lambda: look(0.01), "every link that is not silent has answered")
            look(SILENCE_S)
        for place, told in expected.items():
            assert told in (outcomes.get(place, "silent"), "random"), place

    def _expected(self, link: Link, port: int) -> str:
        there = [cut.match for cut in self._cuts() if cut.takes(link, port, opens=True)]
        back = [cut.match for cut in self._cuts() if cut.takes(link[::-1], port, opens=False)]
        if any(match.loss is not None for match in there + back):
            return "random"
        if any(not match.reset for match in there):
            return "silent"
        return "refused" if there else "silent" if back else "connected"


def asked(**arguments: Any) -> Request:
    return Request(arguments, lambda _: None)
