"""The steps of a scenario that the run takes itself, without the lab: at partitions, consumers and mirrors.

In a scenario they are faults like the others; `faults.py` lists them with those.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta
from msgspec.structs import replace

from ackproof.model.fault import AnyFault, FaultKind, Names

Partitions = Annotated[Names, Meta(description="TOPIC/PARTITION, or TOPIC/* for all partitions of a topic.")]


class Step(AnyFault, frozen=True):
    """A step at partitions, which the run takes itself, without the lab."""

    partitions: Partitions

    @property
    def asked(self) -> list[str]:
        return list(self.partitions)

    @property
    def at(self) -> str:
        return " and ".join(self.partitions)


_STEP = FaultKind(proof="", ends="does not apply", moves_leaders=False)


class Seek(Step, frozen=True, tag="seek"):
    """Send a consumer to one place of `partitions`: `to_offset`, or so many `seconds_ago`."""

    meaning: ClassVar = "A consumer goes to another offset, or to a moment in the past."
    advice: ClassVar = "Check auto.offset.reset: it decides what happens if that offset is deleted."
    about: ClassVar = replace(_STEP, proof="the consumer says where it landed", doing="seeking in")

    to_offset: Annotated[int, Meta(description="Go to this offset.")] | None = None
    seconds_ago: Annotated[float, Meta(description="Go to this time, instead of `to_offset`.")] | None = None
    policy: Annotated[
        Literal["earliest", "latest", "error"], Meta(description="What to do if that place is deleted.")
    ] = "error"
    gone: Annotated[bool, Meta(description="The step counts only if `to_offset` was deleted.")] = False

    def what(self) -> str:
        to = f"{self.seconds_ago:g} s ago" if self.seconds_ago is not None else f"offset {self.to_offset:,}"
        return f"{super().what()} to {to} (if that is gone: {self.policy})"

    def effect(self) -> str:
        return f"a consumer is sent: {self.what()}"


class Resize(Step, frozen=True, tag="resize"):
    """Let a topic of `partitions` (TOPIC/*) grow to `to_partitions`."""

    meaning: ClassVar = "A topic is given more partitions."
    advice: ClassVar = "Expect keys to move to other partitions: their order is not kept across the change."
    about: ClassVar = replace(_STEP, proof="the metadata of the cluster lists the new partitions")

    to_partitions: Annotated[int, Meta(description="How many partitions the topic has afterwards.")]

    def what(self) -> str:
        return f"{super().what()} to {self.to_partitions} partitions"

    def effect(self) -> str:
        return f"the cluster is asked to let {self.at} grow to {self.to_partitions} partitions"


class CaughtUp(Step, frozen=True, tag="caught-up"):
    """Wait until the mirror has copied everything to `partitions`, which are its own."""

    meaning: ClassVar = "The run waits until the mirror has copied everything."
    advice: ClassVar = "Do it before a planned move to the other cluster."
    about: ClassVar = replace(_STEP, proof="the end of each partition at the source is copied", mends=True)

    def effect(self) -> str:
        return f"wait until the mirror has copied everything to {self.at}"


class Translated(Step, frozen=True, tag="translated"):
    """Ask where a `group` goes on in `partitions`, which are a mirror's."""

    meaning: ClassVar = "The run asks where a group would go on at the mirror."
    advice: ClassVar = "Do it before the group moves to the other cluster."
    about: ClassVar = replace(_STEP, proof="the committed offsets of the group at the second site are read", mends=True)

    group: Annotated[str, Meta(description="A consumer group.")]

    def effect(self) -> str:
        return f"ask where the group {self.group} goes on in {self.at}"


class Elect(Step, frozen=True, tag="elect"):
    """Ask for an election at `partitions`: of the preferred leader or, with `unclean`, of any replica."""

    meaning: ClassVar = "An election of leaders is requested: of the preferred replica, or of any replica (unclean)."
    advice: ClassVar = "Request an unclean election only if losing messages is better than waiting."
    about: ClassVar = replace(_STEP, proof="the answer of the controller", moves_leaders=True)

    unclean: Annotated[bool, Meta(description="Let any replica lead, in sync or not.")] = False

    def effect(self) -> str:
        kind = "any replica, in sync or not," if self.unclean else "the preferred leader"
        return f"the cluster is asked to let {kind} lead {self.at}"
