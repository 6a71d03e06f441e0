"""CHECKS: every question that the judge asks of a run, in the order of the verdict.

The entries of a topic are in the file of that name here, and the functions in the folder of that name in
`judge/checks/`; `judge/registry.py` finds them. The scenario schema, the validation of `[expect]`, the words of the
verdict, the glossary and the tables in the docs come from here.

By default a check forbids only what no configuration of Kafka permits. It allows what follows from acks=1 or from a
network split: an offset given twice, a read that did not last, a second leader, a high watermark that fell.
"""

from __future__ import annotations

from ackproof.model.checks import (
    dedup,
    durability,
    groups,
    leadership,
    mirror,
    placement,
    reads,
    timing,
    transactions,
)
from ackproof.model.checks.kind import CheckKind

TOPICS: dict[str, dict[str, CheckKind]] = {
    "durability": durability.CHECKS,
    "reads": reads.CHECKS,
    "leadership": leadership.CHECKS,
    "groups": groups.CHECKS,
    "transactions": transactions.CHECKS,
    "timing": timing.CHECKS,
    "placement": placement.CHECKS,
    "mirror": mirror.CHECKS,
    "dedup": dedup.CHECKS,
}
CHECKS: dict[str, CheckKind] = {name: kind for checks in TOPICS.values() for name, kind in checks.items()}
