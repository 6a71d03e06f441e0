"""Checks of who led a partition, and who was in sync."""

from __future__ import annotations

from ackproof.model import check_conditions as conditions
from ackproof.model.checks.kind import CheckKind

CHECKS: dict[str, CheckKind] = {
    "stale_leader_ack": CheckKind(
        "acknowledgement(s) from a leader whose epoch was over",
        "an acknowledgement from a leader epoch older than one that a broker had shown before the acknowledgement "
        "came. An epoch also ends without a new leader, when a dead replica leaves the in-sync replicas; a send that "
        "was in flight then counts too",
        needs=("state", "ends"), needs_fates=True, prefilterable=True, needs_epochs=True,
        producers_lack="when an acknowledgement reached it",
        meaning="A leader acknowledged a message although a newer leader epoch was already known.",
        advice="Use acks=all: a leader that was replaced then cannot acknowledge, because the replicas in sync no "
        "longer follow it.",
    ),
    "dual_leader": CheckKind(
        "period(s) in which two brokers claimed one partition",
        "two brokers whose claims to lead a partition overlap in time",
        needs=("state",),
        meaning="Two brokers claimed to lead the same partition at the same time.",
        advice="Expect it in a network split; make it harmless with acks=all and min.insync.replicas=2.",
    ),
    "failover": CheckKind(
        "pair(s) of a fault and a partition",
        "a measure: for each fault and partition, the milliseconds from the fault's proof to the first error, the "
        "new leader epoch, the first acknowledgement from that epoch, and the full in-sync set",
        needs=("faults", "state"), needs_fates=True, prefilterable=True, depends_on_time=True,
        producers_lack="when an acknowledgement or an error reached it",
        meaning="A fault hit the leader of a partition; the row shows the first error, the new leader and its first "
        "acknowledgement.",
        advice="Find the longest step, and tune that one: detection, election, or the metadata of the clients.",
    ),
    "leadership_history": CheckKind(
        "view(s) of a partition at a moment",
        "a measure: which broker led each partition, and which replicas were in sync, at each moment of the run",
        needs=("state",),
        meaning="The check shows which broker led each partition, and which replicas were in sync, at each moment of "
        "the run.",
        advice="Nothing is wrong; read it beside the lost messages to see who took over.",
    ),
    "eligible_leaders": CheckKind(
        "view(s) with a replica that may lead without being in sync",
        "a measure, with Kafka 4 in KRaft mode: which replicas might have led each partition without being in sync "
        "(KIP-966), at each moment of the run",
        needs=("eligible",),
        meaning="The check shows which replicas might have become leader although they were not in sync (Kafka 4, "
        "KRaft).",
        advice="Nothing is wrong; compare it with the leader that was elected.",
    ),
    "claims": CheckKind(
        "claim(s) of the scenario that did not hold",
        "a claim of the scenario about leaders, replicas or acknowledgements at a moment that the observations "
        "contradict; also a claim about a partition without observations",
        default="forbidden", needs=("state", "ends"), applies_to=conditions.has_claims, needs_full_scan=True,
        depends_on_time=True,
        meaning="The scenario claims something about leaders or replicas at a moment, and the brokers said otherwise.",
        advice="Read the witness: it names the claim and what was seen; then correct the scenario or look at the "
        "fault.",
    ),
}  # fmt: skip
