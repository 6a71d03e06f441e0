"""A scenario: what is started, what is sent, what breaks and when, and what is expected. `scenario.load` reads it.

Times are seconds since the load began (`at_s`), or messages sent by all producers together (`at_messages`). A fault
ends at `until_s`, at `until_messages`, or with `until = "load-ended"` after the last send. It does not end before a new
leader epoch was seen on `not_before_new_epoch`, or `not_before_max_s` have passed since it began.
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
    """What a user is allowed or denied to do to a topic or a group. What no rule allows is refused."""

    user: str
    operations: list[Literal["All", "Read", "Write", "Create", "Delete", "Alter", "Describe"]]
    topic: str | None = None
    group: str | None = None
    from_host: int | None = None  # only from this client address; null: from anywhere
    deny: bool = False  # a denial overrides every permission


class AccessPlan(msgspec.Struct, frozen=True):
    users: list[str]  # each has a password, made for each run
    rules: list[RulePlan] = []


class ClusterPlan(msgspec.Struct, frozen=True):
    brokers: int = 3
    quorum: int = 3
    racks: list[str] = []
    log_dirs: int = 1
    access: AccessPlan | None = None  # clients log in, and an authorizer checks what they are allowed to do
    second: int = 0  # brokers of a second cluster, dc2
    mirror: Mirror = "none"  # MirrorMaker 2, from dc1 to dc2 or also back
    settings: dict[str, dict[str, Value]] = {}  # scope: key: value, as in `up --set scope.key=value`


class TopicPlan(msgspec.Struct, frozen=True):
    name: str
    partitions: int = 1
    replication: int = 3
    after: int | None = None  # created after this fault, which begins before the clients
    made_by: Literal["lab", "producer"] = "lab"  # "producer": one whose `topic_check` is "create"
    settings: dict[str, Value] = {}


class PausePlan(msgspec.Struct, frozen=True):
    after: int  # so many messages of this producer
    seconds: float


class OutboxPlan(msgspec.Struct, frozen=True):
    give_up_after: int = 5  # failures in a row
    retry_s: float = 1.0
    exit_code: int = 75  # "temporary failure; try again"


class TransactionsPlan(msgspec.Struct, frozen=True):
    """A producer that reads a topic, and writes one message for each message there, in transactions."""

    input: str
    size: int = 20  # messages in a transaction
    abort_every: int | None = None  # abort every Nth transaction on purpose, and read its input again
    timeout_s: float = 10.0  # after which the coordinator aborts it


class ProducerPlan(msgspec.Struct, frozen=True):
    topic: str
    count: int
    rate: float | None = None  # messages a second for each copy; null: as fast as possible
    acks: Literal["0", "1", "all"] = "all"
    copies: int = 1  # number of processes
    size: int = 16  # bytes of the value
    keys: int | None = None  # number of different keys; null: no keys
    print: bool = False  # print each value and its offset
    pauses: list[PausePlan] = []  # in which nothing is due; only with a rate
    bootstrap: list[str] = []  # its bootstrap brokers; empty: all of them
    topic_check: Literal["validate", "create", "assume"] = "validate"  # before the first message
    topic_timeout_s: float = 30.0
    outbox: OutboxPlan | None = None  # messages go to a table first, in one transaction with the business row
    transactions: TransactionsPlan | None = None
    user: str | None = None  # of cluster.access
    from_host: int = 1  # the client address where it runs
    refused: bool = False  # it is not allowed to write: each of its messages must be refused
    exits: list[int] = []  # the expected exit codes, of its first start, its second, …; empty: 0
    partition: int | None = None  # all messages go to this partition; each copy takes the next one
    threads: int | None = None  # number of threads that share it; null: no threads
    after: int | None = None  # it starts when the producers of this [[producers]] table, counted from 1, have ended
    waits: bool = False  # a fault `start` starts it; its messages are due from then on
    settings: dict[str, Value] = {}  # any settings of librdkafka
    command: list[str] = []  # instead of the bundled producer; see docs/your-client.md
    where: Literal["client", "host"] = "client"  # a command runs in the lab, or on the host against exposed ports


class ReceiverPlan(msgspec.Struct, frozen=True):
    strategy: Strategy
    copies: Expected = "forbidden"  # messages that it processes more than once
    drops: Expected = "forbidden"  # messages that it leaves out


class ConsumerPlan(msgspec.Struct, frozen=True):
    topic: str
    group: str
    also: list[str] = []  # more topics, of the same site
    copies: int = 1
    bootstrap: list[str] = []  # its bootstrap brokers; empty: all of them
    protocol: Literal["eager", "cooperative", "consumer"] = "eager"  # "consumer" is KIP-848's, if the broker has it
    static: bool = False  # a static member, which keeps its partitions if it comes back in time
    start: Literal["earliest", "latest"] = "earliest"  # where to begin without a committed offset
    commit: Literal["journaled", "auto", "never"] = "journaled"
    waits: bool = False  # a fault `start` starts it
    readers: int | None = None  # how many members of its group should get messages
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    user: str | None = None  # of cluster.access
    from_host: int = 1
    print: bool = False  # print each value, and each change of the assignment
    receiver: ReceiverPlan | None = None  # it processes each message once, and reads all partitions by itself
    settings: dict[str, Value] = {}  # any settings of librdkafka
    command: list[str] = []  # instead of the bundled consumer
    where: Literal["client", "host"] = "client"


class DrawnPlan(msgspec.Struct, frozen=True):
    """Faults drawn at random: one of these every `every_s`, for `lasts_s`. The same seed draws the same faults."""

    every_s: float
    lasts_s: float  # then it is healed, or the killed or stopped process is started again
    faults: list[Fault]  # without a beginning and an end

    def steps(self, fault: Fault, at_s: float, number: int) -> Iterator[Fault]:
        """Yield the steps if this fault is drawn for a moment, as fault `number` of the scenario."""
        ends_s = at_s + self.lasts_s
        if isinstance(fault, LastingFault):
            yield msgspec.structs.replace(fault, at_s=at_s, until_s=ends_s)
        else:
            yield msgspec.structs.replace(fault, at_s=at_s)
        if fault.about.leaves_down:
            yield Start(fault.asked if fault.on_clients else [f"target:{number}"], at_s=ends_s)


class JudgePlan(msgspec.Struct, frozen=True):
    """The judge's thresholds, if the scenario has others than the judge's own."""

    unavailable_ms: float | None = None  # a wait for an acknowledgement that counts as an outage
    late_ms: float | None = None  # an acknowledgement that counts as late
    rate_line: float | None = None  # messages a second below which an alert is due
    phases: bool = False  # count the fates of the messages of each phase, by topic
    dip_s: float | None = None  # for this long after a fault, or after it was healed, rates may dip


class ClaimPlan(msgspec.Struct, frozen=True):
    """What the brokers must report about partitions at one moment of the run.

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
    no_leader: bool = False  # there is no leader
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
            (self.no_leader, "without a leader"),
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
    """An alert that a fault is expected to raise. An alert that no fault is expected to raise is a false one."""

    rule: str
    fault: int
    within_s: float = 5.0  # of the fault's proof
    undone_by: int | None = None  # for a fault that does not last, the fault that undoes it: its `start`
    clears_within_s: float = 10.0  # after the healing, or after the fault that undoes it


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
    drawn: DrawnPlan | None = None  # more faults, at random
    claims: list[ClaimPlan] = []
    health: HealthPlan | None = None
    alerts: list[AlertPlan] = []
    expect: dict[str, str] = {}  # check: required, allowed or forbidden
    expect_zookeeper: dict[str, str] = {}
    expect_kraft: dict[str, str] = {}
    judge: JudgePlan = JudgePlan()
    needs: list[str] = []  # programs that its commands need
    timeout_s: float = 600.0
    seed: int = 0  # of the drawn faults, if the command line gives none

    def draw(self, seed: int | None) -> Scenario:
        """Return the scenario with the faults that a seed draws. The last is over well before the load ends."""
        plan, faults = self.drawn, [*self.faults]
        if plan is None:
            return self
        lot = random.Random(self.seed if seed is None else seed)  # noqa: S311  a plan, not a secret
        for turn in range(1, int((self.lasts_s or 0.0) / plan.every_s)):
            faults += plan.steps(lot.choice(plan.faults), turn * plan.every_s, len(faults) + 1)
        return msgspec.structs.replace(self, faults=faults)

    def expected(self, mode: str) -> dict[str, Expected]:
        words = self.expect | (self.expect_kraft if mode == "kraft" else self.expect_zookeeper)
        return cast(dict[str, Expected], words)  # validation has checked the words

    @property
    def mirrors(self) -> dict[str, str]:
        """Return each topic that the mirror makes, with the topic that it copies."""
        flows = {"none": [], "one-way": [FIRST_SITE], "both-ways": [FIRST_SITE, SECOND_SITE]}[self.cluster.mirror]
        made = {}
        for topic in self.topics:
            site, own = placed(topic.name)
            if site in flows:
                made[named(SECOND_SITE if site == FIRST_SITE else FIRST_SITE, f"{site}.{own}")] = topic.name
        return made

    def topic(self, name: str) -> TopicPlan:
        """Return a topic by its name. A topic that the mirror makes is like the topic that it copies."""
        return next(topic for topic in self.topics if topic.name == self.mirrors.get(name, name))

    def settings(self, mode: str) -> Iterator[tuple[str, str, Value]]:
        """Yield scope, key and value. If both modes run it, settings of nodes that this mode lacks are left out."""
        absent = {"zookeeper": "controller", "kraft": "zookeeper"}[mode] if len(self.modes) > 1 else None
        for scope, values in self.cluster.settings.items():
            if scope != absent:
                yield from ((scope, key, value) for key, value in values.items())

    @property
    def clients(self) -> list[ProducerPlan | ConsumerPlan]:
        return [*self.producers, *self.consumers]

    @property
    def each_producer(self) -> list[ProducerPlan]:
        """Return the plan of each producer, in the order of their numbers."""
        return [plan for plan in self.producers for _ in range(plan.copies)]

    @property
    def producer_places(self) -> list[tuple[int, int]]:
        """Return for each producer its [[producers]] table, counted from 1, and its number among the copies, from 0."""
        return [(table, copy) for table, plan in enumerate(self.producers, start=1) for copy in range(plan.copies)]

    @property
    def each_consumer(self) -> list[ConsumerPlan]:
        return [plan for plan in self.consumers for _ in range(plan.copies)]

    def partitions_at_end(self, topic: TopicPlan) -> int:
        """Return how many partitions a topic has in the end. Topics only grow."""
        resized = [fault for fault in self.faults if isinstance(fault, Resize)]
        grown = [fault.to_partitions for fault in resized if f"{topic.name}/*" in fault.partitions]
        return max([topic.partitions, *grown])

    def earliest_s(self, number: int) -> float:
        """Return when fault `number`, counted from 0, can begin at the earliest; 0 if that depends on messages."""
        fault = self.faults[number]
        if fault.after_s is not None and number > 0:
            return fault.after_s + self.earliest_s(number - 1)
        return fault.at_s or 0.0

    @property
    def lasts_s(self) -> float | None:
        """Return how long the load lasts if nothing delays it; None if a producer has no rate."""
        spans = [
            producer.count / producer.rate + sum(pause.seconds for pause in producer.pauses)
            for producer in self.producers
            if producer.rate and not producer.waits
        ]
        return max(spans) if spans and len(spans) == len(self.producers) else None

    @property
    def client_hosts(self) -> int:
        """Return how many client addresses it needs."""
        hosts = [producer.from_host for producer in self.producers]
        return max([1, *hosts, *(consumer.from_host for consumer in self.consumers)])

    @property
    def transactional(self) -> list[str]:
        """Return the topics that transactions write to."""
        return sorted({producer.topic for producer in self.producers if producer.transactions})

    @property
    def total(self) -> int:
        return sum(producer.count * producer.copies for producer in self.producers)
