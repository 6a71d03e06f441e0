"""One run as it was requested: the scenario, and how and where to run it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ackproof.api.scenarios import load_source
from ackproof.core.errors import UsageProblem
from ackproof.kafka.distribution.jars import DEFAULT_KRAFT, DEFAULT_ZOOKEEPER
from ackproof.lab.spec import LabSpec, Setting, check
from ackproof.model.scenario import Scenario
from ackproof.scenario.executes import what_it_executes
from ackproof.scenario.source import find

LARGE_LOAD = 500_000  # messages

Mode = Literal["zookeeper", "kraft"]


@dataclass(frozen=True)
class RunRequest:
    """Everything that decides what one run does."""

    given: str  # the scenario's name or file, as the user wrote it
    scenario: Scenario
    mode: Mode
    shape: str
    seed: int
    out: Path
    keep: bool
    judged: bool
    kafka: str | None
    settings: Sequence[str]
    executes: Sequence[str] = ()  # what a scenario that is not bundled executes on this machine, in sentences

    @property
    def version(self) -> str:
        """The version of Kafka."""
        return self.kafka or (DEFAULT_ZOOKEEPER if self.mode == "zookeeper" else DEFAULT_KRAFT)

    def lab(self, name: str) -> LabSpec:
        """Return the lab that the run needs. Raise UsageProblem if no such lab can exist."""
        cluster = self.scenario.cluster
        settings = [
            Setting(scope, key, str(value).lower() if isinstance(value, bool) else str(value))
            for scope, key, value in self.scenario.settings(self.mode)
        ]
        return check(
            LabSpec(
                kafka=self.version,
                name=name,
                mode=self.mode,
                brokers=cluster.brokers,
                quorum=cluster.quorum,
                racks=tuple(cluster.racks),
                log_dirs=cluster.log_dirs,
                settings=tuple(settings),
                users=tuple(cluster.access.users) if cluster.access else (),
                clients=self.scenario.client_hosts,
                expose=any(client.where == "host" for client in self.scenario.clients),
                second=cluster.second,
                mirror=cluster.mirror,
            )
        )

    @property
    def large(self) -> bool:
        return self.scenario.total >= LARGE_LOAD

    @property
    def judge_starts_early(self) -> bool:
        """Whether the judge starts together with the load. A health check runs Spark too, and there is no room for two
        of them."""
        return self.judged and self.scenario.health is None

    def command(self) -> list[str]:
        """The command that runs it again."""
        words = ["ackproof", "run", self.given, "--mode", self.mode, "--shape", self.shape, "--seed", str(self.seed)]
        words += ["--kafka", self.kafka] if self.kafka else []
        return words + [word for setting in self.settings for word in ("--set", setting)]


def request_run(
    scenario: str, *, mode: Mode, shape: str, settings: Sequence[str], seed: int | None, out: Path, kafka: str | None
) -> RunRequest:
    """Load a scenario and return the request to run and judge it. Without a seed, draw one."""
    drawn = random.SystemRandom().randrange(2**32) if seed is None else seed
    source = find(scenario)
    loaded = load_source(source, shape, settings, drawn)
    if mode not in loaded.modes:
        runs_in = ", ".join(loaded.modes)
        raise UsageProblem(f"{loaded.name} does not run in {mode} mode; it runs in {runs_in}")
    executes = what_it_executes(loaded) if settings or not source.bundled else []
    return RunRequest(scenario, loaded, mode, shape, drawn, out, False, True, kafka, list(settings), executes)
