"""Ackproof: what is an acknowledgement from Kafka worth when the cluster fails?

Everything public is in `__all__`; docs/api.md describes it. A name is imported when it is first used, so that
`import ackproof` is fast and loads neither Spark nor a Kafka client.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ackproof.api.judge import judge
    from ackproof.api.open_run import Run, open_run
    from ackproof.api.run import run
    from ackproof.api.scenarios import list_scenarios, load_scenario
    from ackproof.core.errors import CannotHere, NotProved, Problem, Refused, UsageProblem
    from ackproof.model.run_record import RunRecord
    from ackproof.model.scenario import Scenario
    from ackproof.model.verdict import CheckResult, Fitness, Verdict
    from ackproof.report import write_index, write_junit, write_report

__version__ = "0.2.0"

__all__ = [
    "CannotHere",
    "CheckResult",
    "Fitness",
    "NotProved",
    "Problem",
    "Refused",
    "Run",
    "RunRecord",
    "Scenario",
    "UsageProblem",
    "Verdict",
    "judge",
    "list_scenarios",
    "load_scenario",
    "open_run",
    "run",
    "write_index",
    "write_junit",
    "write_report",
]

_MODULES = {
    "judge": "api.judge",
    "Run": "api.open_run",
    "open_run": "api.open_run",
    "run": "api.run",
    "list_scenarios": "api.scenarios",
    "load_scenario": "api.scenarios",
    **dict.fromkeys(("CannotHere", "NotProved", "Problem", "Refused", "UsageProblem"), "core.errors"),
    "RunRecord": "model.run_record",
    "Scenario": "model.scenario",
    **dict.fromkeys(("CheckResult", "Fitness", "Verdict"), "model.verdict"),
    **dict.fromkeys(("write_index", "write_junit", "write_report"), "report"),
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'ackproof' has no attribute {name!r}")
    value = getattr(import_module(f"ackproof.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _Package(ModuleType):
    """Keeps `ackproof.run` and `ackproof.judge` functions.

    There are packages of these names, too, and Python binds a package to its name here when one of its modules is
    imported for the first time. `from ackproof.run.execution import ...` works without that.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _MODULES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
