"""ALERT_RULES: the rules of the health check, what each means, and which of them wake a person at night.

`health/rules.py` holds the function of each rule.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AlertRule:
    name: str
    means: str  # shown to the person who gets the alert
    wakes: bool  # whether it wakes a person at night; if not, it can wait for the morning
    for_s: float  # how long the condition must hold before the alert is raised


ALERT_RULES = (
    AlertRule("under-replicated", "fewer brokers may fail than planned", False, 3.0),
    AlertRule("isr-below-minimum", "producers with acks=all are refused", True, 3.0),
    AlertRule("no-leader", "no client can write or read, and a failover would be done by now", True, 10.0),
    AlertRule("no-controller", "the next failover will not happen", True, 10.0),
    AlertRule("unclean-election", "acknowledged messages are lost", True, 0.0),
    AlertRule("rate", "messages are missing, or the rate is unknown", True, 0.0),
)
RULE_NAMES = tuple(rule.name for rule in ALERT_RULES)
