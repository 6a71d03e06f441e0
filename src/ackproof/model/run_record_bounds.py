"""How large the numbers and texts of a `run.json` may be.

A run directory may come from a stranger, and the judge makes things of these numbers: a row for each partition, a plan
for each copy of a client. So each has a bound, far above what a laboratory on one machine can run. What breaks a bound
is told in one sentence before anything is made of it. The file as a whole is bounded too (`json_text.LARGEST_JSON`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec

PARTITIONS_MOST = 200_000  # of all topics together; Kafka's own advice for one cluster
CLIENTS_MOST = 10_000  # producers, or consumers, of a run
DEPTH_MOST = 30
_LONG = 2**63 - 1

Kind = TypeVar("Kind")
Id = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Index = Annotated[int, msgspec.Meta(ge=0, le=CLIENTS_MOST)]  # a place in a list
Some = Annotated[int, msgspec.Meta(ge=0, le=10**12)]  # messages, rows
Moment = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]  # in nanoseconds
Name = Annotated[str, msgspec.Meta(max_length=1_000)]
Text = Annotated[str, msgspec.Meta(max_length=100_000)]
Many = Annotated[list[Kind], msgspec.Meta(max_length=CLIENTS_MOST)]
Each = Annotated[dict[Kind, Name], msgspec.Meta(max_length=CLIENTS_MOST)]

# Lists of tables in the plan, and the numbers in it of which as many things are made.
_TABLES = ("topics", "producers", "consumers", "faults", "claims", "alerts")
_COUNTS = {
    "partitions": PARTITIONS_MOST,
    "to_partitions": PARTITIONS_MOST,
    "copies": CLIENTS_MOST,
    "count": 10**12,
    "brokers": 1_000,
    "quorum": 1_000,
    "log_dirs": 1_000,
    "replicas": 1_000,
    "replication": 1_000,
    "threads": 10_000,
}


def check_plan(plan: Mapping[str, Any]) -> None:
    """Raise a ValidationError, in words, where a plan has a shape that no scenario has, or a number beyond bounds."""
    for name in _TABLES:
        tables = plan.get(name)
        if tables is None:
            continue
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise msgspec.ValidationError(f"plan.{name} is no list of tables")
        if len(tables) > CLIENTS_MOST:
            raise msgspec.ValidationError(f"plan.{name} has more than {CLIENTS_MOST:,} entries")
        if sum(max(0, _copies(name, table)) for table in tables) > CLIENTS_MOST:
            raise msgspec.ValidationError(f"plan.{name} has more than {CLIENTS_MOST:,} copies")
    _check(plan, "plan", "")


def _copies(name: str, table: Mapping[str, Any]) -> int:
    copies = table.get("copies", 1)
    if name in ("producers", "consumers") and not isinstance(copies, int):
        raise msgspec.ValidationError(f"plan.{name}.copies is no whole number")
    return copies if isinstance(copies, int) else 1


def _check(value: Any, where: str, key: str, depth: int = 0) -> None:
    if depth > DEPTH_MOST:
        raise msgspec.ValidationError(f"{where[:100]} is nested too deeply")
    if isinstance(value, dict):
        for name, own in value.items():
            _check(own, f"{where}.{name}", name, depth + 1)
    elif isinstance(value, list):
        for own in value:
            _check(own, where, key, depth + 1)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        most = _COUNTS.get(key, _LONG)
        if not math.isfinite(value) or abs(value) > most:
            raise msgspec.ValidationError(f"{where[:100]} is beyond {most:,}")
