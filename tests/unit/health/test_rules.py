"""The night rules: each with a hit and a near miss."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackproof.health.rate_monitor import Rate
from ackproof.health.rules import RULES, Snapshot, UncleanElection, WatchedPartition

GOOD_RATE = Rate(line=800, armed=True, below=False, judged=9, last=1000, unheard_s=1)
GOOD_PARTITION = WatchedPartition("orders/0", 1, True, 4, (1, 2, 3), (1, 2, 3), 2)
GOOD = Snapshot(3, 3, [GOOD_PARTITION], 1, [], GOOD_RATE)


def partition(**changes: object) -> Snapshot:
    return replace(GOOD, partitions=[GOOD_PARTITION, replace(GOOD_PARTITION, name="orders/1", **changes)])  # type: ignore[arg-type]


def rated(**changes: object) -> Snapshot:
    return replace(GOOD, rate=replace(GOOD_RATE, **changes))  # type: ignore[arg-type]


CASES: dict[str, tuple[Snapshot, set[str]]] = {
    "all is well": (GOOD, set()),
    "a replica is not in sync": (partition(isr=(1, 2)), {"under-replicated"}),
    "fewer in sync than the minimum": (partition(isr=(1,)), {"under-replicated", "isr-below-minimum"}),
    "near miss: as few in sync as allowed": (partition(isr=(1, 2, 3), min_isr=3), set()),
    "no leader": (partition(leader=None, leader_answers=False), {"no-leader"}),
    "the leader does not answer": (partition(leader_answers=False), {"no-leader"}),
    "no broker answers": (replace(GOOD, answering=0), {"no-leader"}),
    "near miss: one broker answers": (replace(GOOD, answering=1), set()),
    "no controller": (replace(GOOD, controller=None), {"no-controller"}),
    "near miss: the controller is broker 0": (replace(GOOD, controller=0), set()),
    "an unclean election": (replace(GOOD, unclean=[UncleanElection("orders/0", 3, (1, 2))]), {"unclean-election"}),
    "the rate is below the line": (rated(below=True, last=10), {"rate"}),
    "no batch finishes": (rated(unheard_s=3), {"rate"}),
    "near miss: one has just finished": (rated(unheard_s=2.9), set()),
    "near miss: the load has not begun": (rated(below=True, unheard_s=9, armed=False), set()),
}


@pytest.mark.parametrize("case", CASES)
def test_rules(case: str) -> None:
    snapshot, expected = CASES[case]
    assert {rule.name for rule in RULES if rule.question(snapshot) is not None} == expected


def test_a_finding_says_where_and_how_many() -> None:
    rule = next(rule for rule in RULES if rule.name == "under-replicated")
    finding = rule.question(partition(isr=(3, 1)))
    assert finding is not None
    assert finding.text == "orders/1: in sync 1 3 of 1 2 3 (1 of 2 partitions)"


def test_only_under_replicated_can_wait_for_the_morning() -> None:
    assert [rule.name for rule in RULES if not rule.wakes] == ["under-replicated"]
