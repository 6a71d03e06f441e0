"""Loads a scenario: its file, changed by a shape and by `--set`, and checked in full before anything starts.

A file may hold `[shapes.NAME]` tables that change some of it (slow, crowd); `--set` changes single fields. All problems
are reported at once, each with its file and line.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence

from ackproof.core.cluster_guard import SETTINGS, is_elsewhere, refusal
from ackproof.core.errors import UsageProblem
from ackproof.model.scenario import Scenario
from ackproof.scenario.overrides import PLURALS, merged, override
from ackproof.scenario.shape import Problem, read_shape
from ackproof.scenario.source import Source, located
from ackproof.scenario.validate.problems import problems


def load(source: Source, shape: str = "base", settings: Sequence[str] = (), seed: int | None = None) -> Scenario:
    """Return the scenario as it will run with this seed, or report all its problems, each with its line."""
    data = copy.deepcopy(source.data)
    shapes = data.pop("shapes", {})
    if not isinstance(shapes, dict) or not all(isinstance(each, dict) for each in shapes.values()):
        raise UsageProblem(located(source, "shapes", "shapes: write each as a table, [shapes.NAME]"))
    if shape != "base":
        if shape not in shapes:
            raise UsageProblem(f"{source.path} has no shape {shape!r}: it has {', '.join(source.shapes)}")
        data = merged(data, shapes[shape])
    for setting in settings:
        override(data, setting)
    scenario, wrong = read_shape(data)
    _refuse_elsewhere(source, scenario)
    if found := [*wrong.problems, *(problem for problem in problems(scenario) if not wrong.explains(problem))]:
        told = [_told(source, problem, settings) for problem in found]
        raise UsageProblem(told[0] if len(told) == 1 else f"{source.path}: {len(told)} problems:", told[1:] and told)
    return scenario.draw(seed)


def _refuse_elsewhere(source: Source, scenario: Scenario) -> None:
    """Refuse a fault or a client that is aimed at a cluster outside the lab."""
    aims = [(f"faults.{number}", name) for number, fault in enumerate(scenario.faults) for _, name in fault.names]
    drawn = scenario.drawn.faults if scenario.drawn else []
    aims += [(f"drawn.faults.{number}", name) for number, fault in enumerate(drawn) for _, name in fault.names]
    clients = [
        (f"producers.{number}", producer.bootstrap, producer.settings)
        for number, producer in enumerate(scenario.producers)
    ]
    clients += [
        (f"consumers.{number}", consumer.bootstrap, consumer.settings)
        for number, consumer in enumerate(scenario.consumers)
    ]
    for place, names, options in clients:
        aims += [(f"{place}.bootstrap", name) for name in names]
        aims += [(f"{place}.settings", key) for key in options if key in SETTINGS]
    for place, name in aims:
        if name in SETTINGS or is_elsewhere(name):
            raise refusal(located(source, place, name))


def _told(source: Source, problem: Problem, settings: Sequence[str]) -> str:
    """Put a problem's place before it: the `--set` that gave that field, if one did, or else the line."""
    where, what = problem
    for setting in reversed(settings):
        first, *rest = setting.partition("=")[0].strip().split(".")
        ways = (where, re.sub(r"\.\d+", "", where, count=1))  # of the first producer, or of every one
        if ".".join([PLURALS.get(first, first), *rest]) in ways:
            return f"--set {setting}: {what}"
    return located(source, where, what)
