"""The lab's audit trail as a run reads it: each line that matters is one typed event."""

from __future__ import annotations

from typing import get_args

import msgspec

from ackproof.lab.audit_log import Events


class TrailEvent(msgspec.Struct, frozen=True, tag_field="event"):
    at_ns: int  # on the monotonic clock


class Held(TrailEvent, frozen=True, tag="held"):
    """A fault that stands was proved again."""

    fault: str
    proof: str


class NoLongerHolds(TrailEvent, frozen=True, tag="no longer holds"):
    """A fault that should stand does not; of a node that was ended and has no fault's name, something serves there."""

    problem: str
    fault: str | None = None
    node: str | None = None


class Expired(TrailEvent, frozen=True, tag="expired"):
    """The fault timer ended a fault."""

    fault: str
    by: str


class Healed(TrailEvent, frozen=True, tag="healed"):
    """It was proved that a fault is over."""

    fault: str
    by: str
    proof: str
    over_ns: int | None = None  # when, if the lab did not end it itself


class Asked(TrailEvent, frozen=True, tag="asked"):
    """A command that changes the lab."""

    asked: str = ""
    by: str = ""


class Refused(TrailEvent, frozen=True, tag="refused"):
    asked: str = ""
    by: str = ""


class Failed(TrailEvent, frozen=True, tag="failed"):
    asked: str = ""
    by: str = ""


class Exited(TrailEvent, frozen=True, tag="exited"):
    """A process ended."""

    node: str
    by_itself: bool
    code: int | None = None
    signal: int | None = None


class Disturbed(TrailEvent, frozen=True, tag="disturbed"):
    """An outsider did something to a process."""

    node: str
    problem: str


class GoesOn(TrailEvent, frozen=True, tag="goes on"):
    node: str
    text: str


class Waited(TrailEvent, frozen=True, tag="waited"):
    """A process waited for a processor."""

    node: str
    waited_ns: int


Event = (
    Held | NoLongerHolds | Expired | Healed | Asked | Refused | Failed | Exited | Disturbed | GoesOn | Waited
)  # fmt: skip
_EVENTS: dict[str, type[TrailEvent]] = {str(each.__struct_config__.tag): each for each in get_args(Event)}


class LabTrail:
    """Reads the trail on from where it stood before."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._place = 0

    def new_events(self) -> list[Event]:
        """Return the events since the last call. Those that do not matter to a run are left out."""
        lines, self._place = self._events.read_from(self._place)
        return [msgspec.convert(line, Event) for line in lines if line["event"] in _EVENTS]
