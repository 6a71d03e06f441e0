"""What every kind of fault has: when it begins and ends, whom it names, and what the program has to know of it.

The kinds themselves are in `faults.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal, Self

import msgspec
from msgspec import Meta

CLIENTS = ("producer:", "consumer:")  # by number, counted from 1 in the scenario's order
BEGINNINGS = ("at_s", "at_messages", "after_s", "before_clients")
ENDS = ("until_s", "until_messages", "until")
_NAMING = ("targets", "apart_from", "groups")  # the fields that name nodes, roles or clients

Names = Annotated[list[str], Meta(min_length=1)]
Targets = Annotated[
    Names,
    Meta(
        description="Nodes: names, globs ('kafka*'), or roles such as leader:orders/0.",
        extra={"argument": "NODES"},
    ),
]


class FaultKind(msgspec.Struct, frozen=True, kw_only=True):
    """What the program has to know of one kind of fault, besides its name, its help and its options."""

    proof: str  # what proves that it holds
    ends: str  # what ends it if the command that began it is gone
    doing: str | None = None  # as the verdict's sentence says it, "killing"; without, the kind breaks nothing
    examples: tuple[str, ...] = ()  # of its command; a kind without an example has no command
    drawn: bool = False  # may be drawn at random
    hits_clients: bool = False  # its targets may be clients
    moves_leaders: bool = True
    mends: bool = False  # the load need not outlast it
    takes_down: bool = False  # the process of its target ends, perhaps to start again
    leaves_down: bool = False  # the process of its target ends, and only `start` brings it back
    starts: bool = False  # the process of its target starts
    freezes: bool = False  # the process of its target stands still
    silences: bool = False  # nothing comes from its target
    spans_lab: bool = False  # it is about all nodes of the lab: a node that is added would not be part of it
    needs_netem: bool = False


class AnyFault(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """When a fault begins, and what every kind has."""

    about: ClassVar[FaultKind]
    meaning: ClassVar[str]  # one sentence of the glossary: what it means for a user who is new to Kafka
    advice: ClassVar[str]  # and one: what to do about it
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
        return False

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


class ProcessFault(AnyFault, frozen=True):
    """A change of a process that is done once, and not healed."""

    family: ClassVar[str | None] = "nodes"

    targets: Targets

    @property
    def to(self) -> str:
        return " and ".join(self.targets)


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


def kind_of(fault: type[AnyFault]) -> str:
    return str(fault.__struct_config__.tag)
