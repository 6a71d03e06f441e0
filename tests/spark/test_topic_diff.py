"""`ackproof diff`: two topics of a run, compared with each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ackproof.core.errors import NotProved, UsageProblem
from ackproof.judge.topic_diff import diff
from tests.support.asking import session
from tests.support.histories import History


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    history = History(topics=("orders", "dc2:dc1.orders", "other"))
    for seq in range(3):
        history.send(seq, seq).log(seq, seq)
    history.copied(0, 0).copied(1, 2).log(7, 0, topic=2).log(8, 1, topic=2).log(9, 2, topic=2)
    return history.write(tmp_path_factory.mktemp("diff") / "run")


def test_a_topic_and_its_mirror(run: Path) -> None:
    counts, found = diff(session(), run, "orders", "dc2:dc1.orders")
    assert counts == {"missing": 1}
    assert [(row["difference"], row["seq"], row["offset"]) for row in found] == [("missing", 1, 1)]


def test_a_mirror_and_its_topic(run: Path) -> None:
    _, found = diff(session(), run, "dc2:dc1.orders", "orders")
    assert [(row["difference"], row["seq"], row["mirror_offset"]) for row in found] == [("extra", 1, 1)]


def test_two_topics_with_the_same_messages_at_other_offsets(run: Path) -> None:
    assert diff(session(), run, "orders", "other") == ({}, [])


def test_a_topic_that_the_run_does_not_have(run: Path) -> None:
    with pytest.raises(UsageProblem, match="did you mean orders"):
        diff(session(), run, "order", "other")


def test_a_directory_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="not a run directory"):
        diff(session(), tmp_path, "orders", "other")


def _two(**other: Any) -> History:
    """Return a run with three messages in each of two topics. Their contents all differ."""
    history = History(topics=("orders", "other"))
    for seq in range(3):
        history.log(seq, seq, digest=seq).log(seq, seq, topic=1, digest=seq + 1)
    return history.end(3, topic=1, **other)


def test_only_so_many_differences_are_shown_but_all_are_counted(tmp_path: Path) -> None:
    counts, found = diff(session(), _two().write(tmp_path / "run"), "orders", "other", most=2)
    assert counts == {"changed": 3}
    assert [row["seq"] for row in found] == [0, 1]


def test_a_run_without_a_final_read_proves_nothing(tmp_path: Path) -> None:
    interrupted = History(topics=("orders", "other"), ended="interrupted").block(0, 1, 1).write(tmp_path / "run")
    with pytest.raises(NotProved, match="did not reach the end of orders/0"):
        diff(session(), interrupted, "orders", "other")


def test_a_partition_that_was_not_read_to_its_end(tmp_path: Path) -> None:
    with pytest.raises(NotProved, match="did not reach the end of other/0"):
        diff(session(), _two(read_to=2).write(tmp_path / "run"), "orders", "other")


def test_a_partition_that_was_never_read(tmp_path: Path) -> None:
    planned = replace(_two(), planned=2)
    with pytest.raises(NotProved, match="did not reach the end of orders/1"):
        diff(session(), planned.write(tmp_path / "run"), "orders", "other")


def test_a_damaged_file(tmp_path: Path) -> None:
    made = _two().write(tmp_path / "run")
    (made / "journal" / "log" / "more.parquet").write_bytes(b"damaged")
    with pytest.raises(NotProved, match="cannot be read and was left out"):
        diff(session(), made, "orders", "other")


def test_a_run_from_before_digests(tmp_path: Path) -> None:
    made = _two().write(tmp_path / "run")
    for path in (made / "journal" / "log").iterdir():
        pq.write_table(pq.read_table(path).drop_columns("digest"), path)
    assert diff(session(), made, "orders", "other") == ({}, [])
