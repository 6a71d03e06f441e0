"""Blocks of numbers, folded: what agrees, what differs, and tables without a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.judge.engine.block_digests import fold_log, fold_reads, fold_sends, grouped, hashed
from ackproof.judge.engine.parts import parts_of
from ackproof.judge.engine.sums import Lines
from ackproof.judge.engine.suspect_blocks import Closer, closer, folded, narrowed, within
from ackproof.model.journal_tables import TABLES
from ackproof.model.run_record import Clock, RunRecord
from tests.support.plans import plan_of

RECORD = RunRecord(
    1, "a-run", "by-hand", "A", "", "base", "kraft", "4.3.1", 1, [], {}, {}, ["orders"], [], [], [], [], {},
    Clock(0, 0), plan_of(),
)  # fmt: skip
NONE = np.zeros((0, 2), np.int64)
LINES = Lines(begin_ns=0, late_ns=10**9)


def rows(table: str, *given: dict[str, Any]) -> pa.Table:
    common = {"run": 1, "topic": 0, "partition": 0, "producer": 0, "due_ns": 0, "sent_ns": 0, "done_ns": 1}
    more = {"outcome": "ok", "leader_epoch": 0, "consumer": 0, "group": 0, "assignment": 1, "poll": 1, "read_ns": 2}
    made = [{**common, **more, **row} for row in given]
    return pa.Table.from_pylist(made, TABLES[table].schema)


def looked_at(tmp_path: Path, sends: pa.Table, log: pa.Table) -> list[int]:
    """The numbers of the sends that are worth a look, in blocks of two."""
    tables = {"sends": sends, "log": log, "reads": rows("reads")}
    files = {name: [tmp_path / f"{name}.parquet"] for name in tables}
    for name, table in tables.items():
        pq.write_table(table, files[name][0], row_group_size=3)
    run = folded(parts_of(files), LINES, bits=1)
    found = closer(RECORD, run.folds, [], NONE, bits=1)
    paths, _ = narrowed(run, "sends", found, tmp_path / "narrow", bits=1)
    return [seq for path in paths for seq in pq.read_table(path)["seq"].to_pylist()]


SENT = [{"seq": seq, "offset": seq} for seq in range(8)]


def test_of_what_agrees_only_the_first_ack_of_an_epoch_is_looked_at(tmp_path: Path) -> None:
    late = [{**row, "done_ns": row["seq"]} for row in SENT]
    assert looked_at(tmp_path, rows("sends", *late), rows("log", *SENT)) == [0, 1]


@pytest.mark.parametrize(
    ("log", "looked"),
    [
        ([row for row in SENT if row["seq"] != 5], [0, 1, 4, 5]),
        ([*SENT, {"seq": 4, "offset": 8}], [0, 1, 4, 5, 6, 7]),
        ([*SENT[:4], {"seq": 5, "offset": 4}, {"seq": 4, "offset": 5}, *SENT[6:]], [0, 1, 4, 5]),
        ([*SENT[:7], {"seq": 9, "offset": 7}], [0, 1, 6, 7]),
    ],
    ids=["one is missing", "one is there twice", "two have changed places", "another stands there"],
)
def test_a_block_that_differs_is_looked_at_with_what_stands_there(
    tmp_path: Path, log: list[dict[str, int]], looked: list[int]
) -> None:
    late = [{**row, "done_ns": row["seq"]} for row in SENT]
    assert looked_at(tmp_path, rows("sends", *late), rows("log", *log)) == looked


def test_a_run_without_a_record_is_looked_at_in_full(tmp_path: Path) -> None:
    assert looked_at(tmp_path, rows("sends", *SENT), rows("log")) == list(range(8))


def test_what_agrees_in_one_sum_by_design_differs_in_the_other() -> None:
    first = hashed(np.array([1, 2]))["number_one"]
    apart = int(first[0] - first[1])  # this much further on, 2 looks like 1 to the first hash
    one, other = ({"seq": 1, "offset": 0}, {"seq": 2, "offset": apart}) if apart >= 0 else (
        {"seq": 1, "offset": -apart}, {"seq": 2, "offset": 0}
    )  # fmt: skip
    folds = [fold_log(rows("log", row)) for row in (one, other)]
    assert folds[0]["one"] == folds[1]["one"]
    assert folds[0]["two"] != folds[1]["two"]


def test_a_log_whose_epochs_nobody_knows_is_not_looked_at_for_them(tmp_path: Path) -> None:
    tables = {"sends": rows("sends", *SENT), "log": rows("log", *({**row, "leader_epoch": None} for row in SENT))}
    views = [{"topic": 0, "partition": 0, "leader_epoch": epoch, "seen_ns_min": 0} for epoch in (0, 1)]
    folds = {"sends": fold_sends(tables["sends"], 1), "log": fold_log(tables["log"], 1), "reads": {}}
    parts = {
        name: {**own, "part": np.zeros(len(own["producer"]), np.int64)} if own else own for name, own in folds.items()
    }
    assert len(closer(RECORD, parts, views, NONE, bits=1).blocks) == 0
    known = {**folds, "log": fold_log(rows("log", *SENT), 1)}
    assert len(closer(RECORD, known, views, NONE, bits=1).blocks) > 0


def test_tables_without_a_row_have_no_block() -> None:
    for table, fold in (("sends", fold_sends), ("log", fold_log), ("reads", fold_reads)):
        assert {len(column) for column in fold(rows(table)).values()} == {0}


def test_sends_without_an_offset_are_set_apart() -> None:
    found = fold_sends(rows("sends", {"seq": 0, "offset": 0}, {"seq": 1, "offset": None}), 4)
    assert found["partition"].tolist() == [-1, 0]


@pytest.mark.parametrize("far", [1, 2**40])
def test_equal_keys_come_together_and_keep_their_order(far: int) -> None:
    keys = [np.array([2, 1, 2, 1]) * far, np.array([7, 7, 7, 8]) * far, np.array([0, far * 5, 0, 0])]
    order, starts = grouped(keys)
    assert (order.tolist(), starts.tolist()) == ([1, 3, 0, 2], [0, 1, 2])


def test_only_whole_keys_are_within() -> None:
    known = np.array([[1, 5], [2, 6]])
    assert within([np.array([1, 1, 2, 3]), np.array([5, 6, 6, 5])], known).tolist() == [True, False, True, False]
    assert not within([np.array([1]), np.array([5])], NONE).any()


def test_a_part_between_whose_bounds_nothing_is_asked_for_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sends.parquet"
    pq.write_table(rows("sends", *SENT), path, row_group_size=4)
    run = folded(parts_of({"sends": [path], "log": [], "reads": []}), LINES, bits=1)
    found = Closer(np.array([[0, 3]]), np.array([[0, 0, 3]]))
    (kept,), count = narrowed(run, "sends", found, tmp_path / "narrow", bits=1)
    assert pq.read_table(kept)["seq"].to_pylist() == [6, 7]
    assert count == 2


@pytest.mark.parametrize("table", ["sends", "log", "reads"])
def test_a_run_of_which_only_one_side_is_there_is_looked_at_in_full(tmp_path: Path, table: str) -> None:
    path = tmp_path / f"{table}.parquet"
    pq.write_table(rows(table, *SENT), path, row_group_size=3)
    run = folded(parts_of({"sends": [], "log": [], "reads": [], table: [path]}), LINES, bits=1)
    views = [{"topic": 0, "partition": 0, "leader_epoch": 1, "seen_ns_min": 0}]
    found = closer(RECORD, run.folds, views, NONE, bits=1)
    _, count = narrowed(run, table, found, tmp_path / "narrow", bits=1)
    assert count == len(SENT)
