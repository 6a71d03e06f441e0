"""The kinds of fault, one struct each. This is the only place that lists them.

A `[[faults]]` table of a scenario, a command in a terminal and a request to the lab all become one of these structs.
Its `kind` chooses the struct; the fields of the struct are the options of that kind. The docstring is the help text.
`about` says what the rest of the program has to know of the kind.

To add a kind: its struct here and its name in `Fault`, its function in `lab/faults/<family>.py`, its test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal, Self, get_args

import msgspec
from msgspec import Meta

CLIENTS = ("producer:", "consumer:")  # by number, counted from 1 in the scenario's order
_NAMING = ("targets", "apart_from", "groups")  # the fields that name nodes, roles or clients

Names = Annotated[list[str], Meta(min_length=1)]
Targets = Annotated[
    Names,
    Meta(
        description="Nodes: names, globs ('kafka*'), or roles such as leader:orders/0.",
        extra={"argument": "NODES"},
    ),
]
Partitions = Annotated[Names, Meta(description="TOPIC/PARTITION, or TOPIC/* for all partitions of a topic.")]
OneWay = Annotated[bool, Meta(description="Only from the first to the second.")]
Port = Annotated[int, Meta(ge=1, le=65_535, description="Only this port, at either end.")]
NewConnections = Annotated[bool, Meta(description="Only new connections; those that stand go on.")]
Reset = Annotated[bool, Meta(description="Answer with a reset instead of silence.")]


class FaultKind(msgspec.Struct, frozen=True, kw_only=True):
    """What the program has to know of one kind of fault, besides its name, its help and its options."""

    proof: str  # what proves that it holds
    ends: str  # what ends it if nobody is there
    doing: str | None = None  # as the verdict's sentence says it, "killing"; without, the kind breaks nothing
    examples: tuple[str, ...] = ()  # of its command; a kind without an example has no command
    drawn: bool = False  # may be drawn by lot
    hits_clients: bool = False  # its targets may be clients
    moves_leaders: bool = True
    mends: bool = False  # the load need not outlast it
    takes_down: bool = False  # the process of its target ends, perhaps to start again
    leaves_down: bool = False  # the process of its target ends, and only `start` brings it back
    starts: bool = False  # the process of its target starts
    freezes: bool = False  # the process of its target stands still
    silences: bool = False  # nothing comes from its target
    needs_netem: bool = False


class AnyFault(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """When a fault begins, and what every kind has."""

    about: ClassVar[FaultKind]
    family: ClassVar[str | None] = None  # its function is in `lab/faults/<family>.py`; none: the run does it
    lasting: ClassVar[bool] = False  # it is healed; the others are done at once

    at_s: float | None = None  # seconds since the load began
    at_messages: int | None = None  # messages sent by all producers together
    after_s: float | None = None  # so long after the fault before it was done, however long that took
    before_clients: bool = False  # it begins before any client is started
    may_fail: bool = False  # a refusal is an answer too
    step: str | None = None  # a step of a runbook, in words

    @property
    def kind(self) -> str:
        return kind_of(type(self))

    @property
    def begins_by(self) -> list[str]:
        """The fields that say when it begins."""
        return [name for name in BEGINNINGS if getattr(self, name) not in (None, False)]

    @property
    def ends_by(self) -> list[str]:
        """The fields that say when it ends."""
        return []

    @property
    def names(self) -> list[tuple[str, str]]:
        """Each node, role or client that it names, with the field that names it."""
        found: list[tuple[str, str]] = []
        for field in (field for field in _NAMING if field in self.__struct_fields__):
            names = getattr(self, field)
            every = [name for group in names for name in group] if field == "groups" else names
            found += [(field, name) for name in every]
        return found

    def renamed(self, rename: Callable[[list[str]], list[str]]) -> Self:
        """The same fault with other names in the place of each list of names."""
        changes = {}
        for field in (field for field in _NAMING if field in self.__struct_fields__):
            names = getattr(self, field)
            changes[field] = [rename(group) for group in names] if field == "groups" else rename(names)
        return msgspec.structs.replace(self, **changes)

    @property
    def on_clients(self) -> bool:
        return any(name.startswith(CLIENTS) for field, name in self.names if field == "targets")

    @property
    def starts_a_producer(self) -> bool:
        """Whether a producer may send again, or for the first time, because of it."""
        return isinstance(self, Start) and any(target.startswith("producer:") for target in self.targets)

    @property
    def asked(self) -> list[str]:
        """What it is aimed at, as the scenario names it."""
        return [name for field, name in self.names if field == "targets"]

    @property
    def severed_from(self) -> list[str]:
        """The other side of the links that it cuts, where it has one."""
        return [name for field, name in self.names if field == "apart_from"]

    def what(self) -> str:
        """The kind and what it is done to, in a few words."""
        return f"{self.kind} {' '.join(self.asked)}"

    def effect(self) -> str:
        """What exactly is done, in one sentence. Roles are resolved when the fault begins."""
        raise NotImplementedError

    def when(self) -> str:
        if self.before_clients:
            return "before the clients start"
        if self.after_s is not None:
            return f"{self.after_s:g} s after the one before was done"
        return f"at {self.at_messages:,} messages" if self.at_messages is not None else f"at {self.at_s:g} s"

    def heals(self) -> str:
        return ""


BEGINNINGS = ("at_s", "at_messages", "after_s", "before_clients")
ENDS = ("until_s", "until_messages", "until")


# -- processes -------------------------------------------------------------------------------------------------------


class ProcessFault(AnyFault, frozen=True):
    """A change of a process that is done once, and not healed."""

    family: ClassVar[str | None] = "nodes"

    targets: Targets

    @property
    def to(self) -> str:
        return " and ".join(self.targets)


class Kill(ProcessFault, frozen=True, tag="kill"):
    """End nodes at once (SIGKILL), as a crash would."""

    about: ClassVar = FaultKind(
        proof="the parent of the process sees its end, and the port of the node refuses; "
        "the port is asked again every second until the node is started",
        ends="nothing: `start` brings the node back",
        doing="killing",
        examples=("kill leader:orders/0",),
        drawn=True,
        hits_clients=True,
        takes_down=True,
        leaves_down=True,
    )

    def effect(self) -> str:
        return f"SIGKILL to {self.to}"


class Stop(ProcessFault, frozen=True, tag="stop"):
    """Stop nodes in an orderly way (SIGTERM), and wait until they have ended."""

    about: ClassVar = FaultKind(
        proof="the parent of the process sees its end, and the port of the node refuses; "
        "the port is asked again every second until the node is started",
        ends="nothing: `start` brings the node back",
        doing="stopping",
        examples=("stop kafka2",),
        drawn=True,
        hits_clients=True,
        takes_down=True,
        leaves_down=True,
    )

    def effect(self) -> str:
        return f"SIGTERM to {self.to}, and wait until it has ended"


class Start(ProcessFault, frozen=True, tag="start"):
    """Start nodes that are down, all of them without a name, and wait until they serve."""

    about: ClassVar = FaultKind(
        proof="the port refused before; now the node answers, and the metadata of a broker lists it",
        ends="does not apply",
        examples=("start", "start kafka2 kafka3"),
        hits_clients=True,
        moves_leaders=False,
        mends=True,
        starts=True,
    )

    def effect(self) -> str:
        return f"start {self.to} on its old disk"


class Restart(ProcessFault, frozen=True, tag="restart"):
    """Stop nodes and start them again."""

    about: ClassVar = FaultKind(
        proof="that of `stop`, then that of `start`",
        ends="itself: the node serves again",
        doing="restarting",
        examples=("restart kafka1 --kill",),
        drawn=True,
        hits_clients=True,
        takes_down=True,
        starts=True,
    )

    def effect(self) -> str:
        return f"SIGTERM to {self.to}, and start it again on its old disk"


class Replace(ProcessFault, frozen=True, tag="replace"):
    """Kill nodes, and start them again under their old id with an empty disk."""

    about: ClassVar = FaultKind(
        proof="that of `kill`, then the disk is empty, then that of `start`",
        ends="itself: the node serves again",
        doing="replacing",
        takes_down=True,
    )

    def effect(self) -> str:
        return f"SIGKILL to {self.to}, its disk is emptied, and it starts under its old id"


class AddDirectory(ProcessFault, frozen=True, tag="add-directory"):
    """Stop brokers, and start them again with one more, empty, log directory."""

    about: ClassVar = FaultKind(
        proof="that of `stop`, then that of `start`",
        ends="itself: the broker serves again",
        doing="adding a directory to",
        takes_down=True,
    )

    def effect(self) -> str:
        return f"SIGTERM to {self.to}, and start it again with one more log directory"


# -- faults that last ------------------------------------------------------------------------------------------------


class LastingFault(AnyFault, frozen=True, kw_only=True):
    """A fault that stands until it is healed, and is proved again every second until then."""

    lasting: ClassVar[bool] = True
    family: ClassVar[str | None] = "network"

    until_s: float | None = None
    until_messages: int | None = None
    until: Literal["load-ended"] | None = None
    not_before_new_epoch: str | None = None  # TOPIC/PARTITION
    not_before_max_s: float = 30.0

    @property
    def ends_by(self) -> list[str]:
        return [name for name in ENDS if getattr(self, name) is not None]

    def heals(self) -> str:
        if self.until_messages is not None:
            end = f"at {self.until_messages:,} messages"
        else:
            end = "after the last send" if self.until else f"at {self.until_s:g} s"
        if self.not_before_new_epoch is None:
            return end
        return f"{end}, and not before a new leader epoch was seen or {self.not_before_max_s:g} s have passed"


class Pause(LastingFault, frozen=True, tag="pause"):
    """Freeze nodes (SIGSTOP): their connections stay open and nobody answers."""

    family: ClassVar[str | None] = "nodes"
    about: ClassVar = FaultKind(
        proof="every thread of the process is stopped, the node is reached, and it does not answer",
        ends="the fault timer, a process of its own",
        doing="pausing",
        examples=("pause follower:orders/0 --for 15s",),
        drawn=True,
        hits_clients=True,
        freezes=True,
        silences=True,
    )

    targets: Targets

    def effect(self) -> str:
        return f"SIGSTOP to {' and '.join(self.targets)}; SIGCONT heals it"


_LINKS_PROOF = (
    "a datagram on each link is counted by the rule of the fault and does not arrive, while the observer reaches "
    "both ends and an untouched pair, port or connection still gets through"
)


class Isolate(LastingFault, frozen=True, tag="isolate"):
    """Cut nodes off from all other nodes, or from `apart_from`. Clients still reach them."""

    about: ClassVar = FaultKind(proof=_LINKS_PROOF, ends="the kernel", doing="isolating", drawn=True, silences=True)

    targets: Targets
    apart_from: list[str] = []
    one_way: OneWay = False
    port: Port | None = None
    new_connections: NewConnections = False
    reset: Reset = False

    def what(self) -> str:
        return f"{super().what()} from {' '.join(self.apart_from)}" if self.apart_from else super().what()

    def effect(self) -> str:
        if self.apart_from:
            return _dropped(self)
        targets = " and ".join(self.targets)
        return f"nftables drops every packet between {targets} and all other nodes; clients still reach {targets}"


class Partition(LastingFault, frozen=True, tag="partition"):
    """Split the network into groups: only nodes that share a group hear each other.

    Nodes that no group names form one more group; `client` is in every group unless it is named; a name may stand in
    several groups. Partitions add up until `join` ends them all.
    """

    about: ClassVar = FaultKind(
        proof=_LINKS_PROOF,
        ends="the kernel",
        doing="parting",
        examples=(
            "partition kafka3                           cut off from all others; clients still reach it",
            "partition kafka1,kafka2,kafka3 kafka2,kafka3,'zk*'   kafka1 has lost ZooKeeper only",
        ),
        drawn=True,
        silences=True,
    )

    groups: Annotated[
        list[list[str]],
        Meta(
            min_length=1,
            description="Groups of nodes, each with commas and without spaces.",
            extra={"argument": "GROUPS"},
        ),
    ]

    @property
    def asked(self) -> list[str]:
        return [",".join(group) for group in self.groups]

    def what(self) -> str:
        return f"{self.kind} {self._sides}"

    def effect(self) -> str:
        return f"nftables drops every packet between the groups {self._sides}"

    @property
    def _sides(self) -> str:
        return " | ".join(" ".join(group) for group in self.groups)


_SIDE = "A node, a glob, a role such as leader:orders/0, or several with commas."


class Cut(LastingFault, frozen=True, tag="cut"):
    """Cut the links between two nodes, or between two sets of nodes."""

    about: ClassVar = FaultKind(
        proof=_LINKS_PROOF,
        ends="the kernel",
        doing="cutting off",
        examples=(
            "cut leader:orders/0 'zk*'                  the leader loses ZooKeeper",
            "cut kafka1 client --one-way --for 3s       written, but the acknowledgement is lost",
            "cut client kafka2 --port 9092 --reset",
        ),
        drawn=True,
        silences=True,
    )

    targets: Annotated[Names, Meta(description=_SIDE, extra={"argument": "LEFT"})]
    apart_from: Annotated[Names, Meta(description=_SIDE, extra={"argument": "RIGHT"})]
    one_way: OneWay = False
    port: Port | None = None
    new_connections: NewConnections = False
    reset: Reset = False

    def what(self) -> str:
        return f"{super().what()} from {' '.join(self.apart_from)}"

    def effect(self) -> str:
        return _dropped(self)


def _dropped(fault: Isolate | Cut) -> str:
    targets, other = " and ".join(fault.targets), " and ".join(fault.apart_from)
    act = "answers with a reset" if fault.reset else "drops"
    what = "every new connection" if fault.new_connections else "every packet"
    way = (
        f"from {targets} to {other}, and lets the other way pass" if fault.one_way else f"between {targets} and {other}"
    )
    return f"nftables {act} {what} {way}" + (f", only to port {fault.port}" if fault.port else "")


class Flaky(LastingFault, frozen=True, tag="flaky"):
    """Lose a share of all packets to and from a node."""

    about: ClassVar = FaultKind(
        proof="each of many datagrams either arrives or is counted by the rule of the fault, in the share asked for",
        ends="the kernel",
        doing="losing packets of",
        examples=("flaky kafka2 --loss 5% --for 1m",),
        drawn=True,
    )

    targets: Targets
    loss: Annotated[
        float,
        Meta(gt=0, le=1, description="The share of packets that get lost, for example 5%.", extra={"unit": "share"}),
    ]

    def effect(self) -> str:
        return f"nftables drops {self.loss:.0%} of all packets to and from {' and '.join(self.targets)}, at random"


class Slow(LastingFault, frozen=True, tag="slow"):
    """Delay all packets to and from a node (needs netem in the kernel)."""

    about: ClassVar = FaultKind(
        proof="a datagram arrives late by the delay, and the delay stands in both directions",
        ends="the fault timer, a process of its own",
        doing="slowing down",
        examples=("slow kafka2 --delay 50ms",),
        drawn=True,
        needs_netem=True,
    )

    targets: Targets
    delay_ms: Annotated[
        float,
        Meta(
            ge=1,
            le=60_000,
            description="How much longer a round trip takes, for example 50ms.",
            extra={"unit": "ms", "option": "--delay"},
        ),
    ]

    def effect(self) -> str:
        targets = " and ".join(self.targets)
        return f"netem delays every packet to and from {targets}, {self.delay_ms:g} ms there and back"


# -- steps that the run takes itself ---------------------------------------------------------------------------------


class Step(AnyFault, frozen=True):
    """A step at partitions, which the run takes itself, without the lab."""

    partitions: Partitions

    @property
    def asked(self) -> list[str]:
        return list(self.partitions)

    @property
    def at(self) -> str:
        return " and ".join(self.partitions)


class Seek(Step, frozen=True, tag="seek"):
    """Send a consumer to one place of `partitions`: `to_offset`, or so many `seconds_ago`."""

    about: ClassVar = FaultKind(
        proof="the consumer says where it landed", ends="does not apply", doing="seeking in", moves_leaders=False
    )

    to_offset: int | None = None
    seconds_ago: float | None = None  # in place of to_offset
    policy: Literal["earliest", "latest", "error"] = "error"  # what to do where that place is gone
    gone: bool = False  # to_offset is expected to be gone, or the step shows nothing

    def what(self) -> str:
        to = f"{self.seconds_ago:g} s ago" if self.seconds_ago is not None else f"offset {self.to_offset:,}"
        return f"{super().what()} to {to} (if that is gone: {self.policy})"

    def effect(self) -> str:
        return f"a consumer is sent: {self.what()}"


class Resize(Step, frozen=True, tag="resize"):
    """Let a topic of `partitions` (TOPIC/*) grow to `to_partitions`."""

    about: ClassVar = FaultKind(
        proof="the metadata of the cluster lists the new partitions", ends="does not apply", moves_leaders=False
    )

    to_partitions: int

    def what(self) -> str:
        return f"{super().what()} to {self.to_partitions} partitions"

    def effect(self) -> str:
        return f"the cluster is asked to let {self.at} grow to {self.to_partitions} partitions"


class CaughtUp(Step, frozen=True, tag="caught-up"):
    """Wait until the mirror has copied everything to `partitions`, which are its own."""

    about: ClassVar = FaultKind(
        proof="the end of each partition at the source is copied", ends="does not apply", moves_leaders=False,
        mends=True,
    )  # fmt: skip

    def effect(self) -> str:
        return f"wait until the mirror has copied everything to {self.at}"


class Translated(Step, frozen=True, tag="translated"):
    """Ask where a `group` goes on in `partitions`, which are a mirror's."""

    about: ClassVar = FaultKind(
        proof="the committed offsets of the group are read at the second site", ends="does not apply",
        moves_leaders=False, mends=True,
    )  # fmt: skip

    group: str

    def effect(self) -> str:
        return f"ask where the group {self.group} goes on in {self.at}"


class Elect(Step, frozen=True, tag="elect"):
    """Ask for an election at `partitions`: of the preferred leader or, with `unclean`, of any replica."""

    about: ClassVar = FaultKind(proof="the answer of the controller", ends="does not apply")

    unclean: bool = False

    def effect(self) -> str:
        kind = "any replica, in sync or not," if self.unclean else "the preferred leader"
        return f"the cluster is asked to let {kind} lead {self.at}"


Fault = (
    Kill | Stop | Start | Restart | Replace | AddDirectory
    | Pause | Isolate | Partition | Cut | Flaky | Slow
    | Seek | Resize | CaughtUp | Translated | Elect
)  # fmt: skip


def kind_of(fault: type[AnyFault]) -> str:
    return str(fault.__struct_config__.tag)


FAULTS: dict[str, type[AnyFault]] = {kind_of(each): each for each in get_args(Fault)}


def kinds_that(trait: Callable[[FaultKind], bool]) -> tuple[str, ...]:
    """Return the names of the kinds that have a trait."""
    return tuple(name for name, fault in FAULTS.items() if trait(fault.about))


DRAWN = kinds_that(lambda kind: kind.drawn)
MEND = kinds_that(lambda kind: kind.mends)
MOVE_NO_LEADER = kinds_that(lambda kind: not kind.moves_leaders)
TAKE_DOWN = kinds_that(lambda kind: kind.takes_down)
LEAVE_DOWN = kinds_that(lambda kind: kind.leaves_down)
FREEZE = kinds_that(lambda kind: kind.freezes)
HIT_CLIENTS = kinds_that(lambda kind: kind.hits_clients)
