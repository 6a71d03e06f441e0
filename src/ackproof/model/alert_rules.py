"""ALERT_RULES: the rules of the health check by name, what each means, and which of them wake somebody at night.

`health.rules` holds the question that each of them asks.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AlertRule:
    name: str
    means: str  # for whoever is told
    wakes: bool  # at night; else it can wait for the morning
    for_s: float  # it has to hold for so long before it is an alert


ALERT_RULES = (
    AlertRule("under-replicated", "one more loss is one too many, sooner than planned", False, 3.0),
    AlertRule("isr-below-minimum", "producers with acks=all are refused", True, 3.0),
    AlertRule("no-leader", "nobody can write or read, and a failover would be done by now", True, 10.0),
    AlertRule("no-controller", "the next failover will not happen", True, 10.0),
    AlertRule("unclean-election", "acknowledged messages are lost", True, 0.0),
    AlertRule("rate", "messages are missing, or nobody can tell", True, 0.0),
)
RULE_NAMES = tuple(rule.name for rule in ALERT_RULES)
