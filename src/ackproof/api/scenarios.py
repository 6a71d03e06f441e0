"""Load a scenario and check it in full, before anything is started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ackproof.core.errors import UsageProblem
from ackproof.model.scenario import Scenario
from ackproof.scenario.load import load
from ackproof.scenario.source import Source, bundled, find, located


def list_scenarios() -> list[str]:
    """Return the names of the bundled scenarios."""
    return bundled()


def load_scenario(
    scenario: str | Path, *, shape: str = "base", settings: Sequence[str] = (), seed: int | None = None
) -> Scenario:
    """Return a scenario with its shape and settings applied. Raise UsageProblem with everything that is wrong with it.

    `scenario` is the name of a bundled scenario or the path of a TOML file; `settings` are like `producer.acks=all`.
    """
    return load_source(find(str(scenario)), shape, settings, seed)


def load_source(source: Source, shape: str, settings: Sequence[str] = (), seed: int | None = None) -> Scenario:
    """Return the scenario of a file that was read already.

    Besides the file itself it checks whether librdkafka accepts the clients' settings, and whether this kernel can
    delay packets if a fault needs that.
    """
    scenario = load(source, shape, settings, seed)
    _check_client_settings(source, scenario)
    _check_delay(source, scenario)
    return scenario


def _check_client_settings(source: Source, scenario: Scenario) -> None:
    from ackproof.scenario.validate.client_settings import refused

    if wrong := [located(source, where, what) for where, what in refused(scenario)]:
        raise UsageProblem(wrong[0] if len(wrong) == 1 else f"{len(wrong)} problems:", wrong[1:] and wrong)


def _check_delay(source: Source, scenario: Scenario) -> None:
    pools = {"faults": scenario.faults, "drawn.faults": scenario.drawn.faults if scenario.drawn else []}
    delayed = [
        f"{pool}.{number}.kind" for pool in pools for number, fault in enumerate(pools[pool]) if fault.about.needs_netem
    ]
    if delayed:
        from ackproof.lab.preflight import cannot_delay

        if problem := cannot_delay():
            told = f"this machine cannot delay packets, which `slow` needs ({problem}); `flaky`, `pause` and `cut` work"
            raise UsageProblem(located(source, delayed[0], told))
