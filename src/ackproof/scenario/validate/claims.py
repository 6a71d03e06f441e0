"""Reports what is wrong with a scenario's claims."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ackproof.core.errors import did_you_mean
from ackproof.model.fault import AnyFault
from ackproof.model.scenario import ClaimPlan, Scenario
from ackproof.scenario.shape import Problem
from ackproof.scenario.validate.names import is_partition


def claim_problems(scenario: Scenario) -> Iterator[Problem]:
    for number, claim in enumerate(scenario.claims):
        yield from _claim(scenario, claim, f"claims.{number}")


def moments(scenario: Scenario) -> list[str]:
    """Return every moment that a claim can be about, in order."""
    numbers = range(1, len(scenario.faults) + 1)
    return ["start", *(f"{word} {number}" for number in numbers for word in ("before", "during")), "end"]


def _claim(scenario: Scenario, claim: ClaimPlan, where: str) -> Iterator[Problem]:
    known = moments(scenario)
    for field, moment in (("at", claim.at), ("same_leader_as", claim.same_leader_as)):
        if moment is not None and moment not in known:
            yield f"{where}.{field}", f"no moment {moment!r}{did_you_mean(moment, known)}: there are {', '.join(known)}"
    if not is_partition(scenario, claim.partitions.replace("/*", "/0")):
        yield f"{where}.partitions", f"{claim.partitions!r}: no such partition; write TOPIC/PARTITION, or TOPIC/*"
    brokers = [f"kafka{number}" for number in range(1, scenario.cluster.brokers + 1)]
    brokers += [f"target:{number}" for number, fault in enumerate(scenario.faults, start=1) if _hits_brokers(fault)]
    for field in ("leader", "not_leader", "isr", "isr_without"):
        for name in getattr(claim, field):
            if name not in brokers:
                yield f"{where}.{field}", f"no broker {name!r}{did_you_mean(name, brokers)}"
    if not claim.claims_something:
        yield where, f"the claim claims nothing: give one of {', '.join(ClaimPlan.WHAT)}"
    if claim.no_leader and (claim.leader or claim.preferred or claim.same_leader_as):
        yield where, "no_leader contradicts leader, preferred and same_leader_as"


def _hits_brokers(fault: AnyFault) -> bool:
    """Whether `target:N` can be a broker: a claim about no broker would always hold."""
    elsewhere = re.compile(r"quorum|zk|zookeeper-leader|controller\d|producer:|consumer:")
    return any(elsewhere.match(name) is None for field, name in fault.names if field != "apart_from")
