"""Every fault proves itself, and every fault that is broken behind the lab's back is found out.

All of it on the real network of `lab_network`, in the kernel, without Kafka. What gets through is measured here by
sockets of the test's own, not by the lab's probes.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from itertools import combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroute2 import IPRoute

from ackproof import faults
from ackproof.errors import NotProved, Problem
from ackproof.lab import kernel
from ackproof.lab.network import PROBE_PORT, Network, carries
from ackproof.lab.rules import Match
from ackproof.lab.topology import Link, links_of, severed_between, severed_by_groups
from lab_network import (
    NODES,
    in_a_lab_network,
    move_to_port,
    remove_links,
    remove_rules,
    remove_table,
    rule_set,
    wait_until,
)
from proving import size

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
    """Whether one of five datagrams arrives. Silence is waited for only a little: the kernel drops at once."""
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
    """connected, refused, or silent."""
    with network.served(link[1], port):
        try:
            network.connect(link, port, timeout_s=SILENCE_S).close()
        except ConnectionRefusedError:
            return "refused"
        except TimeoutError:
            return "silent"
    return "connected"


def open_pairs(network: Network) -> set[Link]:
    return {(a, b) for a, row in network.reachable().items() for b, hears in row.items() if hears}


ALL_PAIRS = set(permutations(NODES, 2))


# -- each kind holds, and heals --------------------------------------------------------------------------------------


def test_each_kind_proves_itself_again_and_again_and_leaves_no_rule(rootless: bool) -> None:
    def work(network: Network) -> None:
        before = rule_set(network)
        for match in KINDS.values():
            with faults.severed(network, "f1", BOTH, match) as held:
                assert held.proved
                for _ in range(3):
                    held.prove()
                assert rule_set(network) != before
            assert "open again" in faults.prove_open(network, BOTH, match)
            assert rule_set(network) == before
        assert open_pairs(network) == ALL_PAIRS

    in_a_lab_network(work, rootless=rootless)


def test_a_cut_stops_both_directions_and_nothing_else(rootless: bool) -> None:
    def work(network: Network) -> None:
        with faults.severed(network, "f1", BOTH, Match()):
            for link in permutations(NODES, 2):
                assert datagram_arrives(network, link) == (link not in BOTH), link
                assert connects(network, link) == ("silent" if link in BOTH else "connected"), link
        assert all(datagram_arrives(network, link) for link in BOTH)

    in_a_lab_network(work, rootless=rootless)


def test_a_one_way_cut_leaves_the_way_back() -> None:
    def work(network: Network) -> None:
        with faults.severed(network, "f1", [("kafka1", "kafka2")], Match()) as held:
            assert "kafka2 → kafka1 still gets through" in held.proved
            assert not datagram_arrives(network, ("kafka1", "kafka2"))
            assert datagram_arrives(network, ("kafka2", "kafka1"))
            assert connects(network, ("kafka2", "kafka1")) == "silent"  # no handshake without the way back

    in_a_lab_network(work)


def test_a_cut_of_a_port_stops_it_at_either_end_and_leaves_all_others() -> None:
    def work(network: Network) -> None:
        with faults.severed(network, "f1", BOTH, Match(port=PORT)):
            for link in BOTH:
                assert not datagram_arrives(network, link, port=PORT)
                assert not datagram_arrives(network, link, source_port=PORT)
                assert datagram_arrives(network, link, port=PORT + 1)
                assert connects(network, link, PORT) == "silent"
                assert connects(network, link, PORT + 1) == "connected"
            assert datagram_arrives(network, ("kafka1", "kafka3"), port=PORT)

    in_a_lab_network(work)


def test_a_cut_of_a_port_that_a_program_uses_for_datagrams_is_proved_or_told() -> None:
    def work(network: Network) -> None:
        with kernel.inside(network.endpoints["kafka2"].namespace):
            taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with taken, suppress(Problem):
            taken.bind((network.endpoints["kafka2"].address, PORT))
            with faults.severed(network, "f1", BOTH, Match(port=PORT)):
                pass

    in_a_lab_network(work)


def test_a_node_can_take_its_port_while_its_new_connections_are_cut() -> None:
    def work(network: Network) -> None:
        with faults.severed(network, "f1", BOTH, Match(port=PORT, new_connections=True)):
            node = network.endpoints["kafka2"]
            with kernel.inside(node.namespace):
                socket.create_server((node.address, PORT)).close()

    in_a_lab_network(work)


def test_new_connections_are_dropped_and_old_ones_go_on() -> None:
    def work(network: Network) -> None:
        with closing(network.connect(("kafka1", "kafka2"))) as old:
            with faults.severed(network, "f1", BOTH, Match(new_connections=True)) as held:
                assert "2 from before still carry data" in held.proved
                assert connects(network, ("kafka1", "kafka2")) == "silent"
                assert carries(old) == "carries"
                assert datagram_arrives(network, ("kafka1", "kafka2"))
            assert connects(network, ("kafka1", "kafka2")) == "connected"

    in_a_lab_network(work)


def test_a_reset_refuses_at_once_and_breaks_old_connections() -> None:
    def work(network: Network) -> None:
        with (
            closing(network.connect(("kafka1", "kafka2"))) as old,
            faults.severed(network, "f1", BOTH, Match(reset=True)),
        ):
            assert connects(network, ("kafka1", "kafka2")) == "refused"
            assert connects(network, ("kafka1", "kafka3")) == "connected"
            old.send(b"x")
            wait_until(lambda: carries(old, 0.1) == "closed", "the old connection is reset")

    in_a_lab_network(work)


@pytest.mark.parametrize("share", [0.05, 1.0])
def test_loss_takes_about_its_share_of_the_tests_own_datagrams(share: float) -> None:
    def work(network: Network) -> None:
        links = sorted(links_of(["kafka2"], NODES))
        sent = 1000
        with faults.severed(network, "f1", links, Match(loss=share)):
            lost = sent - _arrivals(network, ("kafka1", "kafka2"), sent)
            spread = 6 * (sent * share * (1 - share)) ** 0.5
            assert abs(lost - sent * share) <= spread
            assert _arrivals(network, ("kafka1", "kafka3"), 50) == 50

    in_a_lab_network(work)


def _arrivals(network: Network, link: Link, count: int) -> int:
    """How many of so many datagrams arrive, until nothing has come for a while that is long even on a busy machine."""
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
        with suppress(NoNetem), _or_no_netem(), faults.delayed(network, ["kafka2"], 60) as held:
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
    """A kernel without netem must say so; any other OSError is none of ours."""
    try:
        yield
    except OSError as problem:
        if "no netem" in str(problem):
            raise NoNetem from problem
        raise


# -- sabotage --------------------------------------------------------------------------------------------------------


@contextmanager
def refuted(network: Network, match: str | None = None) -> Iterator[None]:
    """The proof within fails. It need not be patient: what was sabotaged does not come back."""
    faults._PATIENCE_S = IMPATIENT_S
    faults.carries = partial(carries, patience_s=IMPATIENT_S)  # type: ignore[attr-defined]
    network.try_links = partial(network.try_links, patience_s=IMPATIENT_S)  # type: ignore[method-assign]
    with pytest.raises(NotProved, match=match):
        yield


@pytest.mark.proves("D1")
@each_kind
def test_a_fault_whose_rules_were_removed_is_found_out(match: Match) -> None:
    def work(network: Network) -> None:
        with faults.severed(network, "f1", BOTH, match) as held:
            remove_rules(network)
            with refuted(network):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
@each_kind
def test_a_fault_that_lost_one_of_its_links_is_found_out(match: Match) -> None:
    def work(network: Network) -> None:
        with faults.severed(network, "f1", BOTH, match) as held:
            remove_links(network, "f1", [BOTH[1]])
            with refuted(network, match="kafka2 → kafka1"):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
@pytest.mark.parametrize("kind", ["cut", "reset", "loss"])
def test_a_fault_whose_whole_table_is_gone_is_found_out(kind: str) -> None:
    def work(network: Network) -> None:
        with faults.severed(network, "f1", BOTH, KINDS[kind]) as held:
            remove_table(network)
            with refuted(network):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
@pytest.mark.parametrize("kind", ["port", "new connections of a port", "reset of a port"])
def test_a_cut_that_stands_on_the_wrong_port_is_found_out(kind: str) -> None:
    def work(network: Network) -> None:
        with faults.severed(network, "f1", BOTH, KINDS[kind]) as held:
            move_to_port(network, "f1", BOTH, PORT + 1)
            with refuted(network):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
def test_a_cut_of_a_port_that_cuts_every_port_is_found_out() -> None:
    def work(network: Network) -> None:
        with faults.severed(network, "f1", BOTH, Match(port=PORT)) as held:
            network.rules.add("stray", Match(), [network._addresses(link) for link in BOTH])
            with refuted(network, match="so is every other"):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
def test_a_one_way_cut_that_cuts_both_ways_is_found_out() -> None:
    def work(network: Network) -> None:
        with faults.severed(network, "f1", [("kafka1", "kafka2")], Match()) as held:
            network.rules.add("stray", Match(), [network._addresses(("kafka2", "kafka1"))])
            with refuted(network, match="more is cut than was asked"):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
def test_new_connections_only_that_stops_old_ones_too_is_found_out() -> None:
    def work(network: Network) -> None:
        with faults.severed(network, "f1", BOTH, Match(new_connections=True)) as held:
            network.rules.add("stray", Match(), [network._addresses(link) for link in BOTH])
            with refuted(network, match="no longer carries data"):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
def test_a_reset_that_is_silent_is_found_out() -> None:
    def work(network: Network) -> None:
        with faults.severed(network, "f1", BOTH, Match(reset=True)) as held:
            network.rules.add("stray", Match(), [network._addresses(link) for link in BOTH])
            with refuted(network):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
@pytest.mark.parametrize("wrong", [0.02, 0.9])
def test_a_loss_of_another_share_is_found_out(wrong: float) -> None:
    def work(network: Network) -> None:
        with faults.severed(network, "f1", BOTH, Match(loss=0.3)) as held:
            network.rules.remove("f1")
            network.rules.add("f1", Match(loss=wrong), [network._addresses(link) for link in BOTH])
            with refuted(network):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
def test_a_delay_that_does_not_delay_is_found_out() -> None:
    def work(network: Network) -> None:
        network.delay = network.undelay = lambda *_: None  # type: ignore[method-assign,assignment]
        with refuted(network), faults.delayed(network, ["kafka2"], 100):
            pass

    in_a_lab_network(work)


@pytest.mark.proves("D1")
def test_a_fault_on_a_node_that_was_taken_away_is_told() -> None:
    def work(network: Network) -> None:
        with faults.severed(network, "f1", BOTH, Match()) as held:
            network.detach("kafka2")  # as an `add` that failed does
            with refuted(network):
                held.prove()

    in_a_lab_network(work)


@pytest.mark.proves("D1")
def test_silence_at_a_node_whose_network_is_gone_proves_nothing() -> None:
    def work(network: Network) -> None:
        with faults.severed(network, "f1", BOTH, Match()) as held:
            with kernel.inside(network.endpoints["kafka2"].namespace), IPRoute() as node_side:
                node_side.link("set", index=node_side.link_lookup(ifname="eth0")[0], state="down")
            with refuted(network, match="proves nothing"):
                held.prove()

    in_a_lab_network(work)


def test_a_mended_link_on_which_nothing_gets_through_is_told() -> None:
    def work(network: Network) -> None:
        network.rules.add("stray", Match(), [network._addresses(BOTH[0])])
        with refuted(network, match="nothing gets through"):
            faults.prove_open(network, BOTH, Match())

    in_a_lab_network(work)


@pytest.mark.proves("D1")
def test_a_fault_that_cannot_be_proved_is_undone() -> None:
    def work(network: Network) -> None:
        before = rule_set(network)
        sever = network.sever

        def lame(fault: str, links: list[Link], match: Match, timeout_s: float | None) -> None:
            sever(fault, links, match, timeout_s)
            remove_rules(network)

        network.sever = lame  # type: ignore[method-assign,assignment]
        with refuted(network), faults.severed(network, "f1", BOTH, Match()):
            pass
        assert rule_set(network) == before
        assert not network.cuts

    in_a_lab_network(work)


# -- faults together -------------------------------------------------------------------------------------------------


@pytest.mark.proves("A6")
def test_overlapping_cuts_are_their_union_and_healing_one_leaves_the_other(rootless: bool) -> None:
    def work(network: Network) -> None:
        group = sorted(severed_by_groups([["kafka1"]], NODES))
        with ExitStack() as outer:
            outer.enter_context(faults.severed(network, "f1", BOTH, Match()))
            with faults.severed(network, "f2", group, Match()) as second:
                assert open_pairs(network) == ALL_PAIRS - set(BOTH) - set(group)
                second.prove()
            assert open_pairs(network) == ALL_PAIRS - set(BOTH)
            assert faults.prove_open(network, BOTH, Match()) == "mended; other faults still stand on all its links"
        assert open_pairs(network) == ALL_PAIRS

    in_a_lab_network(work, rootless=rootless)


def test_every_kind_holds_on_links_that_are_cut_already() -> None:
    def work(network: Network) -> None:
        with faults.severed(network, "f1", BOTH, Match()) as first:
            for match in KINDS.values():
                with faults.severed(network, "f2", BOTH, match):
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
                stack.enter_context(faults.severed(network, f"f{number}", links, match, for_s=1.0))
                for number, (match, links) in enumerate(zip(kinds, pairs, strict=False))
            ]
            # Nobody mends: the rules and the sets stay, the kernel forgets what is in them.
            for number in range(len(kinds)):
                wait_until(lambda fault=f"f{number}": network.taken(fault) == {}, "the kernel has forgotten the links")  # type: ignore[misc]
            assert open_pairs(network) == ALL_PAIRS
            assert connects(network, ("kafka1", "kafka3"), PORT) == "connected"
            for each in held:
                with pytest.raises(NotProved, match="no longer severed"):
                    each.prove()

    in_a_lab_network(work, rootless=rootless)


def test_a_time_out_does_not_touch_another_fault_on_the_same_links() -> None:
    def work(network: Network) -> None:
        with (
            faults.severed(network, "f1", BOTH, Match()) as first,
            faults.severed(network, "f2", BOTH, Match(), for_s=0.3),
        ):
            wait_until(lambda: network.taken("f2") == {}, "the kernel has forgotten the second fault")
            first.prove()
            assert open_pairs(network) == ALL_PAIRS - set(BOTH)

    in_a_lab_network(work)


LINKS = st.sets(st.sampled_from(sorted(ALL_PAIRS)), min_size=1, max_size=6)
GROUPS = st.lists(st.sets(st.sampled_from(NODES), min_size=1), min_size=1, max_size=3).map(
    lambda groups: severed_by_groups([sorted(group) for group in groups], NODES)
)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("cut"), LINKS),
        st.tuples(st.just("cut"), GROUPS.filter(bool)),
        st.tuples(st.just("heal"), st.integers(0, 29)),
    ),
    max_size=30,
)


@pytest.mark.proves("A6")
def test_any_sequence_of_cuts_and_heals_is_the_union_of_what_stands(rootless: bool) -> None:
    def work(network: Network) -> None:
        baseline = rule_set(network)

        @settings(max_examples=size(8, 20, 100), deadline=None, database=None)
        @given(operations=OPERATIONS)
        def follows_the_model(operations: list[tuple[str, object]]) -> None:
            standing: dict[str, tuple[ExitStack, set[Link]]] = {}
            try:
                _play(network, operations, standing)
            finally:
                for stack, _ in standing.values():
                    stack.close()
            assert rule_set(network) == baseline
            assert open_pairs(network) == ALL_PAIRS

        follows_the_model()

    in_a_lab_network(work, rootless=rootless)


def _play(
    network: Network, operations: list[tuple[str, object]], standing: dict[str, tuple[ExitStack, set[Link]]]
) -> None:
    for number, (what, about) in enumerate(operations):
        if isinstance(about, int):
            if standing:
                stack, _ = standing.pop(sorted(standing)[about % len(standing)])
                stack.close()
        else:
            assert isinstance(about, set | frozenset), what
            stack = ExitStack()
            stack.enter_context(faults.severed(network, f"f{number}", sorted(about), Match()))
            standing[f"f{number}"] = (stack, set(about))
        severed = {link for _, links in standing.values() for link in links}
        assert open_pairs(network) == ALL_PAIRS - severed
