"""A lab on one screen: what holds now, with what has just changed standing out.

`draw` gets a look at the lab and the size of the screen, and shows as much as fits; it says how much more there is.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ackproof.cli.ui.console import table
from ackproof.cli.ui.follow import Event, told
from ackproof.cli.ui.lab_status import (
    FaultStatus,
    GroupStatus,
    LabStatus,
    MemberStatus,
    NodeStatus,
    PartitionStatus,
    broker_ids,
    time_span,
)
from ackproof.core.text import plain

WIDE, NARROW = 110, 72  # columns of a screen: a wide one shows everything about a node, a narrow one very little
_TABLE_HEAD = 1
_CHANGED = "bold reverse"
_STATES = {"running": "green", "paused": "yellow", "down": "red"}

Fresh = frozenset[Hashable]
"""The names of the facts that have just changed; `lab_watch.facts` names them."""


@dataclass(frozen=True)
class Look:
    """What the lab answered at one moment."""

    status: LabStatus
    groups: tuple[GroupStatus, ...]
    events: tuple[Event, ...]
    at: float
    clock: str


# -- drawing ---------------------------------------------------------------------------------------------------------


class _Section(NamedTuple):
    """Rows below a head. If not all fit, the last row says how many more there are."""

    rows: int
    rows_min: int
    head: int

    def height(self, rows: int) -> int:
        return rows + self.head if rows else 0


def fit(room: int | None, sections: Sequence[_Section]) -> list[int]:
    """Return how many rows each section gets: first its minimum, in order, then the rest of the room, in order."""
    if room is None:
        return [section.rows for section in sections]
    given = []
    for section in sections:
        rows = min(section.rows, section.rows_min, room - section.head)
        rows = rows if rows >= min(section.rows, 2) else 0  # a single row would only say that there are more
        room -= section.height(rows)
        given.append(rows)
    for number, section in enumerate(sections):
        more = min(section.rows - given[number], room) if given[number] else 0
        given[number] += more
        room -= more
    return given


def draw(
    look: Look, fresh: Fresh, stale_s: int | None, trouble: str | None, width: int, height: int | None
) -> list[RenderableType]:
    """Return the view for a screen of this size. Without a height, everything is shown."""
    status = look.status
    nodes = _nodes(status, fresh, width)
    network = _network_lines(status, fresh)
    views = [view for view in status.topic_partitions if not view.internal]
    own = [view for view in status.topic_partitions if view.internal]
    members: list[tuple[GroupStatus, MemberStatus | None]] = [
        (group, member) for group in look.groups for member in (*group.members,) or (None,)
    ]
    down = {node.name for node in status.nodes if node.state == "down"}
    nodes_height = _TABLE_HEAD + max(len(brokers(status)), len(quorum(status)))
    room = None if height is None else height - 1 - nodes_height - 1
    sections = [
        _Section(len(network), 2, 0),
        _Section(len(status.faults), 2, 0),
        _Section(len(views) + bool(_degraded(own)), 4, _TABLE_HEAD + 1),
        _Section(len(members), 2, _TABLE_HEAD + 1),
        _Section(len(look.events), 3, 1),
    ]
    links, faults, partitions, rows, events = fit(room, sections)
    return [
        _head(look, stale_s, trouble),
        nodes,
        Text(),
        *_lines(network, links),
        *_lines([_fault(fault, fresh, stale_s or 0) for fault in status.faults], faults),
        *([Text(), *_partitions(views, own, down, fresh, width, partitions)] if partitions else []),
        *([Text(), *_groups(members, _names(status), fresh, rows)] if rows else []),
        *([Text(), *(_line(told(event), "dim") for event in look.events[-events:])] if events else []),
    ]


def _line(text: str, style: str = "") -> Text:
    return Text(plain(text), style=style, no_wrap=True, overflow="ellipsis")


def _lines(lines: list[Text], room: int) -> list[Text]:
    """Return as many lines as there is room for; the last says how many are missing."""
    if len(lines) <= room:
        return lines
    return [*lines[: room - 1], _line(f"... and {len(lines) - room + 1} more", "dim")] if room else []


def _columns(*columns: str, right: Sequence[str] = (), first_gives_way: bool = False) -> Table:
    """Return a table without a rule below its head, because every line of a screen counts."""
    made = table(*columns, right=right)
    made.box = None
    made.header_style = "bold dim"
    made.padding = (0, 2, 0, 0)
    made.columns[0].no_wrap = not first_gives_way  # rich narrows such a column first; its cells stay one line
    return made


def _head(look: Look, stale_s: int | None, trouble: str | None) -> Text:
    status = look.status
    line = _line(f"{status.name}  Kafka {status.kafka}, {status.mode} mode", "bold")
    line.append(f"  {look.clock}", style="not bold")
    if trouble:
        line.append(f"  {plain(trouble)}", style="red")
    elif stale_s is not None:
        line.append(f"  {stale_s} s ago, it is slow to answer", style="yellow")
    elif status.exposed:
        line.append(f"  on this host: {plain(status.exposed)}", style="dim not bold")
    return line


# -- nodes and network


def brokers(status: LabStatus) -> list[NodeStatus]:
    return [node for node in status.nodes if node.role == "broker"]


def quorum(status: LabStatus) -> list[NodeStatus]:
    return [node for node in status.nodes if node.role in ("zookeeper", "controller")]


def _nodes(status: LabStatus, fresh: Fresh, width: int) -> Table:
    """Show brokers on the left, and ZooKeeper nodes or controllers on the right."""
    columns = ["node", "state", "memory", ""]
    if width >= WIDE:
        columns = ["node", "state", "address", "pid", "up", "memory", ""]
    elif width < NARROW:
        columns = ["node", "state", ""]
    side_by_side = Table.grid(padding=(0, 8 if width >= WIDE else 4, 0, 0))
    side_by_side.add_row(*(_nodes_table(each(status), columns, status, fresh) for each in (brokers, quorum)))
    return side_by_side


def _nodes_table(nodes: Sequence[NodeStatus], columns: list[str], status: LabStatus, fresh: Fresh) -> Table:
    made = _columns(*columns, right=("pid", "up", "memory"))
    for node in nodes:
        state = _CHANGED if ("state", node.name) in fresh else _STATES.get(node.state, "")
        cells: dict[str, str | Text] = {
            "node": node.name,
            "state": Text(node.state, style=state),
            "address": node.address,
            "pid": str(node.pid or ""),
            "up": time_span(node.uptime_s),
            "memory": f"{node.memory_mb:.0f} MB" if node.memory_mb else "",
            "": _role(node, status, fresh),
        }
        made.add_row(*(cells[column] for column in columns))
    return made


def _role(node: NodeStatus, status: LabStatus, fresh: Fresh) -> Text:
    """Say whether a node leads the others, and how it ended if it is down."""
    parts = [Text(f"rack {plain(node.rack)}")] if node.rack else []
    if node.name == status.controller:
        word = "controller" if node.role == "broker" else "leads"
        parts.append(Text(word, _CHANGED if "controller" in fresh else "cyan"))
    if node.name == status.zookeeper_leader:
        parts.append(Text("leads", _CHANGED if "ensemble" in fresh else "cyan"))
    if node.last_exit:
        parts.append(Text(plain(node.last_exit), "red"))
    return Text(" ").join(parts)


def _network_lines(status: LabStatus, fresh: Fresh) -> list[Text]:
    both, one_way = severed(status.reachable)
    if not both and not one_way:
        return [_line("every node reaches every other", "dim")]
    return [
        _cut_line(nodes, sign, others, fresh)
        for sign, cuts in (("no way to or from", both), ("not heard by", one_way))
        for nodes, others in cuts
    ]


def _cut_line(nodes: list[str], sign: str, others: list[str], fresh: Fresh) -> Text:
    is_new = any(("link", node, other) in fresh for node in nodes for other in others)
    line = _line("")
    line.append(f"{plain(' '.join(nodes))} {sign} {plain(' '.join(others))}", _CHANGED if is_new else "red")
    return line


Cuts = list[tuple[list[str], list[str]]]


def severed(reachable: Mapping[str, Mapping[str, bool]]) -> tuple[Cuts, Cuts]:
    """Return the cut links, both ways and one way, in few lines: first the node that lost most links, with all of
    them."""
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


def _fault(fault: FaultStatus, fresh: Fresh, age_s: int) -> Text:
    is_new = ("fault", fault.fault) in fresh
    line = _line("")
    line.append(f"{fault.fault} {fault.kind} {plain(' '.join(fault.targets))}", _CHANGED if is_new else "yellow")
    line.append(f"  for {time_span(fault.for_s + age_s)}")
    if fault.left_s is not None:
        line.append(f", {time_span(max(0.0, fault.left_s - age_s))} left", "bold")
    if fault.broken:
        line.append(f"  NO LONGER HOLDS: {plain(fault.broken)}", "bold red")
    else:
        line.append(f"  {plain(fault.proved)}", "dim")
    return line


# -- partitions


def _degraded(views: Sequence[PartitionStatus]) -> list[PartitionStatus]:
    return [view for view in views if view.degraded]


def _partitions(
    views: Sequence[PartitionStatus],
    own: Sequence[PartitionStatus],
    down: set[str],
    fresh: Fresh,
    width: int,
    room: int,
) -> list[RenderableType]:
    """Show as many partitions as there is room for, and a last line about the others."""
    whole = len(views) + bool(_degraded(own)) <= room
    shown = views if whole else _most_telling(views, fresh, room - 1)
    columns = ["topic", "part", "leader", "epoch", "replicas", "in sync", "watermark", "log end"]
    columns = [column for column in columns if width >= NARROW or column not in ("epoch", "replicas")]
    made = _columns(*columns, right=("part", "epoch", "watermark"), first_gives_way=True)
    for view in shown:
        cells = _partition_cells(view, down, fresh)
        made.add_row(*(cells[column] for column in columns))
    internal = len(_degraded(own))
    if whole and not internal:
        return [made]
    hidden_ill = len(_degraded(views)) - len(_degraded(shown))
    notes = [] if whole else [f"{len(views) - len(shown)} more" + (f", {hidden_ill} not whole" if hidden_ill else "")]
    notes += [f"{internal} of {len(own)} partitions of Kafka's own topics not whole"] if internal else []
    return [made, _line(" · ".join(notes), "yellow" if hidden_ill or internal else "dim")]


def _most_telling(views: Sequence[PartitionStatus], fresh: Fresh, room: int) -> list[PartitionStatus]:
    """Choose partitions that are degraded or have just changed first, and keep their usual order."""

    def dull(number: int) -> tuple[bool, int]:
        view = views[number]
        key = (view.topic, view.partition)
        return not (view.degraded or ("leader", *key) in fresh or ("isr", *key) in fresh), number

    return [views[number] for number in sorted(sorted(range(len(views)), key=dull)[:room])]


def _partition_cells(view: PartitionStatus, down: set[str], fresh: Fresh) -> dict[str, str | Text]:
    key = (view.topic, view.partition)
    leader = _CHANGED if ("leader", *key) in fresh else "red" if view.leader in (None, *down) else ""
    isr = _CHANGED if ("isr", *key) in fresh else "yellow" if view.degraded else ""
    mark, epoch = view.high_watermark, view.leader_epoch
    return {
        "topic": _line(view.topic),
        "part": str(view.partition),
        "leader": Text(view.leader or "none", style=leader),
        "epoch": "?" if epoch is None else str(epoch),
        "replicas": broker_ids(view.replicas),
        "in sync": Text(broker_ids(view.isr) or "none", style=isr),
        "watermark": "?" if mark is None else str(mark),
        "log end": _ends(view),
    }


def _ends(view: PartitionStatus) -> Text:
    """Show the highest log end, and beside it each replica whose log ends elsewhere or is unknown."""
    ends = view.log_end
    furthest = max(ends.values(), default=None)
    made = Text("?" if furthest is None else str(furthest))
    for name in view.replicas:
        if furthest is not None and ends.get(name) != furthest:
            made.append(f" {broker_ids([name])}:{ends.get(name, '?')}", "yellow")
    return made


# -- groups


def _names(status: LabStatus) -> dict[str, str]:
    return {node.address: node.name for node in status.nodes}


def _groups(
    members: list[tuple[GroupStatus, MemberStatus | None]],
    names: dict[str, str],
    fresh: Fresh,
    room: int,
) -> list[RenderableType]:
    made = _columns("group", "state", "member", "at", "partitions", first_gives_way=True)
    shown = members if len(members) <= room else members[: max(0, room - 1)]
    for number, (group, member) in enumerate(shown):
        first = number == 0 or shown[number - 1][0] is not group
        state = _CHANGED if ("group", group.id) in fresh else "" if group.state == "Stable" else "yellow"
        made.add_row(
            _line(group.id) if first else "",
            Text(plain(group.state), style=state) if first else "",
            *(_member(member, names, ("member", group.id, member.id) in fresh) if member else ("none", "", "")),
        )
    more = len(members) - len(shown)
    return [made, *([_line(f"{more} more members", "dim")] if more else [])]


def _member(member: MemberStatus, names: dict[str, str], is_new: bool) -> tuple[Text, str, Text]:
    # Several members may have one client id; the first letters of the rest of their member id tell them apart.
    own = member.id.removeprefix(f"{member.client_id}-")[:6]
    host = member.host.lstrip("/")
    return (
        Text(plain(f"{member.client_id} {own}")),
        plain(names.get(host, host)),
        Text(plain(assigned(member.assigned)), style=_CHANGED if is_new else ""),
    )


def assigned(partitions: Sequence[tuple[str, int]] | None) -> str:
    """Return assigned partitions in short, such as `orders 0-3 7, payments 1`."""
    if partitions is None:
        return "(in a language of its own)"
    by_topic = groupby(sorted((topic, number) for topic, number in partitions), key=lambda pair: pair[0])
    return ", ".join(f"{topic} {_runs([number for _, number in of])}" for topic, of in by_topic) or "nothing"


def _runs(numbers: list[int]) -> str:
    """Shorten 0 1 2 3 7 to 0-3 7."""
    runs = [[pair[1] for pair in of] for _, of in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    return " ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
