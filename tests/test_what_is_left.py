"""What the catalogue runs, and what is left of it to run."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import msgspec
import pytest

from ackproof.report.measures import Measured
from scripts_as_modules import script


@pytest.fixture(scope="module")
def catalogue() -> ModuleType:
    return script("catalogue")


CELL = ("isr-lag", "base", "kraft")


def test_every_section_is_run_and_of_a_only_the_base_shape(catalogue: ModuleType) -> None:
    found = list(catalogue.cells(["A", "B", "C", "D", "E"], ["zookeeper", "kraft"], None))
    assert len(found) == len(set(found))
    assert {shape for name, shape, _ in found if name.startswith("acks")} == {"base"}
    assert {("unclean-election", "on", "kraft"), ("load-sharing", "kip848", "kraft")} <= set(found)
    assert ("load-sharing", "kip848", "zookeeper") not in found


@pytest.mark.parametrize(
    ("done", "left"),
    [
        ([], 3),
        (["confirmed", "confirmed"], 1),
        (["confirmed", "confirmed", "confirmed"], 0),
        (["confirmed", "confirmed", "refuted"], 3),
        (["refuted", "confirmed", "confirmed", "confirmed"], 0),
        (["unknown", "confirmed", "not judged"], 1),
    ],
)
def test_a_line_needs_so_many_runs_in_a_row_that_nothing_contradicts(
    catalogue: ModuleType, done: list[str], left: int
) -> None:
    assert catalogue.missing([CELL], 3, {CELL: done}) == [CELL] * left


def test_rounds_come_one_after_the_other(catalogue: ModuleType) -> None:
    other = ("isr-lag", "base", "zookeeper")
    assert catalogue.missing([CELL, other], 2, {}) == [CELL, other, CELL, other]


def test_slow_and_crowd_are_run_once(catalogue: ModuleType) -> None:
    crowd = ("acks1-leader-isolated", "crowd", "kraft")
    assert catalogue.missing([crowd], 3, {}) == [crowd]


def test_what_measures_something_has_the_machine_to_itself(catalogue: ModuleType) -> None:
    cells = list(catalogue.cells(["A", "B", "C", "D", "E"], ["kraft"], None))
    alone = {(name, shape) for name, shape, mode in cells if catalogue.measures((name, shape, mode))}
    assert {("failover-1000", "base"), ("rate-alert", "hung"), ("duplicates", "long")} <= alone
    assert not {name for name, _ in alone} & {"acks1-leader-isolated", "membership", "transactions"}


def row(catalogue: ModuleType, run: str, **fields: Any) -> Any:
    told = {
        "section": "E",
        "scenario": "isr-lag",
        "shape": "base",
        "mode": "kraft",
        "result": "confirmed",
        "run_s": 60.0,
    }
    return catalogue.Row(run=run, kafka="4.3.1", acked=1, **(told | fields))


def test_a_run_that_was_not_confirmed_is_named_until_it_is_explained(catalogue: ModuleType) -> None:
    good, known, new = (
        row(catalogue, f"20261116-02000{second}-isr-lag-base-kraft", result=result)
        for second, result in enumerate(["confirmed", "refuted", "unknown"])
    )
    rows, explained = [good, known, new], {known.run: "The follower was the controller."}
    assert catalogue.unexplained(rows, explained) == [new]
    page = catalogue.page(rows, explained)
    assert f"**{known.run}**, refuted: The follower was the controller." in page
    assert f"**{new.run}**, unknown: not explained yet." in page
    assert f"**{good.run}**" not in page


def test_a_sitting_ends_with_a_pause_and_counts_only_what_is_run_without_options(catalogue: ModuleType) -> None:
    crowd = row(catalogue, "20261116-015900-acks1-leader-isolated-crowd-kraft", section="A", shape="crowd")
    first = row(catalogue, "20261116-020000-isr-lag-base-kraft")
    second = row(catalogue, "20261116-020900-isr-lag-base-zookeeper", mode="zookeeper", run_s=90.0)
    later = row(catalogue, "20261116-022100-isr-lag-base-kraft")
    assert catalogue.longest_sitting([later, second, first, crowd]) == [first, second]
    assert "has 2 runs\nof 2 lines and took 10 minutes" in catalogue.page([later, second, first, crowd], {})
    assert catalogue.longest_sitting([]) == []


def test_what_runs_measured_stands_below_their_table_and_older_rows_have_none(catalogue: ModuleType) -> None:
    gaps = Measured("site_gap", "How long nobody wrote", ["gap of", "ms"], [["writes", "318"], ["reads", "4,028"]], [])
    rows = [
        row(catalogue, "20261116-020000-mirror-failover-base-kraft", measured=[gaps]),
        row(catalogue, "20261115-020000-mirror-failover-base-kraft"),
    ]
    told = """### What was measured

<details><summary>How long nobody wrote</summary>

| run | gap of | ms |
| --- | --- | --- |
| 20261116-020000-mirror-failover-base-kraft | writes | 318 |
|  | reads | 4,028 |
"""
    assert told in catalogue.page(rows, {})
    assert "What was measured" not in catalogue.page(rows[1:], {})
    assert [msgspec.json.decode(msgspec.json.encode(each), type=catalogue.Row) for each in rows] == rows
