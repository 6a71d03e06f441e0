"""Scenarios of the catalogue, with real clusters: their claims about brokers, groups and transactions hold.

`scripts/catalogue` runs all of them. CI leaves out the long ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ackproof.model.verdict import Verdict, read_verdict
from tests.support.real_lab import User, ourselves

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def us() -> Iterator[User]:
    with ourselves() as user:
        yield user


def ran(us: User, tmp_path: Path, *words: str) -> tuple[dict[str, Any], Verdict]:
    done = us.run("run", *words, "--out", str(tmp_path), "--json", timeout_s=380)
    assert done.returncode == 0, f"{done.stderr}\n{done.stdout}"
    (directory,) = tmp_path.iterdir()
    told: dict[str, Any] = json.loads(done.stdout)["runs"][0]
    return told, read_verdict(directory)


def found(verdict: Verdict, check: str) -> int | None:
    return next(each.found for each in verdict.checks if each.name == check)


def test_leaders_move_away_from_brokers_that_are_isolated_one_after_the_other(us: User, tmp_path: Path) -> None:
    told, verdict = ran(us, tmp_path, "rolling-partitions")
    assert (told["result"], told["lost"]) == ("confirmed", 0)
    during = [move for move in verdict.moves if move.moment == "during 2"]
    assert [(move.leader, move.isr) for move in during] == [(1, [1])] * 3


def test_an_outbox_loses_nothing_while_the_cluster_is_down(us: User, tmp_path: Path) -> None:
    told, verdict = ran(us, tmp_path, "cluster-down")
    # 500 of them went to a topic that a producer created.
    assert (told["result"], told["acked"], told["lost"]) == ("confirmed", 4_500, 0)
    assert found(verdict, "exit_codes") == 0


@pytest.mark.long
def test_a_killed_consumers_partitions_go_to_the_others(us: User, tmp_path: Path) -> None:
    told, verdict = ran(us, tmp_path, "consumer-failover")
    assert (told["result"], found(verdict, "undelivered")) == ("confirmed", 0)
    assert found(verdict, "ownership_gap")


@pytest.mark.long
def test_a_frozen_follower_leaves_the_isr_and_returns(us: User, tmp_path: Path) -> None:
    told, verdict = ran(us, tmp_path, "isr-lag", "--mode", "kraft")
    assert (told["result"], told["lost"]) == ("confirmed", 0)
    sizes = {move.moment: len(move.isr or ()) for move in verdict.moves}
    assert (sizes["start"], sizes["during 1"], sizes["end"]) == (3, 2, 3)


def test_transactions_are_whole_and_aborted_messages_are_read_only_by_read_uncommitted(
    us: User, tmp_path: Path
) -> None:
    told, verdict = ran(us, tmp_path, "transactions", "--mode", "kraft")
    assert (told["result"], told["lost"], told["duplicated"]) == ("confirmed", 0, 0)
    assert [
        found(verdict, check)
        for check in ("torn_transaction", "uncommitted_read", "hanging_transaction", "not_exactly_once")
    ] == [0] * 4
    assert found(verdict, "unstable_read")  # by the consumer with read_uncommitted


@pytest.mark.long
def test_a_producer_that_may_not_write_is_refused_and_writes_nothing(us: User, tmp_path: Path) -> None:
    told, verdict = ran(us, tmp_path, "access")
    assert (told["result"], told["acked"], told["failed"]) == ("confirmed", 2_000, 1_000)
    assert found(verdict, "refusals") == 0
