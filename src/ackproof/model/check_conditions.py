"""When a check applies: what a run must have had before a question about it makes sense. `checks.py` names these."""

from __future__ import annotations

from ackproof.model.run_record import RunRecord


def always(_: RunRecord) -> bool:
    return True


def has_mirrors(record: RunRecord) -> bool:
    return bool(record.mirrors)


def has_keys(record: RunRecord) -> bool:
    return _has_producers_with(record, "keys")


def has_outbox(record: RunRecord) -> bool:
    return _has_producers_with(record, "outbox")


def has_transactions(record: RunRecord) -> bool:
    return _has_producers_with(record, "transactions")


def reads_transactions(record: RunRecord) -> bool:
    return has_transactions(record) and bool(record.consumers)


def has_refused_producers(record: RunRecord) -> bool:
    return _has_producers_with(record, "refused")


def has_producers_in_turn(record: RunRecord) -> bool:
    """Whether a producer starts after another one has ended."""
    return _has_producers_with(record, "after")


def expects_exits(record: RunRecord) -> bool:
    """Whether the scenario says with which exit codes a producer ends."""
    return any(plan.get("exits") for _, plan in zip(record.producers, record.each("producers"), strict=False))


def has_receivers(record: RunRecord) -> bool:
    return any(plan.get("receiver") for _, plan in zip(record.consumers, record.each("consumers"), strict=False))


def has_claims(record: RunRecord) -> bool:
    return bool(record.plan.get("claims"))


def has_health_check(record: RunRecord) -> bool:
    return bool(record.plan.get("health"))


def has_rate_line(record: RunRecord) -> bool:
    return bool((record.plan.get("judge") or {}).get("rate_line"))


def asks_for_phases(record: RunRecord) -> bool:
    return bool(record.plan.get("judge", {}).get("phases"))


def has_runbook(record: RunRecord) -> bool:
    """Whether clients move to another site. Without a runbook, two sites that work at once would look like a move."""
    return any(fault.step for fault in record.faults)


def _has_producers_with(record: RunRecord, option: str) -> bool:
    return any(plan.get(option) for plan in record.plan.get("producers", []))
