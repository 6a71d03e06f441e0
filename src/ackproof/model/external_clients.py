"""Clients that we did not write: any command, judged by what it prints. What it is given, and what it cannot tell.

A scenario names the command of a producer or a consumer. `{topic}` and its like are filled in; a first word such as
`kafka-verifiable-producer` is Kafka's own tool, of the very Kafka that the lab runs. What the command prints is one
JSON event a line, in the format of that tool.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

KAFKA_TOOL = "kafka-"  # how the first word of a command begins where it is one of Kafka's tools
PLACEHOLDER = re.compile(r"\{(\w+)\}")

# Of each check that needs more than a foreign client's events hold: what is missing.
UNTOLD_BY_PRODUCERS = {
    "realtime_order": "when a send began",
    "late": "when a send was due, nor when it began",
    "rate": "when a send was made",
    "dips": "when an acknowledgement reached it",
    "throughput": "when a send began, nor when an acknowledgement reached it",
    "phases": "when a send was made",
    "unavailable": "since when a send waited",
    "zombie_ack": "when an acknowledgement reached it",
    "failover": "when an acknowledgement or an error reached it",
    "aborted_read": "which sends certainly failed",
    "resurrected": "which sends certainly failed",
}
UNTOLD_BY_CONSUMERS = {
    "two_owners": "when exactly it owned a partition",
    "unowned": "when exactly it owned a partition",
    "rebalances": "when exactly it owned a partition",
    "commit_back": "when exactly it committed",
}
UNTOLD_FROM_THE_END = {"undelivered": "from where on a partition was read"}


def not_applicable(plan: Mapping[str, Any]) -> dict[str, str]:
    """Each check that this plan's clients do not tell enough for, and why, in words."""
    foreign: dict[str, Mapping[str, Any]] = {}
    for kind in ("producer", "consumer"):
        every = [each for each in plan.get(f"{kind}s", []) for _ in range(each.get("copies", 1))]
        foreign |= {f"{kind}{number}": each for number, each in enumerate(every, start=1) if each.get("command")}
    producers = [name for name in foreign if name.startswith("producer")]
    consumers = [name for name in foreign if name.startswith("consumer")]
    from_the_end = [name for name in consumers if foreign[name].get("start") == "latest"]
    reasons: dict[str, str] = {}
    for names, untold in (
        (producers, UNTOLD_BY_PRODUCERS),
        (consumers, UNTOLD_BY_CONSUMERS),
        (from_the_end, UNTOLD_FROM_THE_END),
    ):
        tell = "does not tell" if len(names) == 1 else "do not tell"
        reasons |= {check: f"{', '.join(names)} {tell} {what}" for check, what in untold.items() if names}
    return reasons
