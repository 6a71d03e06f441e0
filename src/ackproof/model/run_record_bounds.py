"""How large the numbers and texts of a `run.json` may be.

A run directory may come from a stranger, and the judge makes as many things as these numbers say: a row for each
partition, a plan for each copy of a client. So each number has a bound, far above what a lab on one machine can run. A
number beyond its bound is reported in one sentence before it is used. The file is bounded too (`LARGEST_JSON`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import msgspec

from ackproof.model.scenario import Scenario

PARTITIONS_MOST = 200_000  # of all topics together; Kafka's own advice for one cluster
CLIENTS_MOST = 10_000  # producers, or consumers, of a run
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

# The numbers in the plan of which as many things are made.
_COUNTS = {
    "partitions": PARTITIONS_MOST,
    "to_partitions": PARTITIONS_MOST,
    "copies": CLIENTS_MOST,
    "count": 10**12,
    "brokers": 1_000,
    "quorum": 1_000,
    "log_dirs": 1_000,
    "replication": 1_000,
    "threads": 10_000,
}


def check_plan(plan: Scenario) -> None:
    """Raise a ValidationError, in words, where a number in a plan is beyond bounds."""
    lists: dict[str, Sequence[object]] = {
        "topics": plan.topics,
        "producers": plan.producers,
        "consumers": plan.consumers,
        "faults": plan.faults,
        "claims": plan.claims,
        "alerts": plan.alerts,
    }
    for name, entries in lists.items():
        if len(entries) > CLIENTS_MOST:
            raise msgspec.ValidationError(f"plan.{name} has more than {CLIENTS_MOST:,} entries")
        if sum(max(0, getattr(entry, "copies", 1)) for entry in entries) > CLIENTS_MOST:
            raise msgspec.ValidationError(f"plan.{name} has more than {CLIENTS_MOST:,} copies")
    _check(msgspec.to_builtins(plan), "plan", "")


def _check(value: Any, where: str, key: str) -> None:
    if isinstance(value, dict):
        for name, own in value.items():
            _check(own, f"{where}.{name}", name)
    elif isinstance(value, list):
        for own in value:
            _check(own, where, key)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        most = _COUNTS.get(key, _LONG)
        if not math.isfinite(value) or abs(value) > most:
            raise msgspec.ValidationError(f"{where[:100]} is larger than {most:,}")
