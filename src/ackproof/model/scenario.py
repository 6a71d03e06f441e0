"""A scenario: what is started, what is sent, what breaks when, what is expected. Frozen data; `scenario.load` reads it.

Times are seconds since the load began (`at_s`), or the messages sent by all producers together (`at_messages`).
A fault ends at `until_s`, at `until_messages`, or, with `until = "load-ended"`, after the last send; and never before a
new leader epoch was seen on `not_before_new_epoch`, or `not_before_max_s` have passed since the fault began.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import ClassVar, Literal, cast

import msgspec

from ackproof.core.sites import FIRST_SITE, SECOND_SITE, Mirror, named, placed
from ackproof.model.fault import LastingFault
from ackproof.model.faults import Fault, Start
from ackproof.model.steps import Resize

Expected = Literal["required", "allowed", "forbidden"]
Mode = Literal["zookeeper", "kraft"]
Value = str | int | float | bool
Strategy = Literal["nothing", "ids", "mark-per-partition", "mark-per-topic", "mark-per-producer"]

ROLE_PREFIXES = ("leader:", "follower:", "followers:", "coordinator:")
PLAIN_ROLES = ("controller", "zookeeper-leader", "all-brokers", "quorum")
SITE_ROLES = (FIRST_SITE, SECOND_SITE)  # only with a second cluster


class RulePlan(msgspec.Struct, frozen=True):
    """What a user may do, or may not, to a topic or as a group. What no rule allows is refused."""

    user: str
    operations: list[Literal["All", "Read", "Write", "Create", "Delete", "Alter", "Describe"]]
    topic: str | None = None
    group: str | None = None
    from_host: int | None = None  # only from this place of clients; null: from anywhere
    deny: bool = False  # which comes before any permission


class AccessPlan(msgspec.Struct, frozen=True):
    users: list[str]  # each has a password, made for each run
    rules: list[RulePlan] = []


class ClusterPlan(msgspec.Struct, frozen=True):
    brokers: int = 3
    quorum: int = 3
    racks: list[str] = []
    log_dirs: int = 1
    access: AccessPlan | None = None  # clients say who they are, and an authorizer asks what they may
    second: int = 0  # brokers of a second cluster, dc2
    mirror: Mirror = "none"  # MirrorMaker 2, from dc1 to dc2 or also back
    settings: dict[str, dict[str, Value]] = {}  # scope: key: value, as in `up --set scope.key=value`


class TopicPlan(msgspec.Struct, frozen=True):
    name: str
    partitions: int = 1
    replication: int = 3
    after: int | None = None  # created after this fault, which begins before the clients
    made_by: Literal["lab", "producer"] = "lab"  # a producer: one whose `topic_check` is "create"
    settings: dict[str, Value] = {}


class PausePlan(msgspec.Struct, frozen=True):
    after: int  # so many messages of this producer
    seconds: float


class OutboxPlan(msgspec.Struct, frozen=True):
    give_up_after: int = 5  # failures in a row
    retry_s: float = 1.0
    exit_code: int = 75  # "temporary failure; try again"


class TransactionsPlan(msgspec.Struct, frozen=True):
    """It reads a topic, and for each message there it writes one of its own, in transactions."""

    input: str
    size: int = 20  # messages in a transaction
    abort_every: int | None = None  # each so manieth is aborted on purpose, and its input read again
    timeout_s: float = 10.0  # after which the coordinator aborts it


class ProducerPlan(msgspec.Struct, frozen=True):
    topic: str
    count: int
    rate: float | None = None  # messages a second, each; null: as fast as it goes
    acks: Literal["0", "1", "all"] = "all"
    copies: int = 1  # this many processes
    size: int = 16  # bytes of the value
    keys: int | None = None  # this many different keys; null: no key
    print: bool = False  # say each value and its offset
    pauses: list[PausePlan] = []  # in which nothing is due; only with a rate
    bootstrap: list[str] = []  # the brokers that it is told of; none: all of them
    topic_check: Literal["validate", "create", "assume"] = "validate"  # before the first message
    topic_timeout_s: float = 30.0
    outbox: OutboxPlan | None = None  # messages go to a table first, in one transaction with the business
    transactions: TransactionsPlan | None = None
    user: str | None = None  # of cluster.access
    from_host: int = 1  # the place of clients where it runs: each has an address of its own
    refused: bool = False  # it may not write: each of its messages must be refused
    exits: list[int] = []  # the exit codes expected of it, life after life; none: it ends well
    partition: int | None = None  # all messages go to this one; of several copies each to the next
    threads: int | None = None  # so many threads share it; null: it needs none
    after: int | None = None  # it starts when those of this [[producers]] table, counted from 1, have ended
    waits: bool = False  # not started with the others: a fault `start` does that, and its messages are due from then on
    settings: dict[str, Value] = {}  # any of librdkafka's
    command: list[str] = []  # in place of our own producer; see docs/your-client.md
    where: Literal["client", "host"] = "client"  # a command runs in the lab, or on the host against exposed ports


class ReceiverPlan(msgspec.Struct, frozen=True):
    strategy: Strategy
    copies: Expected = "forbidden"  # messages that it takes more than once
    drops: Expected = "forbidden"  # messages that it never takes


class ConsumerPlan(msgspec.Struct, frozen=True):
    topic: str
    group: str
    also: list[str] = []  # more topics, of the same site
    copies: int = 1
    bootstrap: list[str] = []  # the brokers that it is told of; none: all of them
    protocol: Literal["eager", "cooperative", "consumer"] = "eager"  # the last is KIP-848's, where the broker has it
    static: bool = False  # a member that is known by its name again when it comes back
    start: Literal["earliest", "latest"] = "earliest"  # where the group has no committed offset
    commit: Literal["journaled", "auto", "never"] = "journaled"
    waits: bool = False  # not started with the others: a fault `start` does that
    readers: int | None = None  # how many members of its group are expected to be given anything
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    user: str | None = None  # of cluster.access
    from_host: int = 1
    print: bool = False  # say each value, and each change of the assignment
    receiver: ReceiverPlan | None = None  # it takes each message once, and reads all partitions by itself
    settings: dict[str, Value] = {}  # any of librdkafka's
    command: list[str] = []  # in place of our own consumer
    where: Literal["client", "host"] = "client"


class DrawnPlan(msgspec.Struct, frozen=True):
    """Faults by lot: every so often one of these, for a while. The same seed draws the same."""

    every_s: float
    lasts_s: float  # then it is healed, or what was killed or stopped is started again
    faults: list[Fault]  # without a beginning and an end

    def steps(self, fault: Fault, at_s: float, number: int) -> Iterator[Fault]:
        """What is done if this one is drawn for that moment, as fault `number` of the scenario."""
        ends_s = at_s + self.lasts_s
        if isinstance(fault, LastingFault):
            yield msgspec.structs.replace(fault, at_s=at_s, until_s=ends_s)
        else:
            yield msgspec.structs.replace(fault, at_s=at_s)
        if fault.about.leaves_down:
            yield Start(fault.asked if fault.on_clients else [f"target:{number}"], at_s=ends_s)


class JudgePlan(msgspec.Struct, frozen=True):
    """The judge's lines, where the scenario wants others than the judge's own."""

    unavailable_ms: float | None = None  # a wait for an acknowledgement that counts as an outage
    late_ms: float | None = None  # an acknowledgement that counts as late
    rate_line: float | None = None  # messages a second below which somebody should be told
    phases: bool = False  # count what became of the messages of each phase, topic by topic
    dip_s: float | None = None  # for so long after a fault, or after its healing, rates may dip


class ClaimPlan(msgspec.Struct, frozen=True):
    """What the brokers are expected to say of partitions at one moment of the run.

    `at` is "start" (the load begins), "before N" and "during N" (just before fault N, and just before it ends or the
    next one begins), or "end" (the final read). A broker is a node's name, or "target:N": what fault N hit.
    """

    at: str
    partitions: str  # TOPIC/PARTITION, or TOPIC/* for all
    leader: list[str] = []  # one of these leads
    not_leader: list[str] = []  # none of these leads
    isr: list[str] = []  # exactly these are in sync
    isr_without: list[str] = []
    isr_full: bool = False
    preferred: bool = False  # the first replica leads
    no_leader: bool = False  # nobody leads
    same_leader_as: str | None = None  # another moment
    acked: bool | None = None  # whether anything was acknowledged in the two seconds before

    WHAT: ClassVar = (
        "leader", "not_leader", "isr", "isr_without", "isr_full", "preferred", "no_leader", "same_leader_as", "acked",
    )  # fmt: skip

    @property
    def claims_something(self) -> bool:
        return self.acked is not None or any(getattr(self, name) for name in self.WHAT)

    def in_words(self) -> str:
        told = [
            (self.leader, f"led by {' or '.join(self.leader)}"),
            (self.not_leader, f"not led by {' or '.join(self.not_leader)}"),
            (self.preferred, "led by its first replica"),
            (self.no_leader, "led by nobody"),
            (self.same_leader_as, f"led as at {self.same_leader_as!r}"),
            (self.isr, f"in sync exactly {' '.join(self.isr)}"),
            (self.isr_without, f"{' and '.join(self.isr_without)} not in sync"),
            (self.isr_full, "all replicas in sync"),
            (self.acked is True, "acknowledging"),
            (self.acked is False, "acknowledging nothing"),
        ]
        return f"{self.partitions} at {self.at!r}: {', '.join(words for asked, words in told if asked)}"


class HealthPlan(msgspec.Struct, frozen=True):
    """A live health check beside the load: the night rules, and the rate of one topic."""

    topic: str
    line: float = 800.0  # messages a second
    webhook: str | None = None  # gets each alert as JSON
    prometheus: int | None = None  # a port on loopback


class AlertPlan(msgspec.Struct, frozen=True):
    """An alert that a fault is expected to raise. Whatever no fault is expected to raise is a false one."""

    rule: str
    fault: int
    within_s: float = 5.0  # of the fault's proof
    undone_by: int | None = None  # the fault that undoes one that does not last: its `start`
    clears_within_s: float = 10.0  # of the healing, or of that


class Scenario(msgspec.Struct, frozen=True):
    name: str
    section: str
    title: str
    summary: str
    producers: list[ProducerPlan]
    topics: list[TopicPlan]
    modes: list[Mode] = msgspec.field(default_factory=lambda: ["zookeeper", "kraft"])
    cluster: ClusterPlan = ClusterPlan()
    consumers: list[ConsumerPlan] = []
    faults: list[Fault] = []
    drawn: DrawnPlan | None = None  # more faults, by lot
    claims: list[ClaimPlan] = []
    health: HealthPlan | None = None
    alerts: list[AlertPlan] = []
    expect: dict[str, str] = {}  # check: required, allowed or forbidden
    expect_zookeeper: dict[str, str] = {}
    expect_kraft: dict[str, str] = {}
    judge: JudgePlan = JudgePlan()
    needs: list[str] = []  # programs that its commands call
    timeout_s: float = 600.0
    seed: int = 0  # of what is drawn, where the command gives none

    def draw(self, seed: int | None) -> Scenario:
        """The scenario with the faults that this seed draws; the last is over well before the load ends."""
        plan, faults = self.drawn, [*self.faults]
        if plan is None:
            return self
        lot = random.Random(self.seed if seed is None else seed)  # noqa: S311  a plan, not a secret
        for turn in range(1, int((self.lasts_s or 0.0) / plan.every_s)):
            faults += plan.steps(lot.choice(plan.faults), turn * plan.every_s, len(faults) + 1)
        return msgspec.structs.replace(self, faults=faults)

    def expected(self, mode: str) -> dict[str, Expected]:
        words = self.expect | (self.expect_kraft if mode == "kraft" else self.expect_zookeeper)
        return cast(dict[str, Expected], words)  # the words were checked when it was loaded

    @property
    def mirrors(self) -> dict[str, str]:
        """Each topic that the mirror makes, and the one that it is made from."""
        flows = {"none": [], "one-way": [FIRST_SITE], "both-ways": [FIRST_SITE, SECOND_SITE]}[self.cluster.mirror]
        made = {}
        for topic in self.topics:
            site, own = placed(topic.name)
            if site in flows:
                made[named(SECOND_SITE if site == FIRST_SITE else FIRST_SITE, f"{site}.{own}")] = topic.name
        return made

    def topic(self, name: str) -> TopicPlan:
        """A topic by its name; one that the mirror makes is like the one that it is made from."""
        return next(topic for topic in self.topics if topic.name == self.mirrors.get(name, name))

    def settings(self, mode: str) -> Iterator[tuple[str, str, Value]]:
        """Scope, key and value; where both modes run it, without what only the other mode's nodes have."""
        absent = {"zookeeper": "controller", "kraft": "zookeeper"}[mode] if len(self.modes) > 1 else None
        for scope, values in self.cluster.settings.items():
            if scope != absent:
                yield from ((scope, key, value) for key, value in values.items())

    @property
    def clients(self) -> list[ProducerPlan | ConsumerPlan]:
        return [*self.producers, *self.consumers]

    @property
    def each_producer(self) -> list[ProducerPlan]:
        """The plan of each producer, in the order of their numbers."""
        return [plan for plan in self.producers for _ in range(plan.copies)]

    @property
    def producer_places(self) -> list[tuple[int, int]]:
        """Of each producer, its [[producers]] table, counted from 1, and which of that table's copies it is, from 0."""
        return [(table, copy) for table, plan in enumerate(self.producers, start=1) for copy in range(plan.copies)]

    @property
    def each_consumer(self) -> list[ConsumerPlan]:
        return [plan for plan in self.consumers for _ in range(plan.copies)]

    def partitions_at_end(self, topic: TopicPlan) -> int:
        """Topics only grow."""
        resized = [fault for fault in self.faults if isinstance(fault, Resize)]
        grown = [fault.to_partitions for fault in resized if f"{topic.name}/*" in fault.partitions]
        return max([topic.partitions, *grown])

    def earliest_s(self, number: int) -> float:
        """When fault `number`, counted from 0, can begin at the earliest; 0 where that depends on messages."""
        fault = self.faults[number]
        if fault.after_s is not None and number > 0:
            return fault.after_s + self.earliest_s(number - 1)
        return fault.at_s or 0.0

    @property
    def lasts_s(self) -> float | None:
        """How long the load lasts if nothing holds it up; null where a producer has no rate."""
        spans = [
            producer.count / producer.rate + sum(pause.seconds for pause in producer.pauses)
            for producer in self.producers
            if producer.rate and not producer.waits
        ]
        return max(spans) if spans and len(spans) == len(self.producers) else None

    @property
    def client_hosts(self) -> int:
        """How many places for clients it needs."""
        hosts = [producer.from_host for producer in self.producers]
        return max([1, *hosts, *(consumer.from_host for consumer in self.consumers)])

    @property
    def transactional(self) -> list[str]:
        """The topics that transactions write to."""
        return sorted({producer.topic for producer in self.producers if producer.transactions})

    @property
    def total(self) -> int:
        return sum(producer.count * producer.copies for producer in self.producers)
