"""A large journal, part by part: the order of sends, the steps of consumers, pauses, reserved numbers, what is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackproof.judge.engine import numbers, order, pauses, steps
from ackproof.judge.engine.block_digests import fold_sends
from ackproof.judge.engine.kept import Kept, kept_folder
from ackproof.judge.engine.parts import BY_THREADS, Part, parts_of
from ackproof.judge.engine.sums import Lines, added
from ackproof.judge.engine.suspect_blocks import folded
from ackproof.judge.run_source import Source
from ackproof.model.journal_tables import TABLES
from ackproof.model.run_record import RunRecord

LINES = Lines(begin_ns=0, late_ns=10**9, end_ns=10_000, unavailable_ns=100, only={0: -1})


def rows(table: str, *given: dict[str, Any]) -> pa.Table:
    common = {"run": 1, "topic": 0, "partition": 0, "producer": 0, "due_ns": 0, "sent_ns": 0, "done_ns": 1}
    more = {"outcome": "ok", "leader_epoch": 0, "consumer": 0, "group": 0, "assignment": 1, "poll": 1}
    return pa.Table.from_pylist([{**common, **more, **row} for row in given], TABLES[table].schema)


def parts(folder: Path, table: str, rows: pa.Table, size: int) -> list[Part]:
    path = folder / f"{table}.parquet"
    pq.write_table(rows, path, row_group_size=size)
    return parts_of({"sends": [], "log": [], "reads": [], table: [path]})


# -- the order of sends ------------------------------------------------------------------------------------------------

SEND = st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(0, 60), st.integers(0, 20))


@settings(max_examples=60, deadline=None)
@given(st.lists(SEND, min_size=1, max_size=40), st.integers(1, 12))
def test_sends_that_came_too_late_are_found_with_what_was_acked_before(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[int, int, int, int]], slab: int
) -> None:
    sends = [
        {"seq": seq, "partition": partition, "offset": offset, "sent_ns": sent, "done_ns": sent + took}
        for seq, (partition, offset, sent, took) in enumerate(drawn)
    ]
    own = parts(tmp_path_factory.mktemp("order"), "sends", rows("sends", *sends), 7)
    run = folded(own, LINES)
    found = order.odd_places(
        lambda asked: BY_THREADS.each(order.look_into, asked, "slabs"), order.slabs(own, run.folds["sends"], slab)
    )
    places = {(partition, int(offset)) for _, partition, offsets in found for offset in offsets}
    expected = set()
    for send in sends:
        before = [
            other["offset"]
            for other in sends
            if other["partition"] == send["partition"] and other["done_ns"] < send["sent_ns"]
        ]
        if before and max(before) >= send["offset"]:
            expected |= {(send["partition"], send["offset"]), (send["partition"], max(before))}
    assert places == expected


def test_offsets_far_apart_take_no_room(tmp_path: Path) -> None:
    sends = [
        {"seq": 0, "offset": 10**15, "sent_ns": 0, "done_ns": 5},
        {"seq": 1, "offset": 3, "sent_ns": 6, "done_ns": 7},
    ]
    own = parts(tmp_path, "sends", rows("sends", *sends), 7)
    (slab,) = order.slabs(own, folded(own, LINES).folds["sends"])
    assert order.look_into(slab).odd[0, 0].tolist() == [3, 10**15]


def test_sends_without_an_offset_are_in_no_slab(tmp_path: Path) -> None:
    own = parts(tmp_path, "sends", rows("sends", {"seq": 0, "offset": None}), 7)
    assert order.slabs(own, folded(own, LINES).folds["sends"]) == []


# -- the steps of consumers --------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 6)), max_size=40), st.integers(1, 9))
def test_odd_steps_are_those_that_are_not_to_the_next_offset(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[int, int, int]], size: int
) -> None:
    reads = [
        {"consumer": consumer, "partition": partition, "offset": offset, "seq": n, "read_ns": n, "poll": n}
        for n, (consumer, partition, offset) in enumerate(drawn)
    ]
    table = rows("reads", *reads).sort_by([(name, "ascending") for name in TABLES["reads"].order])
    found = folded(parts(tmp_path_factory.mktemp("steps"), "reads", table, size), LINES).steps
    assert found is not None
    expected = []
    last: dict[tuple[Any, Any], Any] = {}
    for read in reads:
        key = read["consumer"], read["partition"]
        if key in last and read["offset"] != last[key] + 1:
            expected.append((*key, last[key], read["offset"], read["poll"]))
        last[key] = read["offset"]
    names = ("consumer", "partition", "previous_offset", "offset", "poll")
    assert sorted(zip(*(found[name].tolist() for name in names), strict=True)) == sorted(expected)


def test_reads_that_are_not_in_the_order_of_their_polls_are_walked_in_it(tmp_path: Path) -> None:
    reads = [{"offset": 0, "seq": 0, "read_ns": 5, "poll": 2}, {"offset": 1, "seq": 1, "read_ns": 6, "poll": 1}]
    found = folded(parts(tmp_path, "reads", rows("reads", *reads), 10), LINES).steps
    assert found is not None
    assert [(found["previous_offset"].tolist(), found["offset"].tolist())] == [([1], [0])]


def test_parts_of_one_walk_may_not_overlap(tmp_path: Path) -> None:
    polls = (1, 5, 3, 7)
    reads = [{"offset": n, "seq": n, "read_ns": poll, "poll": poll} for n, poll in enumerate(polls)]
    assert folded(parts(tmp_path, "reads", rows("reads", *reads), 2), LINES).steps is None


def test_no_reads_make_no_step() -> None:
    found = steps.joined([], [])
    assert found is not None
    assert {len(column) for column in found.values()} == {0}


# -- pauses ------------------------------------------------------------------------------------------------------------


def waits(folder: Path, *sends: dict[str, Any], lines: Lines = LINES) -> list[tuple[Any, ...]]:
    own = parts(folder, "sends", rows("sends", *sends), 3)
    found = pauses.pauses(folded(own, lines).sums, lines)
    asked = [part for part in own if pauses.may_wait(part, found)]
    return sorted(pauses.rows_of([pauses.waited(part, found, lines) for part in asked], lines))


def test_a_pause_counts_from_the_moment_that_somebody_waits(tmp_path: Path) -> None:
    sent = [(0, 10), (20, 30), (300, 490), (310, 500), (501, 505)]
    sends = [{"seq": n, "offset": n, "sent_ns": begun, "done_ns": done} for n, (begun, done) in enumerate(sent)]
    assert waits(tmp_path, *sends) == [(0, 0, 300, 490, 190 / 1e6, 2, 0)]


def test_who_never_hears_waits_to_the_end(tmp_path: Path) -> None:
    sends: list[dict[str, Any]] = [
        {"seq": 0, "offset": 0, "sent_ns": 0, "done_ns": 10},
        {"seq": 1, "offset": None, "sent_ns": 50, "done_ns": None, "outcome": "info"},
        {"seq": 2, "offset": None, "sent_ns": 60, "done_ns": 300, "outcome": "fail"},
    ]
    lines = Lines(0, 10**9, 1_000, 100, {0: -1})
    assert waits(tmp_path, *sends, lines=lines) == [(0, 0, 50, 1_000, 950 / 1e6, 2, 2)]


def test_a_send_of_no_partition_waits_for_the_only_one(tmp_path: Path) -> None:
    sends: list[dict[str, Any]] = [
        {"seq": 0, "offset": 0, "sent_ns": 0, "done_ns": 10},
        {"seq": 1, "offset": None, "partition": -1, "sent_ns": 50, "done_ns": 400, "outcome": "fail"},
    ]
    one, several = (Lines(0, 10**9, 1_000, 100, {0: only}) for only in (0, -1))
    assert waits(tmp_path, *sends, lines=one) == [(0, 0, 50, 400, 350 / 1e6, 1, 1)]
    assert waits(tmp_path, *sends, lines=several) == []


# -- reserved numbers --------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(1, 9)), max_size=6),
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 50)), max_size=40),
)
def test_blocks_differ_where_other_numbers_were_reported_than_reserved(
    reserved: list[tuple[int, int, int]], reported: list[tuple[int, int]]
) -> None:
    columns = [np.array([one[place] for one in reserved], np.int64) for place in range(3)]
    own = dict(zip(("producer", "first_seq", "size"), columns, strict=True))
    sends = [{"producer": producer, "seq": seq, "offset": 0} for producer, seq in reported]
    folds = fold_sends(rows("sends", *sends), 2)
    found = numbers.differing(folds, numbers.fold_reserved(own, 2))
    expected: set[tuple[int, int]] = set()
    for producer in (0, 1):
        for block in range(13):
            here = range(block * 4, block * 4 + 4)
            told = sorted(seq for who, seq in reported if who == producer and seq in here)
            kept = [seq for who, first, size in reserved if who == producer for seq in range(first, first + size)]
            if told != sorted(seq for seq in kept if seq in here):
                expected.add((producer, block))
    assert {tuple(row) for row in found.tolist()} == expected


def test_reservations_are_cut_to_the_blocks_that_differ() -> None:
    own = {"producer": np.array([0, 0]), "first_seq": np.array([2, 20]), "size": np.array([12, 3])}
    own["closed"] = np.array([1, 0])
    found = numbers.clipped(own, np.array([[0, 0], [0, 5], [1, 1]]), 7, bits=2)
    assert [(row["first_seq"], row["count"], row["used"]) for row in found] == [(2, 2, 2), (20, 3, None)]


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_what_was_kept_is_found_again(tmp_path: Path) -> None:
    trees = [{"folds": {"one": np.arange(3)}, "sums": {"seconds": {"second": np.zeros(0, np.int64)}}}, {}]
    Kept(tmp_path).keep("parts-0", trees)
    found = Kept(tmp_path).find("parts-0")
    assert found is not None
    assert found[0]["folds"]["one"].tolist() == [0, 1, 2]
    assert found[0]["sums"]["seconds"]["second"].tolist() == []
    assert found[1] == {}


def test_what_was_torn_is_made_again(tmp_path: Path) -> None:
    Kept(tmp_path).keep("parts-0", [{"one": np.arange(1_000)}])
    path = tmp_path / "parts-0.npz"
    path.write_bytes(path.read_bytes()[:-300])
    assert Kept(tmp_path).find("parts-0") is None
    assert Kept(tmp_path).find("parts-1") is None


def test_slabs_hold_as_many_sends_each_although_one_stands_far_away(tmp_path: Path) -> None:
    sends = [{"seq": n, "offset": n, "sent_ns": n, "done_ns": n + 1} for n in range(1_600)]
    sends[5]["offset"] = 2**50
    own = parts(tmp_path, "sends", rows("sends", *sends), 80)
    found = order.slabs(own, folded(own, LINES, bits=4).folds["sends"], 160)
    sizes = [len(order._rows(slab)["offset"]) for slab in found]
    assert sum(sizes) == len(sends)
    assert len(sizes) == 10
    assert max(sizes) < 200


def test_parts_that_were_kept_are_not_worked_on_again(tmp_path: Path) -> None:
    own = parts(tmp_path, "sends", rows("sends", *({"seq": n, "offset": n} for n in range(20))), 2)
    hands = replace(BY_THREADS, kept=Kept(tmp_path / "kept"))
    once = folded(own, LINES, hands=hands)

    def never(part: Part) -> dict[str, Any]:
        raise AssertionError(part)

    again = hands.fold(never, own)
    counted = added([one["sums"]["producers"] for one in again], ("producer",))
    assert counted["reported"].tolist() == once.sums["producers"]["reported"].tolist() == [20]


def test_each_pass_over_a_large_journal_tells_how_far_it_is() -> None:
    told: list[tuple[int, int, str]] = []
    hands = replace(BY_THREADS, so_far=lambda *far: told.append(far))
    assert hands.each(abs, range(-5, 0), "numbers", chunk=2) == [5, 4, 3, 2, 1]
    assert [far[:2] for far in told] == [(2, 5), (4, 5), (5, 5)]
    assert all(what.startswith("numbers") for _, _, what in told)
    assert told[-1][2].endswith(" 0 s left")


def test_of_two_judges_of_one_run_only_one_keeps_what_it_does(tmp_path: Path) -> None:
    source = Source(tmp_path, tmp_path, cast(RunRecord, None), {}, {})
    with kept_folder(source) as kept:
        assert kept is not None
        (kept / "done").touch()
        with kept_folder(source) as others:
            assert others is None
    with kept_folder(source) as kept:
        assert kept is not None
        assert (kept / "done").exists()
    with kept_folder(replace(source, home=None)) as kept:
        assert kept is None
