"""Planted anomalies are found, each of them and nothing else; what only looks like one is not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cache
from itertools import product
from random import Random
from typing import Any

import pytest
from pyspark.sql import Row

from ackproof.judge.frames import Tables
from ackproof.judge.registry import QUESTIONS
from ackproof.model.checks import CHECKS
from ackproof.model.checks.kind import CheckKind
from ackproof.spark.session import collected
from tests.support.asking import spark, tables_of
from tests.support.histories import FIRST_RUN
from tests.support.oracles import planting
from tests.support.oracles import planting_scenarios as scenarios
from tests.support.oracles.planted import FACTS, LOOK_ALIKES, WITNESS, drawn, finished, legal
from tests.support.oracles.planting import World
from tests.support.proving import size

Told = Callable[[str, object], None]
ANOMALIES = (*planting.ANOMALIES, *scenarios.ANOMALIES)
IN = {**planting.IN, **scenarios.IN}
AT_ONCE = 1_000  # histories in one job
MESSAGES = {1: 75, 10: 25, 100: 5}  # of each partition, by the number of partitions


@cache
def planted() -> list[World]:
    """One, two and ten of each kind, in one, ten and a hundred partitions."""
    lots = Random(1)  # noqa: S311 - the same journals every time
    worlds: list[World] = []
    for _ in range(size(1, 3)):
        for plant in ANOMALIES:
            for partitions, count in size(((1, 2), (10, 1), (10, 10)), tuple(product((1, 10, 100), (1, 2, 10)))):
                if partitions == 1 and plant in scenarios.BETWEEN_PARTITIONS:
                    continue
                world = IN.get(plant, World)(FIRST_RUN + len(worlds), partitions, MESSAGES[partitions])
                scenarios.tell_of_replicas(world)
                for partition, k in sorted(lots.sample(world.slots, count)):
                    plant(world, partition, k)
                worlds.append(world)
    return worlds


@cache
def batches() -> list[Tables]:
    worlds = [*finished(planted), *finished(legal)]
    parts = [worlds[first : first + AT_ONCE] for first in range(0, len(worlds), AT_ONCE)]
    return [tables_of(spark(), *(world.history for world in part)) for part in parts]


@cache
def found_by(check: str) -> dict[int, list[tuple[Any, ...]]]:
    """In all worlds, planted and legal, which share their jobs."""
    found = defaultdict[int, list[tuple[Any, ...]]](list)
    for tables in batches():
        for row in collected(QUESTIONS[check](tables)):
            if counts(CHECKS[check], row):
                found[row["run"]].append(tuple(plain(row[name]) for name in WITNESS[check]))
    return found


def compare(check: str, make: Callable[[], list[World]]) -> int:
    """How many witnesses there are; it fails where one is missing or one too many."""
    total = 0
    for world in finished(make):
        own, expected = (sorted(each, key=repr) for each in (found_by(check)[world.run], world.expected[check]))
        assert own == expected, (world.run, world.expected)
        total += len(own)
    return total


def plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def counts(check: CheckKind, row: Row) -> bool:
    """Whether a row of a check is a witness, or says that the answer is unknown."""
    undecided = check.inconclusive_when is not None and row[check.inconclusive_when[0]] == check.inconclusive_when[1]
    return check.counted_column is None or bool(row[check.counted_column]) or undecided


@pytest.mark.proves("C1")
@pytest.mark.timeout(size(600, 6 * 3600))  # the first of them makes all the journals
@pytest.mark.parametrize("check", WITNESS)
def test_what_was_planted_is_found_and_nothing_else(check: str, record_property: Told) -> None:
    worlds = finished(planted)
    assert compare(check, planted) > 0
    total = sum(len(each) for world in worlds for each in world.expected.values())
    record_property(
        "figure",
        f"recall and precision 1.0: {total:,} witnesses of {len(WITNESS)} checks in {len(worlds):,} journals with "
        f"{len(ANOMALIES)} kinds of anomaly, each named",
    )


@pytest.mark.proves("C2")
@pytest.mark.timeout(size(600, 6 * 3600))
@pytest.mark.parametrize("check", WITNESS)
def test_what_only_looks_like_an_anomaly_is_none(check: str, record_property: Told) -> None:
    worlds = finished(legal)
    found = compare(check, legal)
    assert found == 0 or check in FACTS
    plants = drawn()[1]
    record_property(
        "figure",
        f"no alarm of {len(WITNESS)} checks in {len(worlds):,} journals with {plants.total():,} look-alikes of "
        f"{len({plant for _, plant in plants})} kinds",
    )


@pytest.mark.proves("C1", "C2")
def test_everything_is_planted() -> None:
    """Every check that is planted has an anomaly; every look-alike stands somewhere in a world of its kind."""
    assert {check for world in finished(planted) for check in world.expected if world.expected[check]} == set(WITNESS)
    assert {*WITNESS, *scenarios.VIEWS} <= set(CHECKS)
    assert {check for world in finished(legal) for check in world.expected} >= {"duplicated", "delivered_twice"}
    every = {(which, plant) for which, (_, look_alikes) in enumerate(LOOK_ALIKES) for plant in look_alikes}
    assert set(drawn()[1]) == every
