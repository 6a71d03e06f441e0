"""The judge reads the same journal in any order of rows and from any number of files."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ackproof.judge.run_facts import moments
from ackproof.judge.run_source import Source, opened
from tests.support.histories import History, at

END = ("asked", 10), ("proved", 11), ("healed", 50)


def with_much_at_one_moment() -> History:
    """Return a run with two faults and two deaths at the same moment, and two partitions."""
    history = History().send(0, 0, sent=1).log(0, 0).log(1, 0, partition=1).fault(*END).fault(*END, kind="pause")
    for number in (2, 1):
        history.rows["nodes"].append(
            {"at_ns": at(20), "node": f"producer{number}", "event": "exited", "code": 70 + number, "by_itself": True}
        )
    return history


def read(directory: Path) -> Source:
    with opened(directory) as source:
        return source


@pytest.mark.proves("C4")
@pytest.mark.parametrize("table", ["faults", "nodes", "ends"])
def test_events_of_the_same_moment_have_one_order(tmp_path: Path, table: str) -> None:
    history = with_much_at_one_moment()
    own, other = (history.write(tmp_path / name) for name in ("own", "other"))
    (path,) = (other / "journal" / table).glob("*.parquet")
    rows = pq.read_table(path)
    for place in range(rows.num_rows):  # each row in a file of its own, the last one first
        pq.write_table(rows.slice(rows.num_rows - 1 - place, 1), path.with_name(f"{place}.parquet"))
    path.unlink()
    one, another = read(own), read(other)
    assert len(one.small[table]) > 1
    assert one.small[table] == another.small[table]
    told, as_told = (moments(source.record, source.small["faults"]) for source in (one, another))
    assert told == as_told


@pytest.mark.proves("C4")
def test_partitions_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    history = History()
    for partition in (10, 9, 2):
        history.log(partition, 0, partition=partition)
    assert [row["partition"] for row in read(history.write(tmp_path / "run")).small["ends"]] == [2, 9, 10]
