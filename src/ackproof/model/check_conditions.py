"""The conditions under which a check applies: what a run must have for the question to make sense."""

from __future__ import annotations

from ackproof.model.run_record import RunRecord


def always(_: RunRecord) -> bool:
    return True


def has_mirrors(record: RunRecord) -> bool:
    return bool(record.mirrors)


def has_keys(record: RunRecord) -> bool:
    return any(plan.keys for plan in record.plan.producers)


def has_outbox(record: RunRecord) -> bool:
    return any(plan.outbox for plan in record.plan.producers)


def has_transactions(record: RunRecord) -> bool:
    return any(plan.transactions for plan in record.plan.producers)


def reads_transactions(record: RunRecord) -> bool:
    return has_transactions(record) and bool(record.consumers)


def has_refused_producers(record: RunRecord) -> bool:
    return any(plan.refused for plan in record.plan.producers)


def has_producers_in_turn(record: RunRecord) -> bool:
    """Whether a producer starts after another one has ended."""
    return any(plan.after for plan in record.plan.producers)


def expects_exits(record: RunRecord) -> bool:
    """Whether the scenario says with which exit codes a producer ends."""
    return any(plan.exits for _, plan in record.planned_producers)


def has_receivers(record: RunRecord) -> bool:
    return any(plan.receiver for _, plan in record.planned_consumers)


def has_claims(record: RunRecord) -> bool:
    return bool(record.plan.claims)


def has_health_check(record: RunRecord) -> bool:
    return record.plan.health is not None


def has_rate_line(record: RunRecord) -> bool:
    return bool(record.plan.judge.rate_line)


def asks_for_phases(record: RunRecord) -> bool:
    return record.plan.judge.phases


def has_runbook(record: RunRecord) -> bool:
    """Whether clients move to another site. Without a runbook, two sites that work at once would look like a move."""
    return any(fault.step for fault in record.faults)
