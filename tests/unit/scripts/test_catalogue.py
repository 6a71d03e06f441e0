"""`scripts/catalogue`: which lines it runs, and which are still to run."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.support.scripts_as_modules import script


@pytest.fixture(scope="module")
def catalogue() -> ModuleType:
    return script("catalogue")


CELL = ("isr-lag", "base", "kraft")


def test_every_section_runs_and_section_a_in_its_base_shape_only(catalogue: ModuleType) -> None:
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
def test_a_line_is_repeated_until_nothing_contradicted_it_so_many_times_in_a_row(
    catalogue: ModuleType, done: list[str], left: int
) -> None:
    assert catalogue.missing([CELL], 3, {CELL: done}) == [CELL] * left


def test_each_line_runs_once_in_a_round(catalogue: ModuleType) -> None:
    other = ("isr-lag", "base", "zookeeper")
    assert catalogue.missing([CELL, other], 2, {}) == [CELL, other, CELL, other]


def test_the_shapes_slow_and_crowd_run_once(catalogue: ModuleType) -> None:
    crowd = ("acks1-leader-isolated", "crowd", "kraft")
    assert catalogue.missing([crowd], 3, {}) == [crowd]


def test_a_scenario_that_measures_something_runs_alone(catalogue: ModuleType) -> None:
    cells = list(catalogue.cells(["A", "B", "C", "D", "E"], ["kraft"], None))
    alone = {(name, shape) for name, shape, mode in cells if catalogue.measures((name, shape, mode))}
    assert {("failover-1000", "base"), ("rate-alert", "hung"), ("duplicates", "long")} <= alone
    assert not {name for name, _ in alone} & {"acks1-leader-isolated", "membership", "transactions"}
