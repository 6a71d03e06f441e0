"""Watch a lab until it ends: ask it again and again, and draw the view when something has changed.

A thread of its own asks the lab, so a slow answer (a node was just paused, the machine is busy) never freezes the view:
it shows the last answer and says how old that is. Where standard output is not a terminal, the same view is printed as
text whenever something has changed.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from ackproof.cli.ui.follow import worth_telling
from ackproof.cli.ui.lab_status import read_groups, read_status
from ackproof.cli.ui.lab_view import Fresh, Look, draw
from ackproof.core.errors import Problem
from ackproof.core.text import plain
from ackproof.lab import client as control
from ackproof.lab.audit_log import Events
from ackproof.lab.directory import LabDirectory

FRESH_S = 5.0
STALE_INTERVALS = 2
FIRST_LOOK_S = 0.5
EVENTS_MAX = 20
_TICK_S = 0.1

Facts = Mapping[Hashable, object]
"""Everything whose change is worth showing, under a name that stays the same."""


def watch_lab(name: str, every_s: float) -> None:
    """Show a lab until `q` or Ctrl-C. A lab that goes down raises a problem."""
    looker = Looker(name, every_s)
    console = Console(highlight=False, markup=False, emoji=False)
    try:
        looker.wait(FIRST_LOOK_S)  # so that a lab that does not exist is reported before the screen changes
        if console.is_terminal and not console.is_dumb_terminal:
            _show(console, looker)
        else:
            _print(looker)
    except KeyboardInterrupt:
        return  # the usual way to leave


# -- asking ----------------------------------------------------------------------------------------------------------


class Looker:
    """Asks a lab again and again: `latest` is the last answer, `trouble` says why a later question failed."""

    def __init__(self, name: str, every_s: float) -> None:
        self.name = name
        self.every_s = every_s
        self.latest: Look | None = None
        self.trouble: str | None = None
        self._ended: Exception | None = None
        self._directory = LabDirectory.of(name)
        threading.Thread(target=self._live, name="looker", daemon=True).start()

    def wait(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while self.latest is None and time.monotonic() < deadline:
            self.check()
            time.sleep(_TICK_S / 10)

    def check(self) -> None:
        if self._ended is not None:
            raise self._ended

    def age_s(self, now: float) -> float:
        return now - self.latest.at if self.latest else 0.0

    def _live(self) -> None:
        while self._ended is None:
            begun = time.monotonic()
            try:
                self.latest = self._look()
                self.trouble = None
            except Problem as problem:
                # A lab that is up may fail to answer once, and succeed the next time.
                self.trouble = problem.message
                self._ended = None if self._is_up() else problem
            except Exception as problem:  # noqa: BLE001  # raised again by `check`, in the thread that shows
                self._ended = problem
            time.sleep(max(0.0, begun + self.every_s - time.monotonic()))

    def _is_up(self) -> bool:
        try:
            return self._directory.alive()
        except Problem:  # no permission, which the failed question has reported already
            return False

    def _look(self) -> Look:
        status = read_status(control.status(self.name))
        groups = read_groups(control.call(self.name, "groups")["groups"])
        events = [event for event in Events(self._directory.events).read() if worth_telling(event)][-EVENTS_MAX:]
        clock = datetime.now(UTC).strftime("%H:%M:%S UTC")
        return Look(status, groups, tuple(events), time.monotonic(), clock)


# -- what has changed ------------------------------------------------------------------------------------------------


def facts(look: Look) -> Facts:
    status = look.status
    found: dict[Hashable, object] = {"controller": status.controller, "ensemble": status.zookeeper_leader}
    found |= {("state", node.name): node.state for node in status.nodes}
    found |= {("fault", fault.fault): fault.broken for fault in status.faults}
    found |= {("link", a, b): open_ for a, row in status.reachable.items() for b, open_ in row.items()}
    for view in status.topic_partitions:
        found["leader", view.topic, view.partition] = view.leader
        found["isr", view.topic, view.partition] = sorted(view.isr)
    for group in look.groups:
        found["group", group.id] = group.state
        found |= {("member", group.id, member.id): member.assigned for member in group.members}
    return found


def changes(before: Facts, after: Facts, changed: Mapping[Hashable, float], now: float) -> dict[Hashable, float]:
    """Return when each fact last changed, for the facts that changed a moment ago."""
    recent = {key: at for key, at in changed.items() if now - at < FRESH_S}
    return recent | {key: now for key in after if key not in before or before[key] != after[key]}


# -- showing ---------------------------------------------------------------------------------------------------------


@dataclass
class _Shown:
    """What the screen has shown so far."""

    look: Look | None = None
    changed: dict[Hashable, float] | None = None

    def see(self, look: Look | None, now: float) -> Fresh:
        if look is not None and look is not self.look:
            before = facts(self.look) if self.look else None
            # Everything in the first look is new, so nothing of it stands out.
            self.changed = {} if before is None else changes(before, facts(look), self.changed or {}, now)
            self.look = look
        return frozenset(key for key, at in (self.changed or {}).items() if now - at < FRESH_S)


def _show(console: Console, looker: Looker) -> None:
    shown, last = _Shown(), None
    with _keys() as key, Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        while key() not in ("q", "Q", "\x04"):
            looker.check()
            now = time.monotonic()
            fresh = shown.see(looker.latest, now)
            stale_s = _stale_s(looker, now)
            size = console.size
            # Draw only if something would look different: an idle view costs nothing.
            frame = (shown.look, fresh, stale_s, looker.trouble, size)
            if frame != last:
                parts = _parts(shown.look, fresh, stale_s, looker.trouble, size.width, size.height)
                live.update(Group(*parts), refresh=True)
                last = frame


def _stale_s(looker: Looker, now: float) -> int | None:
    age_s = looker.age_s(now)
    return int(age_s) if age_s > max(STALE_INTERVALS * looker.every_s, 1.0) else None


def _parts(
    look: Look | None, fresh: Fresh, stale_s: int | None, trouble: str | None, width: int, height: int
) -> list[RenderableType]:
    if look is None:
        return [Text("asking the lab ...  (q leaves)")]
    return draw(look, fresh, stale_s, trouble, width, height)


def _no_key() -> str:
    time.sleep(_TICK_S)
    return ""


@contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """Yield a function that waits a moment for a key and returns it. Keys are not echoed; Ctrl-C stays a signal."""
    if not sys.stdin.isatty():
        yield _no_key
        return

    def key() -> str:
        ready, _, _ = select.select([descriptor], [], [], _TICK_S)
        # At the end of input the terminal is gone: leave as if `q` was pressed.
        return (os.read(descriptor, 1) or b"q").decode(errors="replace") if ready else ""

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield key
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _print(looker: Looker) -> None:
    """Print the whole view as text whenever something has changed: for a file, a pipe or a simple terminal."""
    console = Console(highlight=False, markup=False, emoji=False, width=500, color_system=None)
    seen: Look | None = None
    trouble: str | None = None
    while True:
        looker.check()
        look = looker.latest
        if look is not None and look is not seen and (seen is None or _noteworthy(look) != _noteworthy(seen)):
            events = tuple(event for event in look.events if seen is None or event not in seen.events)
            for part in draw(replace(look, events=events), frozenset(), None, None, console.width, None):
                console.print(part)
            console.print()
            console.file.flush()
            seen = look
        if looker.trouble != trouble:
            trouble = looker.trouble
            console.print(Text(plain(trouble or "the lab answers again")))
        time.sleep(_TICK_S)


def _noteworthy(look: Look) -> object:
    """Return the facts for whose change the view is printed again. Kafka's own topics grow all the time, and do not
    count."""
    views = [view for view in look.status.topic_partitions if not view.internal]
    return facts(look), [(view.high_watermark, view.log_end) for view in views], look.events
