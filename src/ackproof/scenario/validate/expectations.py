"""Reports what is wrong with what a scenario expects of the checks."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.core.errors import did_you_mean
from ackproof.model.checks import CHECKS
from ackproof.model.scenario import Scenario
from ackproof.scenario.shape import Problem


def expectation_problems(scenario: Scenario) -> Iterator[Problem]:
    for field in ("expect", "expect_zookeeper", "expect_kraft"):
        for name, word in getattr(scenario, field).items():
            if name not in CHECKS:
                hint = did_you_mean(name, tuple(CHECKS))
                yield f"{field}.{name}", f"no check {name!r}{hint}: known are {', '.join(CHECKS)}"
            if word not in ("required", "allowed", "forbidden"):
                yield f"{field}.{name}", f"{name} = {word!r}: required, allowed or forbidden"
    for mode in scenario.modes:
        expected = scenario.expected(mode)
        if expected.get("lost") == "required" and not scenario.faults:
            yield "expect.lost", "lost is required, but nothing breaks: without a fault nothing can be lost"
        if expected.get("stale_leader_ack") == "required" and expected.get("lost") == "forbidden":
            yield (
                "expect",
                "stale_leader_ack is required and lost forbidden: what a deposed leader acknowledges is lost",
            )
    for mode in ("zookeeper", "kraft"):
        if getattr(scenario, f"expect_{mode}") and mode not in scenario.modes:
            yield f"expect_{mode}", f"expect_{mode} is given, but the scenario does not run in {mode} mode"
