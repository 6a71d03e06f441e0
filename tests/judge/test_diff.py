"""Any two topics of a run, compared by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from asking import session
from histories import History

from ackproof.errors import UsageProblem
from ackproof.judge.diff import diff


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    history = History(topics=("orders", "dc2:dc1.orders", "other"))
    for seq in range(3):
        history.send(seq, seq).log(seq, seq)
    history.copied(0, 0).copied(1, 2).log(7, 0, topic=2).log(8, 1, topic=2).log(9, 2, topic=2)
    return history.write(tmp_path_factory.mktemp("diff") / "run")


def test_a_topic_and_its_mirror(run: Path) -> None:
    found = diff(session(), run, "orders", "dc2:dc1.orders")
    assert [(row["difference"], row["seq"], row["offset"]) for row in found] == [("missing", 1, 1)]


def test_the_other_way_round(run: Path) -> None:
    found = diff(session(), run, "dc2:dc1.orders", "orders")
    assert [(row["difference"], row["seq"], row["mirror_offset"]) for row in found] == [("extra", 1, 1)]


def test_two_that_hold_the_same_at_other_offsets(run: Path) -> None:
    assert diff(session(), run, "orders", "other") == []


def test_a_topic_that_the_run_does_not_have(run: Path) -> None:
    with pytest.raises(UsageProblem, match="did you mean orders"):
        diff(session(), run, "order", "other")


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="not a run directory"):
        diff(session(), tmp_path, "orders", "other")
