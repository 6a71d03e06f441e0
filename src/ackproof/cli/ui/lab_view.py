"""A lab as it lives: one screen that shows what holds now, and lets what has just changed stand out.

A thread of its own asks the lab, so that a slow answer (a node has just been frozen, the machine is busy) never freezes
the view: it goes on with what it has and says how old that is. What to draw is computed from plain data: `draw` takes a
look at the lab and the room on the screen, and shows as much as fits, saying how much more there is. Where standard
output is no terminal the same view is printed as text, again whenever something has changed.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ackproof.cli.ui.console import table
from ackproof.cli.ui.follow import told, worth_telling
from ackproof.core.errors import Problem
from ackproof.core.text import plain
from ackproof.lab import client as control
from ackproof.lab.audit_log import Events
from ackproof.lab.directory import LabDirectory

FRESH_S = 5.0
STALE_INTERVALS = 2
FIRST_LOOK_S = 0.5
WIDE, NARROW = 110, 72  # columns: from WIDE on, all that is known of a node is shown; below NARROW, very little
EVENTS_MAX = 20
_TICK_S = 0.1
_TABLE_HEAD = 1
_CHANGED = "bold reverse"
_STATES = {"running": "green", "paused": "yellow", "down": "red"}

Facts = Mapping[Hashable, object]
"""Each thing whose change is worth a look, under a name that stays the same."""


@dataclass(frozen=True)
class Look:
    """What the lab said at one moment."""

    status: dict[str, Any]
    groups: tuple[dict[str, Any], ...]
    events: tuple[dict[str, Any], ...]
    at: float
    clock: str


def watch_lab(name: str, every_s: float) -> None:
    """Show a lab until `q` or Ctrl-C, or until it is down, which is told as a problem."""
    looker = Looker(name, every_s)
    console = Console(highlight=False, markup=False, emoji=False)
    try:
        looker.wait(FIRST_LOOK_S)  # a lab that does not exist is told at once, on a screen left as it was
        if console.is_terminal and not console.is_dumb_terminal:
            _show(console, looker)
        else:
            _print(looker)
    except KeyboardInterrupt:
        return  # the usual way to leave


# -- asking ----------------------------------------------------------------------------------------------------------


class Looker:
    """Looks at a lab again and again; `latest` is what was last seen, `trouble` why a look failed that should not."""

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
                # A lab that is up may still fail one question, and the next look may succeed.
                self.trouble = problem.message
                self._ended = None if self._is_up() else problem
            except Exception as problem:  # noqa: BLE001  # raised again by `check`, in the thread that shows
                self._ended = problem
            time.sleep(max(0.0, begun + self.every_s - time.monotonic()))

    def _is_up(self) -> bool:
        try:
            return self._directory.alive()
        except Problem:  # it may not be looked at, which the failed question has said already
            return False

    def _look(self) -> Look:
        status = control.status(self.name)
        groups = control.call(self.name, "groups")["groups"]
        events = [event for event in Events(self._directory.events).read() if worth_telling(event)][-EVENTS_MAX:]
        clock = datetime.now(UTC).strftime("%H:%M:%S UTC")
        return Look(status, tuple(groups), tuple(events), time.monotonic(), clock)


# -- what has changed ------------------------------------------------------------------------------------------------


def facts(look: Look) -> Facts:
    status = look.status
    found: dict[Hashable, object] = {"controller": status["controller"], "ensemble": status["zookeeper_leader"]}
    found |= {("state", node["name"]): node["state"] for node in status["nodes"]}
    found |= {("fault", fault["fault"]): fault["broken"] for fault in status["faults"]}
    found |= {("link", a, b): open_ for a, row in status["reachable"].items() for b, open_ in row.items()}
    for view in status["topic_partitions"]:
        found["leader", view["topic"], view["partition"]] = view["leader"]
        found["isr", view["topic"], view["partition"]] = sorted(view["isr"])
    for group in look.groups:
        found["group", group["id"]] = group["state"]
        found |= {("member", group["id"], member["id"]): member["assigned"] for member in group["members"]}
    return found


def changes(before: Facts, after: Facts, changed: Mapping[Hashable, float], now: float) -> dict[Hashable, float]:
    """When each fact last changed, of those that changed a moment ago."""
    recent = {key: at for key, at in changed.items() if now - at < FRESH_S}
    return recent | {key: now for key in after if key not in before or before[key] != after[key]}


# -- showing ---------------------------------------------------------------------------------------------------------


@dataclass
class _Shown:
    """What the person in front of the screen has seen so far."""

    look: Look | None = None
    changed: dict[Hashable, float] | None = None

    def see(self, look: Look | None, now: float) -> frozenset[Hashable]:
        if look is not None and look is not self.look:
            before = facts(self.look) if self.look else None
            # The first look of all is all new, and so nothing in it is.
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
            # Only what would look different is drawn again: an idle view costs nothing.
            frame = (shown.look, fresh, stale_s, looker.trouble, size)
            if frame != last:
                parts = _parts(shown.look, fresh, stale_s, looker.trouble, size.width, size.height)
                live.update(Group(*parts), refresh=True)
                last = frame


def _stale_s(looker: Looker, now: float) -> int | None:
    age_s = looker.age_s(now)
    return int(age_s) if age_s > max(STALE_INTERVALS * looker.every_s, 1.0) else None


def _parts(
    look: Look | None, fresh: frozenset[Hashable], stale_s: int | None, trouble: str | None, width: int, height: int
) -> list[RenderableType]:
    if look is None:
        return [Text("asking the lab ...  (q leaves)")]
    return draw(look, fresh, stale_s, trouble, width, height)


def _no_key() -> str:
    time.sleep(_TICK_S)
    return ""


@contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """A function that waits a moment for a key and returns it; keys are not echoed. Ctrl-C stays a signal."""
    if not sys.stdin.isatty():
        yield _no_key
        return

    def key() -> str:
        ready, _, _ = select.select([descriptor], [], [], _TICK_S)
        # End of input is a terminal that has gone: leave as for a key.
        return (os.read(descriptor, 1) or b"q").decode(errors="replace") if ready else ""

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield key
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _print(looker: Looker) -> None:
    """For a file, a pipe or a terminal that can only print: the whole view as text, whenever something changed."""
    console = Console(highlight=False, markup=False, emoji=False, width=500, color_system=None)
    seen: Look | None = None
    trouble: str | None = None
    while True:
        looker.check()
        look = looker.latest
        if look is not None and look is not seen and (seen is None or _noteworthy(look) != _noteworthy(seen)):
            events = tuple(event for event in look.events if seen is None or event not in seen.events)
            for part in draw(_with_events(look, events), frozenset(), None, None, console.width, None):
                console.print(part)
            console.print()
            console.file.flush()
            seen = look
        if looker.trouble != trouble:
            trouble = looker.trouble
            console.print(Text(plain(trouble or "the lab answers again")))
        time.sleep(_TICK_S)


def _with_events(look: Look, events: tuple[dict[str, Any], ...]) -> Look:
    return Look(look.status, look.groups, events, look.at, look.clock)


def _noteworthy(look: Look) -> object:
    """What is worth printing again for; Kafka's own topics grow all the time."""
    views = [view for view in look.status["topic_partitions"] if not view["topic"].startswith("__")]
    return facts(look), [(view["high_watermark"], view["log_end"]) for view in views], look.events


# -- drawing ---------------------------------------------------------------------------------------------------------


class _Section(NamedTuple):
    """Rows below a head; where not all rows fit, the last one that does says how many more there are."""

    rows: int
    rows_min: int
    head: int

    def height(self, rows: int) -> int:
        return rows + self.head if rows else 0


def fit(room: int | None, sections: Sequence[_Section]) -> list[int]:
    """How many rows each section gets: to each the little that it needs, in order; then what is left, in order."""
    if room is None:
        return [section.rows for section in sections]
    given = []
    for section in sections:
        rows = min(section.rows, section.rows_min, room - section.head)
        rows = rows if rows >= min(section.rows, 2) else 0  # one row of several would only say that there are more
        room -= section.height(rows)
        given.append(rows)
    for number, section in enumerate(sections):
        more = min(section.rows - given[number], room) if given[number] else 0
        given[number] += more
        room -= more
    return given


def draw(
    look: Look, fresh: frozenset[Hashable], stale_s: int | None, trouble: str | None, width: int, height: int | None
) -> list[RenderableType]:
    """The view, for a screen of this size; a height of None is a page without end."""
    status = look.status
    nodes = _nodes(status, fresh, width)
    network = _network_lines(status, fresh)
    views = [view for view in status["topic_partitions"] if not view["topic"].startswith("__")]
    own = [view for view in status["topic_partitions"] if view["topic"].startswith("__")]
    members = [(group, member) for group in look.groups for member in (group["members"] or [None])]
    down = {node["name"] for node in status["nodes"] if node["state"] == "down"}
    nodes_height = _TABLE_HEAD + max(len(brokers(status)), len(quorum(status)))
    room = None if height is None else height - 1 - nodes_height - 1
    sections = [
        _Section(len(network), 2, 0),
        _Section(len(status["faults"]), 2, 0),
        _Section(len(views) + bool(_ill(own)), 4, _TABLE_HEAD + 1),
        _Section(len(members), 2, _TABLE_HEAD + 1),
        _Section(len(look.events), 3, 1),
    ]
    links, faults, partitions, rows, events = fit(room, sections)
    return [
        _head(look, stale_s, trouble),
        nodes,
        Text(),
        *_lines(network, links),
        *_lines([_fault(fault, fresh, stale_s or 0) for fault in status["faults"]], faults),
        *([Text(), *_partitions(views, own, down, fresh, width, partitions)] if partitions else []),
        *([Text(), *_groups(members, _names(status), fresh, rows)] if rows else []),
        *([Text(), *(_line(told(event), "dim") for event in look.events[-events:])] if events else []),
    ]


def _line(text: str, style: str = "") -> Text:
    return Text(plain(text), style=style, no_wrap=True, overflow="ellipsis")


def _lines(lines: list[Text], room: int) -> list[Text]:
    """As many as there is room for; the last says what is missing."""
    if len(lines) <= room:
        return lines
    return [*lines[: room - 1], _line(f"... and {len(lines) - room + 1} more", "dim")] if room else []


def _columns(*columns: str, right: Sequence[str] = (), first_gives_way: bool = False) -> Table:
    """A table without a rule below its head: on a screen every line counts."""
    made = table(*columns, right=right)
    made.box = None
    made.header_style = "bold dim"
    made.padding = (0, 2, 0, 0)
    made.columns[0].no_wrap = not first_gives_way  # rich takes from such a column first; its cells stay one line
    return made


def _head(look: Look, stale_s: int | None, trouble: str | None) -> Text:
    status = look.status
    line = _line(f"{status['name']}  Kafka {status['kafka']}, {status['mode']} mode", "bold")
    line.append(f"  {look.clock}", style="not bold")
    if trouble:
        line.append(f"  {plain(trouble)}", style="red")
    elif stale_s is not None:
        line.append(f"  {stale_s} s ago, it is slow to answer", style="yellow")
    elif status["exposed"]:
        line.append(f"  on this host: {plain(status['exposed'])}", style="dim not bold")
    return line


# -- nodes and network


def brokers(status: dict[str, Any]) -> list[dict[str, Any]]:
    return [node for node in status["nodes"] if node["role"] == "broker"]


def quorum(status: dict[str, Any]) -> list[dict[str, Any]]:
    return [node for node in status["nodes"] if node["role"] in ("zookeeper", "controller")]


def _nodes(status: dict[str, Any], fresh: frozenset[Hashable], width: int) -> Table:
    """Those that hold the data on the left, those that hold the truth about them on the right."""
    columns = ["node", "state", "memory", ""]
    if width >= WIDE:
        columns = ["node", "state", "address", "pid", "up", "memory", ""]
    elif width < NARROW:
        columns = ["node", "state", ""]
    side_by_side = Table.grid(padding=(0, 8 if width >= WIDE else 4, 0, 0))
    side_by_side.add_row(*(_nodes_table(each(status), columns, status, fresh) for each in (brokers, quorum)))
    return side_by_side


def _nodes_table(
    nodes: list[dict[str, Any]], columns: list[str], status: dict[str, Any], fresh: frozenset[Hashable]
) -> Table:
    made = _columns(*columns, right=("pid", "up", "memory"))
    for node in nodes:
        state = _CHANGED if ("state", node["name"]) in fresh else _STATES.get(node["state"], "")
        cells = {
            "node": node["name"],
            "state": Text(node["state"], style=state),
            "address": node["address"],
            "pid": str(node["pid"] or ""),
            "up": _span(node["uptime_s"]),
            "memory": f"{node['memory_mb']:.0f} MB" if node["memory_mb"] else "",
            "": _part(node, status, fresh),
        }
        made.add_row(*(cells[column] for column in columns))
    return made


def _part(node: dict[str, Any], status: dict[str, Any], fresh: frozenset[Hashable]) -> Text:
    """What a node is to the others; of one that is down, how it ended."""
    parts = [Text(f"rack {plain(node['rack'])}")] if node["rack"] else []
    if node["name"] == status["controller"]:
        word = "controller" if node["role"] == "broker" else "leads"
        parts.append(Text(word, _CHANGED if "controller" in fresh else "cyan"))
    if node["name"] == status["zookeeper_leader"]:
        parts.append(Text("leads", _CHANGED if "ensemble" in fresh else "cyan"))
    if node["last_exit"]:
        parts.append(Text(plain(node["last_exit"]), "red"))
    return Text(" ").join(parts)


def _span(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def _network_lines(status: dict[str, Any], fresh: frozenset[Hashable]) -> list[Text]:
    both, one_way = severed(status["reachable"])
    if not both and not one_way:
        return [_line("every node reaches every other", "dim")]
    return [
        _cut_line(nodes, sign, others, fresh)
        for sign, cuts in (("no way to or from", both), ("not heard by", one_way))
        for nodes, others in cuts
    ]


def _cut_line(nodes: list[str], sign: str, others: list[str], fresh: frozenset[Hashable]) -> Text:
    is_new = any(("link", node, other) in fresh for node in nodes for other in others)
    line = _line("")
    line.append(f"{plain(' '.join(nodes))} {sign} {plain(' '.join(others))}", _CHANGED if is_new else "red")
    return line


Cuts = list[tuple[list[str], list[str]]]


def severed(reachable: Mapping[str, Mapping[str, bool]]) -> tuple[Cuts, Cuts]:
    """The cut links, both ways and one way, in few lines: the node that lost most is named first, with all it lost."""
    cut = {(a, b) for a, row in reachable.items() for b, reached in row.items() if a != b and not reached}
    both = {link for link in cut if link[::-1] in cut}
    return _by_node(both, list(reachable), symmetric=True), _by_node(cut - both, list(reachable), symmetric=False)


def _by_node(links: set[tuple[str, str]], names: list[str], symmetric: bool) -> Cuts:
    lines = []
    while links:
        lost = {name: [other for other in names if (name, other) in links] for name in names}
        others = max(lost.values(), key=len)
        nodes = [name for name in names if lost[name] == others]  # both sides of a split, each as one
        lines.append((nodes, others))
        links = links - {(node, other) for node in nodes for other in others}
        links = links - {(other, node) for node in nodes for other in others} if symmetric else links
    return lines


def _fault(fault: dict[str, Any], fresh: frozenset[Hashable], age_s: int) -> Text:
    is_new = ("fault", fault["fault"]) in fresh
    line = _line("")
    line.append(
        f"{fault['fault']} {fault['kind']} {plain(' '.join(fault['targets']))}", _CHANGED if is_new else "yellow"
    )
    line.append(f"  for {_span(fault['for_s'] + age_s)}")
    if fault["left_s"] is not None:
        line.append(f", {_span(max(0.0, fault['left_s'] - age_s))} left", "bold")
    if fault["broken"]:
        line.append(f"  NO LONGER HOLDS: {plain(fault['broken'])}", "bold red")
    else:
        line.append(f"  {plain(fault['proved'])}", "dim")
    return line


# -- partitions


def _ill(views: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [view for view in views if view["leader"] is None or len(view["isr"]) < len(view["replicas"])]


def _partitions(
    views: list[dict[str, Any]],
    own: list[dict[str, Any]],
    down: set[str],
    fresh: frozenset[Hashable],
    width: int,
    room: int,
) -> list[RenderableType]:
    """As many as there is room for, and a last line about those that are not shown."""
    whole = len(views) + bool(_ill(own)) <= room
    shown = views if whole else _most_telling(views, fresh, room - 1)
    columns = ["topic", "part", "leader", "epoch", "replicas", "in sync", "watermark", "log end"]
    columns = [column for column in columns if width >= NARROW or column not in ("epoch", "replicas")]
    made = _columns(*columns, right=("part", "epoch", "watermark"), first_gives_way=True)
    for view in shown:
        cells = _partition_cells(view, down, fresh)
        made.add_row(*(cells[column] for column in columns))
    if whole and not _ill(own):
        return [made]
    hidden_ill = len(_ill(views)) - len(_ill(shown))
    notes = [] if whole else [f"{len(views) - len(shown)} more" + (f", {hidden_ill} not whole" if hidden_ill else "")]
    notes += [f"{len(_ill(own))} of {len(own)} partitions of Kafka's own topics not whole"] if _ill(own) else []
    return [made, _line(" · ".join(notes), "yellow" if hidden_ill or _ill(own) else "dim")]


def _most_telling(views: list[dict[str, Any]], fresh: frozenset[Hashable], room: int) -> list[dict[str, Any]]:
    """Those in trouble or just changed before the others, in their usual order."""

    def dull(number: int) -> tuple[bool, int]:
        view = views[number]
        key = (view["topic"], view["partition"])
        return not (_ill([view]) or ("leader", *key) in fresh or ("isr", *key) in fresh), number

    return [views[number] for number in sorted(sorted(range(len(views)), key=dull)[:room])]


def _partition_cells(view: dict[str, Any], down: set[str], fresh: frozenset[Hashable]) -> dict[str, str | Text]:
    key = (view["topic"], view["partition"])
    leader = _CHANGED if ("leader", *key) in fresh else "red" if view["leader"] in (None, *down) else ""
    isr = _CHANGED if ("isr", *key) in fresh else "yellow" if _ill([view]) else ""
    mark, epoch = view["high_watermark"], view["leader_epoch"]
    return {
        "topic": _line(view["topic"]),
        "part": str(view["partition"]),
        "leader": Text(view["leader"] or "none", style=leader),
        "epoch": "?" if epoch is None else str(epoch),
        "replicas": _ids(view["replicas"]),
        "in sync": Text(_ids(view["isr"]) or "none", style=isr),
        "watermark": "?" if mark is None else str(mark),
        "log end": _ends(view),
    }


def _ids(names: Sequence[str]) -> str:
    """Brokers by number, as Kafka's own tools show them."""
    return " ".join(name.removeprefix("kafka") for name in names)


def _ends(view: dict[str, Any]) -> Text:
    """The furthest end, and beside it each replica whose log ends elsewhere or that does not tell."""
    ends: dict[str, int] = view["log_end"]
    furthest = max(ends.values(), default=None)
    made = Text("?" if furthest is None else str(furthest))
    for name in view["replicas"]:
        if furthest is not None and ends.get(name) != furthest:
            made.append(f" {_ids([name])}:{ends.get(name, '?')}", "yellow")
    return made


# -- groups


def _names(status: dict[str, Any]) -> dict[str, str]:
    return {node["address"]: node["name"] for node in status["nodes"]}


def _groups(
    members: list[tuple[dict[str, Any], dict[str, Any] | None]],
    names: dict[str, str],
    fresh: frozenset[Hashable],
    room: int,
) -> list[RenderableType]:
    made = _columns("group", "state", "member", "at", "partitions", first_gives_way=True)
    shown = members if len(members) <= room else members[: max(0, room - 1)]
    for number, (group, member) in enumerate(shown):
        first = number == 0 or shown[number - 1][0] is not group
        state = _CHANGED if ("group", group["id"]) in fresh else "" if group["state"] == "Stable" else "yellow"
        made.add_row(
            _line(group["id"]) if first else "",
            Text(plain(group["state"]), style=state) if first else "",
            *(_member(member, names, ("member", group["id"], member["id"]) in fresh) if member else ("none", "", "")),
        )
    more = len(members) - len(shown)
    return [made, *([_line(f"{more} more members", "dim")] if more else [])]


def _member(member: dict[str, Any], names: dict[str, str], is_new: bool) -> tuple[Text, str, Text]:
    # Several members may have one client id; the start of the rest of their own tells them apart.
    own = member["id"].removeprefix(f"{member['client_id']}-")[:6]
    host = member["host"].lstrip("/")
    return (
        Text(plain(f"{member['client_id']} {own}")),
        plain(names.get(host, host)),
        Text(plain(assigned(member["assigned"])), style=_CHANGED if is_new else ""),
    )


def assigned(partitions: Sequence[Sequence[Any]] | None) -> str:
    """orders 0-3 7, payments 1: in words where there is nothing, or nothing that Kafka's own clients would read."""
    if partitions is None:
        return "(in a language of its own)"
    by_topic = groupby(sorted((topic, number) for topic, number in partitions), key=lambda pair: pair[0])
    return ", ".join(f"{topic} {_runs([number for _, number in of])}" for topic, of in by_topic) or "nothing"


def _runs(numbers: list[int]) -> str:
    """0 1 2 3 7 as 0-3 7."""
    runs = [[pair[1] for pair in of] for _, of in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    return " ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
