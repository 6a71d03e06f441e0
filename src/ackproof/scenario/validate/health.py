"""Reports what is wrong with a scenario's health check and with the alerts that it expects."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.core.errors import did_you_mean
from ackproof.health.alert_sinks import webhook_problem
from ackproof.model.alert_rules import RULE_NAMES
from ackproof.model.scenario import AlertPlan, HealthPlan, Scenario
from ackproof.scenario.shape import Problem


def health_problems(scenario: Scenario) -> Iterator[Problem]:
    if scenario.health is not None:
        yield from _health(scenario.health, [topic.name for topic in scenario.topics])
    for number, alert in enumerate(scenario.alerts):
        where = f"alerts.{number}"
        if scenario.health is None:
            yield where, "alerts come from a health check: add [health] with a topic"
        yield from _alert(scenario, alert, where)


def _health(health: HealthPlan, topics: list[str]) -> Iterator[Problem]:
    if health.topic not in topics:
        yield "health.topic", f"no topic {health.topic!r}{did_you_mean(health.topic, topics)}"
    if not health.line > 0:
        yield "health.line", f"line = {health.line:g}: a positive number of messages a second"
    if health.webhook is not None and (sentence := webhook_problem(health.webhook)):
        yield "health.webhook", sentence
    if health.prometheus is not None and not 1 <= health.prometheus <= 65_535:
        yield "health.prometheus", f"prometheus = {health.prometheus}: a port, from 1 to 65535"


def _alert(scenario: Scenario, alert: AlertPlan, where: str) -> Iterator[Problem]:
    if alert.rule not in RULE_NAMES:
        hint = did_you_mean(alert.rule, RULE_NAMES)
        yield f"{where}.rule", f"no rule {alert.rule!r}{hint}: known are {', '.join(RULE_NAMES)}"
    for field in ("within_s", "clears_within_s"):
        if not 0 < getattr(alert, field) <= 600:
            yield f"{where}.{field}", f"{field} = {getattr(alert, field):g}: above 0, up to 600"
    numbers = range(1, len(scenario.faults) + 1)
    for field, number in (("fault", alert.fault), ("undone_by", alert.undone_by)):
        if number is not None and number not in numbers:
            yield f"{where}.{field}", f"{field} = {number}: there are {len(scenario.faults)} faults, counted from 1"
    if alert.fault in numbers:
        lasting = scenario.faults[alert.fault - 1].lasting
        if "until" in scenario.faults[alert.fault - 1].ends_by:
            told = "the health check ends with the load, so it could not see the alert clear: use until_s"
            yield where, f"fault {alert.fault} is healed after the load; {told}"
        if lasting and alert.undone_by is not None:
            yield f"{where}.undone_by", f"fault {alert.fault} is healed: nothing else undoes it"
        if not lasting and alert.undone_by is None:
            yield where, f"fault {alert.fault} does not last: name the fault that undoes it in undone_by"
