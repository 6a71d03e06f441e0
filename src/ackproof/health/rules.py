"""RULES: when a person should be told of a cluster's health, and of which rules at night.

A rule is a question to a `View`, which is what is known of the cluster at one moment; the answer is a `Finding`, or
None where all is well. It has to hold for `for_s` before it is an alert: what Kafka mends by itself in the time of a
session wakes nobody. Pure; the watch keeps the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ackproof.health.rate_monitor import Rate
from ackproof.model.alert_rules import ALERT_RULES

UNHEARD_S = 3.0  # without a batch the rate is not known, whatever the query says of itself


@dataclass(frozen=True)
class Partition:
    """A partition in the view of the newest epoch that any broker told of."""

    name: str  # TOPIC/PARTITION
    leader: int | None
    leader_answers: bool
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_isr: int


@dataclass(frozen=True)
class Unclean:
    """A replica that was not in sync became leader."""

    partition: str
    leader: int
    in_sync: tuple[int, ...]  # who could have led without loss


@dataclass(frozen=True)
class View:
    answering: int  # brokers that answer, of `brokers`
    brokers: int
    partitions: Sequence[Partition]
    controller: int | None
    unclean: Sequence[Unclean]  # of the last few seconds
    rate: Rate


@dataclass(frozen=True)
class Finding:
    value: float | None
    text: str


@dataclass(frozen=True)
class Rule:
    name: str
    means: str  # for whoever is told
    wakes: bool  # at night; else it can wait for the morning
    for_s: float
    look: Callable[[View], Finding | None]


def under_replicated(view: View) -> Finding | None:
    short = [each for each in view.partitions if len(each.isr) < len(each.replicas)]
    return _of(view, short, lambda each: f"in sync {_ids(each.isr)} of {_ids(each.replicas)}")


def isr_below_minimum(view: View) -> Finding | None:
    short = [each for each in view.partitions if len(each.isr) < each.min_isr]
    return _of(view, short, lambda each: f"in sync {_ids(each.isr)}, at least {each.min_isr} are asked for")


def no_leader(view: View) -> Finding | None:
    if view.answering == 0:
        return Finding(float(view.brokers), f"none of {view.brokers} brokers answers")
    headless = [each for each in view.partitions if each.leader is None or not each.leader_answers]
    return _of(view, headless, lambda each: "no leader" if each.leader is None else f"{each.leader} does not answer")


def no_controller(view: View) -> Finding | None:
    return Finding(None, "nobody is known to be the controller") if view.controller is None else None


def unclean_election(view: View) -> Finding | None:
    told = [
        f"{each.partition}: {each.leader} leads, and only {_ids(each.in_sync)} could have without loss"
        for each in view.unclean
    ]
    return Finding(float(len(told)), "; ".join(told)) if told else None


def rate(view: View) -> Finding | None:
    now = view.rate
    if not now.armed:
        return None
    if now.unheard_s >= UNHEARD_S:
        return Finding(None, f"no batch has finished for {UNHEARD_S:g} s, so the rate is not known")
    if now.below:
        return Finding(float(now.last or 0), f"{now.last or 0} messages a second, below {now.line:g}")
    return None


LOOKS: dict[str, Callable[[View], Finding | None]] = {
    "under-replicated": under_replicated,
    "isr-below-minimum": isr_below_minimum,
    "no-leader": no_leader,
    "no-controller": no_controller,
    "unclean-election": unclean_election,
    "rate": rate,
}
RULES: tuple[Rule, ...] = tuple(
    Rule(each.name, each.means, each.wakes, each.for_s, LOOKS[each.name]) for each in ALERT_RULES
)


def _of(view: View, found: Sequence[Partition], words: Callable[[Partition], str]) -> Finding | None:
    if not found:
        return None
    count = f" ({len(found)} of {len(view.partitions)} partitions)" if len(view.partitions) > 1 else ""
    return Finding(float(len(found)), f"{found[0].name}: {words(found[0])}{count}")


def _ids(brokers: Sequence[int]) -> str:
    return " ".join(map(str, sorted(brokers))) or "nobody"
