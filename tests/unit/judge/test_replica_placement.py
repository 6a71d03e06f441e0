"""Where Kafka's documented rule places replicas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.judge.replica_placement import alternated, documented, drawn, filled, violations


def test_the_example_of_the_documentation_without_racks() -> None:
    """Five brokers, ten partitions, three replicas, start 0 and shift 0, as Kafka's own source explains it."""
    assert documented(range(5), 10, 3, 0, 0, {}) == [
        [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0], [4, 0, 1],
        [0, 2, 3], [1, 3, 4], [2, 4, 0], [3, 0, 1], [4, 1, 2],
    ]  # fmt: skip


def test_the_example_of_the_documentation_with_racks() -> None:
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert alternated(racks) == [0, 3, 1, 5, 4, 2]
    assert documented(range(6), 7, 3, 0, 0, racks) == [
        [0, 3, 1], [3, 1, 5], [1, 5, 4], [5, 4, 2], [4, 2, 0], [2, 0, 3], [0, 4, 2],
    ]  # fmt: skip


@given(st.integers(2, 7), st.integers(1, 20), st.integers(1, 3), st.integers(0, 6), st.integers(0, 6))
def test_the_start_and_the_shift_are_inferred_from_the_assignment(
    brokers: int, partitions: int, replication: int, start: int, shift: int
) -> None:
    ids = range(1, brokers + 1)
    replication, start, shift = min(replication, brokers), start % brokers, shift % brokers
    made = documented(ids, partitions, replication, start, shift, {})
    found = drawn(made, ids, {})
    assert found is not None
    assert documented(ids, partitions, replication, *found, {}) == made
    assert violations(made, ids, {}, alternating=False) == []


def test_no_start_and_no_shift_explain_a_wrong_assignment() -> None:
    assert drawn([[1, 2], [1, 2], [3, 1]], [1, 2, 3], {}) is None


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ([[1, 1], [2, 3], [3, 4], [4, 1]], "twice"),
        ([[1, 3], [2, 3], [3, 4], [4, 1]], "fewer racks"),
        ([[1, 2], [1, 4], [3, 4], [1, 2]], "not even over the racks (a: 4, b: 0)"),
        ([[1, 2, 4], [2, 3], [3, 4], [4, 1]], "neighbours"),
    ],
)
def test_a_broken_property_is_named(assignment: list[list[int]], words: str) -> None:
    racks = {1: "a", 2: "b", 3: "a", 4: "b"}
    assert any(words in problem for _, problem in violations(assignment, [1, 2, 3, 4], racks, alternating=True))
    assert violations([[1, 2], [2, 3], [3, 4], [4, 1]], [1, 2, 3, 4], racks, alternating=True) == []


@pytest.mark.parametrize(
    ("racks", "assignment"),
    [
        ({1: "a", 2: "b", 3: "a", 4: "b"}, [[1, 2], [4, 3], [1, 2], [4, 3]]),
        ({1: "a", 2: "b", 3: "a"}, [[1, 2], [2, 3], [1, 2], [2, 3], [3, 2], [2, 1]]),
    ],
)
def test_first_replicas_go_round_the_racks_if_racks_alternate(
    racks: dict[int, str], assignment: list[list[int]]
) -> None:
    """KRaft goes round the racks. If racks do not alternate, it goes round the brokers."""
    assert violations(assignment, list(racks), racks, alternating=True) == []
    told = violations(assignment, list(racks), racks, alternating=False)
    assert [partition for partition, words in told if "not even over the brokers" in words] == [-1]


def test_neighbours_share_a_rack_only_if_no_other_rack_has_brokers_left() -> None:
    racks = {1: "a", 2: "b", 3: "a"}
    assert violations([[2, 1, 3], [1, 2, 3], [3, 2, 1]], [1, 2, 3], racks, alternating=True) == []
    told = violations([[2, 1, 3], [1, 3, 2], [3, 2, 1]], [1, 2, 3], racks, alternating=True)
    assert told == [(1, "two neighbours among its replicas are in one rack")]


@pytest.mark.parametrize(
    ("held", "new", "rule"),
    [
        ([0, 0], 3, [2, 1]),
        ([4, 4, 0], 3, [4, 4, 3]),
        ([4, 4, 0], 6, [5, 5, 4]),
        ([6, 0], 0, [6, 0]),
        ([1, 2], 1, [2, 2]),
    ],
)
def test_a_new_log_goes_to_the_directory_with_the_fewest(held: list[int], new: int, rule: list[int]) -> None:
    assert filled(held, new) == rule
