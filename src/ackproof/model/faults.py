"""The kinds of fault, one struct each, and the list of all of them.

A `[[faults]]` table of a scenario, a command in a terminal and a request to the lab all become one of these structs.
Its `kind` chooses the struct; the fields of the struct are the options of that kind. The docstring is the help text.
`about` says what the rest of the program has to know of the kind.

To add a kind: its struct here and its name in `Fault`, its function in `lab/faults/<family>.py`, its test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, get_args

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from ackproof.model.fault import AnyFault, FaultKind, LastingFault, Names, ProcessFault, Targets, kind_of
from ackproof.model.steps import CaughtUp, Elect, Resize, Seek, Translated

OneWay = Annotated[bool, Meta(description="Only from the first side to the second.")]
Port = Annotated[int, Meta(ge=1, le=65_535, description="Only this port, at either end.")]
NewConnections = Annotated[bool, Meta(description="Only new connections; open ones go on.")]
Reset = Annotated[bool, Meta(description="Answer with a reset instead of silence.")]


# -- processes -------------------------------------------------------------------------------------------------------


_ENDED = FaultKind(
    proof="the parent of the process sees its end, and the port of the node refuses; "
    "the port is asked again every second until the node is started",
    ends="nothing: `start` brings the node back",
    drawn=True,
    hits_clients=True,
    takes_down=True,
    leaves_down=True,
)


class Kill(ProcessFault, frozen=True, tag="kill"):
    """End nodes at once (SIGKILL), as a crash would."""

    meaning: ClassVar = "The process ends at once, as after a crash (SIGKILL)."
    advice: ClassVar = (
        "Expect clients to find the new leader within seconds; with acks=all no acknowledged message should be lost."
    )
    about: ClassVar = replace(_ENDED, doing="killing", examples=("kill leader:orders/0",))

    def effect(self) -> str:
        return f"SIGKILL to {self.to}"


class Stop(ProcessFault, frozen=True, tag="stop"):
    """Stop nodes in an orderly way (SIGTERM), and wait until they have ended."""

    meaning: ClassVar = "The process is asked to shut down in an orderly way (SIGTERM)."
    advice: ClassVar = "Expect a short move of leaders and no loss: this is what a rolling restart does."
    about: ClassVar = replace(_ENDED, doing="stopping", examples=("stop kafka2",))

    def effect(self) -> str:
        return f"SIGTERM to {self.to}, and wait until it has ended"


class Start(ProcessFault, frozen=True, tag="start"):
    """Start nodes that are down, all of them without a name, and wait until they serve."""

    meaning: ClassVar = "A process that was down is started again."
    advice: ClassVar = "Wait until its replicas are in sync before you break the next broker."
    about: ClassVar = FaultKind(
        proof="the port refused before; now the node answers, and the metadata of a broker lists it",
        ends="does not apply",
        examples=("start", "start kafka2 kafka3"),
        hits_clients=True,
        moves_leaders=False,
        mends=True,
        starts=True,
    )

    @property
    def starts_a_producer(self) -> bool:
        return any(target.startswith("producer:") for target in self.targets)

    def effect(self) -> str:
        return f"start {self.to} on its old disk"


_AGAIN = FaultKind(proof="that of `stop`, then that of `start`", ends="itself: the node serves again", takes_down=True)


class Restart(ProcessFault, frozen=True, tag="restart"):
    """Stop nodes and start them again."""

    meaning: ClassVar = "The process is stopped in an orderly way and started again."
    advice: ClassVar = "Restart one broker at a time, and wait until all replicas are in sync."
    about: ClassVar = replace(
        _AGAIN,
        doing="restarting",
        examples=("restart kafka1 --kill",),
        drawn=True,
        hits_clients=True,
        starts=True,
    )

    def effect(self) -> str:
        return f"SIGTERM to {self.to}, and start it again on its old disk"


class Replace(ProcessFault, frozen=True, tag="replace"):
    """Kill nodes, and start them again under their old id with an empty disk."""

    meaning: ClassVar = "A broker is killed, its disk is emptied, and it starts again under its old id."
    advice: ClassVar = "Let it copy its replicas from the others before it may lead."
    about: ClassVar = replace(
        _AGAIN, doing="replacing", proof="that of `kill`, then the disk is empty, then that of `start`"
    )

    def effect(self) -> str:
        return f"SIGKILL to {self.to}, its disk is emptied, and it starts under its old id"


class AddDirectory(ProcessFault, frozen=True, tag="add-directory"):
    """Stop brokers, and start them again with one more, empty, log directory."""

    meaning: ClassVar = "A broker is restarted with one more, empty, log directory."
    advice: ClassVar = "Move replicas there if you want to use it: Kafka moves none by itself."
    about: ClassVar = replace(_AGAIN, doing="adding a directory to")

    def effect(self) -> str:
        return f"SIGTERM to {self.to}, and start it again with one more log directory"


# -- faults that last ------------------------------------------------------------------------------------------------


class Pause(LastingFault, frozen=True, tag="pause"):
    """Freeze nodes (SIGSTOP): their connections stay open and the nodes do not answer."""

    family: ClassVar[str | None] = "nodes"
    meaning: ClassVar = "The process is frozen, as by a long garbage collection or a stalled disk (SIGSTOP)."
    advice: ClassVar = "Expect it to believe that it still leads when it goes on: acks=all makes that harmless."
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


_SEVERED = FaultKind(
    proof="a datagram on each link is counted by the rule of the fault and does not arrive, while the observer reaches "
    "both ends and an untouched pair, port or connection still gets through",
    ends="the kernel",
    drawn=True,
    silences=True,
)


class Isolate(LastingFault, frozen=True, tag="isolate"):
    """Cut nodes off from all other nodes, or from `apart_from`. Clients still reach them."""

    meaning: ClassVar = "A node is cut off from the other nodes, while clients still reach it."
    advice: ClassVar = (
        "Use acks=all and min.insync.replicas=2: with acks=1 the old leader goes on acknowledging what will be lost."
    )
    about: ClassVar = replace(_SEVERED, doing="isolating", spans_lab=True)

    targets: Targets
    apart_from: Annotated[list[str], Meta(description="Cut only the links to these nodes.")] = msgspec.field(
        default_factory=list
    )
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

    meaning: ClassVar = "The network splits into groups of nodes that do not reach each other."
    advice: ClassVar = "Keep a majority of the quorum, and enough replicas, on the side that should go on."
    about: ClassVar = replace(
        _SEVERED,
        doing="parting",
        examples=(
            "partition kafka3                           cut off from all others; clients still reach it",
            "partition kafka1,kafka2,kafka3 kafka2,kafka3,'zk*'   kafka1 has lost ZooKeeper only",
        ),
        spans_lab=True,
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

    meaning: ClassVar = "The links between some nodes are cut, in both directions or in one."
    advice: ClassVar = "Look at which broker noticed: a one-way cut is noticed later than a full one."
    about: ClassVar = replace(
        _SEVERED,
        doing="cutting off",
        examples=(
            "cut leader:orders/0 'zk*'                  the leader loses ZooKeeper",
            "cut kafka1 client --one-way --for 3s       written, but the acknowledgement is lost",
            "cut client kafka2 --port 9092 --reset",
        ),
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

    meaning: ClassVar = "A share of all packets is lost."
    advice: ClassVar = "Expect higher latency and retries; the idempotent producer keeps order and avoids copies."
    about: ClassVar = FaultKind(
        proof="each of many datagrams either arrives or is counted by the rule of the fault, in the share asked for",
        ends="the kernel",
        doing="losing packets of",
        examples=("flaky kafka2 --loss 5% --for 1m",),
        drawn=True,
        spans_lab=True,
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

    meaning: ClassVar = "Packets arrive late."
    advice: ClassVar = (
        "Compare the delay with your timeouts: a timeout that is too short makes a slow network a broken one."
    )
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


Fault = (
    Kill | Stop | Start | Restart | Replace | AddDirectory
    | Pause | Isolate | Partition | Cut | Flaky | Slow
    | Seek | Resize | CaughtUp | Translated | Elect
)  # fmt: skip


FAULTS: dict[str, type[AnyFault]] = {kind_of(each): each for each in get_args(Fault)}


def kinds_that(trait: Callable[[FaultKind], bool]) -> tuple[str, ...]:
    """Return the names of the kinds that have a trait."""
    return tuple(name for name, fault in FAULTS.items() if trait(fault.about))


DRAWN = kinds_that(lambda kind: kind.drawn)
SPAN_LAB = kinds_that(lambda kind: kind.spans_lab)
MEND = kinds_that(lambda kind: kind.mends)
MOVE_NO_LEADER = kinds_that(lambda kind: not kind.moves_leaders)
LEAVE_DOWN = kinds_that(lambda kind: kind.leaves_down)
FREEZE = kinds_that(lambda kind: kind.freezes)
HIT_CLIENTS = kinds_that(lambda kind: kind.hits_clients)
