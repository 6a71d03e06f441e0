"""Print the end of a file and follow it as it grows: for `logs` and `events`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ackproof.cli.ui.console import say
from ackproof.lab.audit_log import Events

_POLL_S = 0.2

Event = dict[str, Any]
"""A line of the audit trail, as JSON; its facts depend on the event."""


def tail(path: Path, lines: int, follow: bool) -> None:
    with path.open("rb") as log:
        content = log.read().decode(errors="replace")
        say(*(content.splitlines()[-lines:] if lines else []))
        rest = ""
        while follow:
            rest += log.read().decode(errors="replace")
            *whole, rest = rest.split("\n")
            say(*whole)
            if not whole:
                time.sleep(_POLL_S)


def follow_events(trail: Events) -> None:
    place = 0
    while True:
        events, place = trail.read_from(place)
        say(*(told(event) for event in events if worth_telling(event)))
        time.sleep(_POLL_S)


def worth_telling(event: Event) -> bool:
    """Whether an event is shown. Events that come every second are not: a fault still holds, a node waited for a
    processor."""
    return event["event"] not in ("held", "waited")


def told(event: Event) -> str:
    """Return an event as one line: when, what, and its facts."""
    at = str(event["at"])[11:23]
    facts = [
        f"{name}={' '.join(map(str, fact)) if isinstance(fact, list) else fact}"
        for name, fact in event.items()
        if name not in ("at", "at_ns", "over_ns", "event") and not (name == "verb" and "asked" in event)
    ]
    return f"{at}  {event['event']:16} {'  '.join(facts)}"
