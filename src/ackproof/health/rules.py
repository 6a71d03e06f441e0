"""RULES: when to alert a person about a cluster, and which alerts wake a person at night.

A rule asks a question of a `Snapshot`, which is what is known of the cluster at one moment. The answer is a `Finding`,
or None if all is well. A finding has to last for `for_s` before it is an alert: Kafka repairs many
problems itself within a session timeout. The rules are pure functions; `alerting` keeps the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ackproof.health.rate_monitor import Rate
from ackproof.model.alert_rules import ALERT_RULES

UNHEARD_S = 3.0  # without a batch for so long the rate is unknown, even if the query claims to be active


@dataclass(frozen=True)
class WatchedPartition:
    """A partition as the broker with the newest leader epoch describes it."""

    name: str  # TOPIC/PARTITION
    leader: int | None
    leader_answers: bool
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_isr: int


@dataclass(frozen=True)
class UncleanElection:
    """A replica that was not in sync became leader."""

    partition: str
    leader: int
    in_sync: tuple[int, ...]  # the replicas that could have led without loss


@dataclass(frozen=True)
class Snapshot:
    """What is known of the cluster at one moment."""

    answering: int  # brokers that answer, of `brokers`
    brokers: int
    partitions: Sequence[WatchedPartition]
    controller: int | None
    unclean: Sequence[UncleanElection]  # of the last few seconds
    rate: Rate


@dataclass(frozen=True)
class Finding:
    value: float | None
    text: str


@dataclass(frozen=True)
class Rule:
    name: str
    means: str  # what it means for the person who is alerted
    wakes: bool  # wakes a person at night; else it can wait for the morning
    for_s: float  # how long a finding has to last
    question: Callable[[Snapshot], Finding | None]


def under_replicated(snapshot: Snapshot) -> Finding | None:
    short = [each for each in snapshot.partitions if len(each.isr) < len(each.replicas)]
    return _of(snapshot, short, lambda each: f"in sync {_ids(each.isr)} of {_ids(each.replicas)}")


def isr_below_minimum(snapshot: Snapshot) -> Finding | None:
    short = [each for each in snapshot.partitions if len(each.isr) < each.min_isr]
    return _of(snapshot, short, lambda each: f"in sync {_ids(each.isr)}, at least {each.min_isr} required")


def no_leader(snapshot: Snapshot) -> Finding | None:
    if snapshot.answering == 0:
        return Finding(float(snapshot.brokers), f"none of {snapshot.brokers} brokers answers")
    headless = [each for each in snapshot.partitions if each.leader is None or not each.leader_answers]
    return _of(
        snapshot, headless, lambda each: "no leader" if each.leader is None else f"{each.leader} does not answer"
    )


def no_controller(snapshot: Snapshot) -> Finding | None:
    return Finding(None, "no controller is known") if snapshot.controller is None else None


def unclean_election(snapshot: Snapshot) -> Finding | None:
    told = [
        f"{each.partition}: {each.leader} leads, but only {_ids(each.in_sync)} could lead without loss"
        for each in snapshot.unclean
    ]
    return Finding(float(len(told)), "; ".join(told)) if told else None


def rate(snapshot: Snapshot) -> Finding | None:
    now = snapshot.rate
    if not now.armed:
        return None
    if now.unheard_s >= UNHEARD_S:
        return Finding(None, f"no batch has finished for {UNHEARD_S:g} s, so the rate is not known")
    if now.below:
        return Finding(float(now.last or 0), f"{now.last or 0} messages a second, below {now.line:g}")
    return None


QUESTIONS: dict[str, Callable[[Snapshot], Finding | None]] = {
    "under-replicated": under_replicated,
    "isr-below-minimum": isr_below_minimum,
    "no-leader": no_leader,
    "no-controller": no_controller,
    "unclean-election": unclean_election,
    "rate": rate,
}
RULES: tuple[Rule, ...] = tuple(
    Rule(each.name, each.means, each.wakes, each.for_s, QUESTIONS[each.name]) for each in ALERT_RULES
)


def _of(
    snapshot: Snapshot, found: Sequence[WatchedPartition], words: Callable[[WatchedPartition], str]
) -> Finding | None:
    if not found:
        return None
    count = f" ({len(found)} of {len(snapshot.partitions)} partitions)" if len(snapshot.partitions) > 1 else ""
    return Finding(float(len(found)), f"{found[0].name}: {words(found[0])}{count}")


def _ids(brokers: Sequence[int]) -> str:
    return " ".join(map(str, sorted(brokers))) or "nobody"
