"""Clients that we did not write: any command, judged by what it prints. What it is given, and what it cannot tell.

A scenario names the command of a producer or a consumer. `{topic}` and its like are filled in; a first word such as
`kafka-verifiable-producer` is Kafka's own tool, of the very Kafka that the lab runs. What the command prints is one
JSON event a line, in the format of that tool.
"""

from __future__ import annotations

import re

from ackproof.model.checks import CHECKS
from ackproof.model.scenario import Scenario

KAFKA_TOOL = "kafka-"  # how the first word of a command begins where it is one of Kafka's tools
PLACEHOLDER = re.compile(r"\{(\w+)\}")

# Of each check that needs more than an external client's events hold: what is missing.
UNTOLD_BY_PRODUCERS = {name: check.producers_lack for name, check in CHECKS.items() if check.producers_lack}
UNTOLD_BY_CONSUMERS = {name: check.consumers_lack for name, check in CHECKS.items() if check.consumers_lack}
UNTOLD_FROM_THE_END = {
    name: check.latest_consumers_lack for name, check in CHECKS.items() if check.latest_consumers_lack
}


def not_applicable(scenario: Scenario) -> dict[str, str]:
    """Return each check that this scenario's clients do not tell enough for, and why, in words."""
    producers = [f"producer{place}" for place, plan in enumerate(scenario.each_producer, start=1) if plan.command]
    foreign = {f"consumer{place}": plan for place, plan in enumerate(scenario.each_consumer, start=1) if plan.command}
    consumers, from_the_end = list(foreign), [name for name, plan in foreign.items() if plan.start == "latest"]
    reasons: dict[str, str] = {}
    for names, untold in (
        (producers, UNTOLD_BY_PRODUCERS),
        (consumers, UNTOLD_BY_CONSUMERS),
        (from_the_end, UNTOLD_FROM_THE_END),
    ):
        tell = "does not tell" if len(names) == 1 else "do not tell"
        reasons |= {check: f"{', '.join(names)} {tell} {what}" for check, what in untold.items() if names}
    return reasons
