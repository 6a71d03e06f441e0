"""External clients: any command, judged by what it prints. Which checks such clients cannot answer, and why.

A scenario names the command of a producer or a consumer. Placeholders such as `{topic}` are filled in. If the first
word is a Kafka tool, such as `kafka-verifiable-producer`, the lab runs that tool of its own Kafka. The command prints
one JSON event per line, in the format of that tool.
"""

from __future__ import annotations

import re

from ackproof.model.checks import CHECKS
from ackproof.model.scenario import Scenario

KAFKA_TOOL = "kafka-"  # the first word of a command begins with it if the command is a Kafka tool
PLACEHOLDER = re.compile(r"\{(\w+)\}")

# The checks that need more than the events of external clients, and what is missing.
UNKNOWN_OF_PRODUCERS = {name: check.producers_lack for name, check in CHECKS.items() if check.producers_lack}
UNKNOWN_OF_CONSUMERS = {name: check.consumers_lack for name, check in CHECKS.items() if check.consumers_lack}
UNKNOWN_OF_LATEST_CONSUMERS = {
    name: check.latest_consumers_lack for name, check in CHECKS.items() if check.latest_consumers_lack
}


def not_applicable(scenario: Scenario) -> dict[str, str]:
    """The checks that this scenario's external clients cannot answer, each with the reason in words."""
    producers = [f"producer{place}" for place, plan in enumerate(scenario.each_producer, start=1) if plan.command]
    plans = {f"consumer{place}": plan for place, plan in enumerate(scenario.each_consumer, start=1) if plan.command}
    consumers, from_latest = list(plans), [name for name, plan in plans.items() if plan.start == "latest"]
    reasons: dict[str, str] = {}
    for names, unknown in (
        (producers, UNKNOWN_OF_PRODUCERS),
        (consumers, UNKNOWN_OF_CONSUMERS),
        (from_latest, UNKNOWN_OF_LATEST_CONSUMERS),
    ):
        tell = "does not tell" if len(names) == 1 else "do not tell"
        reasons |= {check: f"{', '.join(names)} {tell} {what}" for check, what in unknown.items() if names}
    return reasons
