"""Reports what is wrong with a scenario as a whole, with its cluster and with the lines of its judge."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from ackproof.core.errors import UsageProblem
from ackproof.kafka.distribution.jars import DEFAULT_KRAFT, DEFAULT_ZOOKEEPER
from ackproof.lab.spec import BROKERS_MAX, LOG_DIRS_MAX, QUORUM_SIZES, LabSpec, Setting, check
from ackproof.model.scenario import Scenario
from ackproof.scenario.shape import Problem


def cluster_problems(scenario: Scenario) -> Iterator[Problem]:
    yield from _basics(scenario)
    if 1 <= scenario.cluster.brokers <= BROKERS_MAX:
        yield from dict.fromkeys(_settings(scenario))


def _basics(scenario: Scenario) -> Iterator[Problem]:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", scenario.name):
        yield "name", f"name {scenario.name!r}: use small letters, digits and -, up to 64"
    if not scenario.modes:
        yield "modes", "modes: name at least one of zookeeper, kraft"
    if not 1 <= scenario.cluster.brokers <= BROKERS_MAX:
        yield "cluster.brokers", f"brokers = {scenario.cluster.brokers}: from 1 to {BROKERS_MAX}"
    if scenario.cluster.quorum not in QUORUM_SIZES:
        yield "cluster.quorum", f"quorum = {scenario.cluster.quorum}: 1, 3 or 5"
    if not 1 <= scenario.cluster.log_dirs <= LOG_DIRS_MAX:
        yield "cluster.log_dirs", f"log_dirs = {scenario.cluster.log_dirs}: from 1 to {LOG_DIRS_MAX}"
    for name in ("unavailable_ms", "late_ms", "rate_line", "dip_s"):
        line = getattr(scenario.judge, name)
        if line is not None and not 0 <= line < math.inf:
            yield f"judge.{name}", f"{name} = {line:g}: a number, and not below 0"
        elif line is not None and name == "unavailable_ms" and line < 1:
            yield f"judge.{name}", f"{name} = {line:g}: at least 1, for there is always a moment between two acks"
    if not 1 <= scenario.timeout_s <= 86_400:
        yield "timeout_s", f"timeout_s = {scenario.timeout_s:g}: from 1 to 86400 seconds"


def _settings(scenario: Scenario) -> Iterator[Problem]:
    """Report what `ackproof up` would refuse, in any of the modes."""
    for mode in scenario.modes:
        version = DEFAULT_ZOOKEEPER if mode == "zookeeper" else DEFAULT_KRAFT
        settings = tuple(Setting(scope, key, str(value)) for scope, key, value in scenario.settings(mode))
        cluster = scenario.cluster
        spec = LabSpec(
            kafka=version,
            mode=mode,
            brokers=cluster.brokers,
            settings=settings,
            second=cluster.second,
            mirror=cluster.mirror,
        )
        try:
            check(spec)
        except UsageProblem as problem:
            yield from (("cluster.settings", what) for what in problem.details or [problem.message])
