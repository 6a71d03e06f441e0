"""Scenarios from the few keys that matter to a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ackproof.model.scenario import Scenario
from ackproof.scenario.shape import read_shape

_USUAL: dict[str, dict[str, Any]] = {
    "topics": {"name": "orders"},
    "producers": {"topic": "orders", "count": 0},
    "consumers": {"topic": "orders", "group": "group"},
}


def plan_of(tables: Mapping[str, Any] | None = None) -> Scenario:
    """A scenario with these tables. What they do not say is filled in; a key with None is left out, as in TOML."""
    plan: dict[str, Any] = {"producers": [], "topics": [], **(tables or {})}
    for name, usual in _USUAL.items():
        plan[name] = [usual | _said(table) for table in plan.get(name, [])]
    return read_shape(plan)[0]


def _said(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}
