"""Worlds with what only looks like an anomaly, drawn; and what a check shows of a witness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from itertools import cycle
from random import Random

from tests.support.histories import FIRST_RUN
from tests.support.oracles import planting
from tests.support.oracles import planting_scenarios as scenarios
from tests.support.oracles.planting import World
from tests.support.proving import size

WITNESS: dict[str, tuple[str, ...]] = {**planting.WITNESS, **scenarios.WITNESS}
LOOK_ALIKES: tuple[tuple[Callable[..., World], tuple[planting.Plant, ...]], ...] = (  # each in a world of its kind
    (World, planting.LOOK_ALIKES),
    (partial(World, transactional=True), planting.OF_TRANSACTIONS),
    *scenarios.LOOK_ALIKES,
)
FACTS = ("duplicated", "delivered_twice", "site_gap")  # that are allowed: copies, repeats and how long a move took
FIRST_LEGAL = FIRST_RUN + 100_000
Drawn = Counter[tuple[int, planting.Plant]]  # in which kind of world, and what


@cache
def drawn() -> tuple[list[World], Drawn]:
    """Several look-alikes in each, of any kind, each in a partition of its own; the first two of each world in turn, so
    that all of them stand somewhere."""
    lots = Random(2)  # noqa: S311
    in_turn = [cycle(look_alikes) for _, look_alikes in LOOK_ALIKES]
    worlds, plants = [], Drawn()
    for place in range(size(60, 1_000)):
        which = place % len(LOOK_ALIKES)
        kind, look_alikes = LOOK_ALIKES[which]
        world = kind(FIRST_LEGAL + place, 8, 10)
        scenarios.tell_of_replicas(world)
        for nth, partition in enumerate(lots.sample(range(8), lots.randint(1, 8))):
            plant = next(in_turn[which]) if nth < 2 else lots.choice(look_alikes)
            plant(world, partition, lots.randint(0, 1))
            plants[which, plant] += 1
        worlds.append(world)
    return worlds, plants


def legal() -> list[World]:
    return drawn()[0]


@cache
def finished(make: Callable[[], list[World]]) -> list[World]:
    for world in make():
        world.finished()
    return make()
