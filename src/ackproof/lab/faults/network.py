"""The faults of the network. `links` and `delay` inject, prove and heal them."""

from __future__ import annotations

from ackproof.core.errors import CannotHere, UsageProblem
from ackproof.lab.faults import delay, links
from ackproof.lab.faults.injection import FaultResult, Injection
from ackproof.lab.network.nftables import Match
from ackproof.lab.topology import Link, links_of, severed_between, severed_by_groups
from ackproof.model import faults


def partition(how: Injection, fault: faults.Partition) -> FaultResult:
    groups = [how.named(group) for group in fault.groups]
    cut_links = severed_by_groups(groups, how.lab.network.names())
    if not cut_links:
        raise UsageProblem("these groups cut nothing: every pair of nodes shares one")
    return _sever(how, "partition", [",".join(group) for group in groups], cut_links, Match(), groups[0])


def isolate(how: Injection, fault: faults.Isolate) -> FaultResult:
    if not fault.apart_from:
        return partition(how, faults.Partition([fault.targets]))
    return _cut(how, fault)


def cut(how: Injection, fault: faults.Cut) -> FaultResult:
    return _cut(how, fault)


def _cut(how: Injection, fault: faults.Isolate | faults.Cut) -> FaultResult:
    left, right = how.named(fault.targets), how.named(fault.apart_from)
    cut_links = severed_between(left, right, fault.one_way)
    if not cut_links:
        names = f"{','.join(fault.targets)} and {','.join(fault.apart_from)}"
        raise UsageProblem(f"{names} are the same node: there is no link to cut")
    match = Match(port=fault.port, new_connections=fault.new_connections, reset=fault.reset)
    return _sever(how, "cut", [",".join(left), ",".join(right)], cut_links, match, left)


def flaky(how: Injection, fault: faults.Flaky) -> FaultResult:
    names = how.named(fault.targets)
    return _sever(how, "flaky", names, links_of(names, how.lab.network.names()), Match(loss=fault.loss), names)


def _sever(
    how: Injection, kind: str, targets: list[str], cut_links: frozenset[Link], match: Match, hit: list[str]
) -> FaultResult:
    """`hit` are the nodes that the fault is aimed at; `targets` may name both sides."""
    lab = how.lab
    name = lab.next_name()
    severed = links.severed(lab.network, name, sorted(cut_links), match, how.for_s)
    active = lab.begin(name, kind, targets, severed, links=cut_links, match=match, for_s=how.for_s)
    return FaultResult(hit, [f"{name}: {kind} {' '.join(targets)}: {active.proof.proved}"], [active])


def slow(how: Injection, fault: faults.Slow) -> FaultResult:
    lab, names = how.lab, how.named(fault.targets)
    delayed = {name for active in lab.active.values() if active.kind == fault.kind for name in active.targets}
    if busy := [name for name in names if name in delayed]:
        raise UsageProblem(f"{', '.join(busy)}: slow already; heal that first")
    name = lab.next_name()
    try:
        held = delay.delayed(lab.network, names, fault.delay_ms)
        active = lab.begin(name, fault.kind, names, held, for_s=how.for_s)
    except OSError as problem:
        raise CannotHere(
            f"this kernel cannot delay packets ({problem.strerror}): it needs netem (CONFIG_NET_SCH_NETEM, "
            "module sch_netem); `flaky` and `cut` work without it"
        ) from problem
    if how.for_s is not None:
        endpoints = dict(enumerate((lab.network.endpoints[each] for each in names), start=200))
        where = [text for number, each in endpoints.items() for text in (each.interface, str(number))]
        how.start_timer(active, ["undelay", *where], {number: each.namespace for number, each in endpoints.items()})
    return FaultResult(names, [f"{name}: slow {' '.join(names)}: {active.proof.proved}"], [active])
