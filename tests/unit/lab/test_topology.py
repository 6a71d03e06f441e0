"""Which nodes may reach which."""

from __future__ import annotations

from itertools import combinations, pairwise, permutations

from hypothesis import given
from hypothesis import strategies as st

from ackproof.lab.topology import (
    Link,
    completed_groups,
    groups_of,
    links_of,
    severed_between,
    severed_by_groups,
)

NODES = ["zk1", "zk2", "zk3", "kafka1", "kafka2", "kafka3", "client"]
GROUPS = st.lists(st.sets(st.sampled_from(NODES), min_size=1), max_size=4)


def matrix(severed: frozenset[Link]) -> dict[str, dict[str, bool]]:
    return {a: {b: (a, b) not in severed for b in NODES if b != a} for a in NODES}


@given(GROUPS)
def test_groups_sever_both_directions_or_none(groups: list[set[str]]) -> None:
    severed = severed_by_groups(groups, NODES)
    assert severed == {(b, a) for a, b in severed}


@given(GROUPS)
def test_a_pair_is_severed_exactly_where_it_shares_no_completed_group(groups: list[set[str]]) -> None:
    severed, completed = severed_by_groups(groups, NODES), completed_groups(groups, NODES)
    for a, b in permutations(NODES, 2):
        assert ((a, b) in severed) == (not any({a, b} <= group for group in completed))


@given(GROUPS)
def test_every_node_is_in_some_completed_group(groups: list[set[str]]) -> None:
    assert set().union(*completed_groups(groups, NODES)) >= set(NODES) - {"client"}


@given(GROUPS)
def test_an_unnamed_client_reaches_every_node(groups: list[set[str]]) -> None:
    severed = severed_by_groups([group - {"client"} for group in groups], NODES)
    assert not [link for link in severed if "client" in link]


@given(st.sets(st.sampled_from(NODES[:-1]), min_size=1))
def test_a_named_client_reaches_only_its_groups(group: set[str]) -> None:
    severed = severed_by_groups([group | {"client"}], NODES)
    assert {b for a, b in severed if a == "client"} == set(NODES) - group - {"client"}


def test_one_name_alone_is_cut_off_from_all_others_but_the_client() -> None:
    assert severed_by_groups([["kafka3"]], NODES) == {
        link for link in permutations(NODES, 2) if "kafka3" in link and "client" not in link
    }


def test_a_name_in_two_groups_loses_only_what_neither_holds() -> None:
    severed = severed_by_groups([["kafka1", "kafka2", "kafka3"], ["kafka2", "kafka3", "zk1", "zk2", "zk3"]], NODES)
    assert severed == severed_between(["kafka1"], ["zk1", "zk2", "zk3"])


@given(st.permutations(NODES[:-1]), st.lists(st.integers(1, 5), max_size=3))
def test_a_measured_matrix_gives_back_the_groups_that_made_it(names: list[str], cuts: list[int]) -> None:
    ends = sorted({0, *cuts, len(names)})
    groups = [names[a:b] for a, b in pairwise(ends)]
    found = groups_of(matrix(severed_by_groups(groups, NODES)))
    assert {frozenset(group) for group in found} == {frozenset({*group, "client"}) for group in groups}


@given(GROUPS)
def test_the_groups_of_any_matrix_are_the_largest_that_reach_each_other(groups: list[set[str]]) -> None:
    severed = severed_by_groups(groups, NODES)
    found = [frozenset(group) for group in groups_of(matrix(severed))]
    for group in found:
        assert not [pair for pair in combinations(group, 2) if pair in severed]
        outside = set(NODES) - group
        assert all(any((name, other) in severed for other in group) for name in outside), "it could be larger"
    for completed in completed_groups(groups, NODES):
        assert any(completed <= group for group in found)
    assert len(set(found)) == len(found)


def test_a_one_way_cut_takes_both_names_out_of_one_group() -> None:
    found = groups_of(matrix(frozenset({("kafka1", "kafka2")})))
    assert not [group for group in found if {"kafka1", "kafka2"} <= set(group)]


@given(st.sets(st.sampled_from(NODES), min_size=1), st.sets(st.sampled_from(NODES), min_size=1))
def test_a_cut_between_two_sides_is_every_pair_across_and_never_a_node_with_itself(
    left: set[str], right: set[str]
) -> None:
    across = {(a, b) for a in left for b in right if a != b}
    assert severed_between(left, right, one_way=True) == across
    assert severed_between(left, right) == across | {(b, a) for a, b in across}


def test_the_links_of_a_node_are_all_that_end_at_it() -> None:
    assert len(links_of(["kafka2"], NODES)) == 2 * (len(NODES) - 1)
    assert len(links_of(["kafka1", "kafka2"], NODES)) == 2 * (len(NODES) - 1) + 2 * (len(NODES) - 2)


def test_a_second_client_is_a_client_too() -> None:
    nodes = [*NODES, "client2"]
    assert not [link for link in severed_by_groups([["kafka3"]], nodes) if "client" in link or "client2" in link]
    named = severed_by_groups([["kafka3", "client2"]], nodes)
    assert {b for a, b in named if a == "client2"} == set(nodes) - {"kafka3", "client", "client2"}
    assert not [link for link in named if "client" in link]
