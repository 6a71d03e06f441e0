"""The status of a lab as tables: what `status`, `topic describe` and `topic watermarks` print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ackproof.cli.ui.console import table
from ackproof.cli.ui.lab_status import FaultStatus, LabStatus, PartitionStatus, broker_ids, time_span
from ackproof.core.text import plain

if TYPE_CHECKING:
    from rich.table import Table


def status_parts(status: LabStatus) -> list[Any]:
    """Return the status of a lab as things that rich can print."""
    from rich.text import Text

    head = f"{status.name}: Kafka {status.kafka}, {status.mode} mode, bootstrap {status.bootstrap}"
    parts: list[Any] = [Text(plain(head), style="bold")]
    if status.exposed:
        parts.append(Text(plain(f"on this host: {status.exposed}")))
    parts += [_nodes_table(status), Text(plain(_groups_line(status)))]
    parts += [_reach_table(status)] if any(not all(row.values()) for row in status.reachable.values()) else []
    parts += [Text(plain(_fault_line(fault)), style="yellow") for fault in status.faults]
    if shown := [view for view in status.topic_partitions if not view.internal]:
        parts.append(partitions_table(shown))
    return parts


_STATE_STYLES = {"running": "green", "paused": "yellow", "down": "red"}


def _nodes_table(status: LabStatus) -> Table:
    from rich.text import Text

    made = table("node", "state", "address", "pid", "up", "memory", "part", right=("pid", "up", "memory"))
    parts = {status.controller: "controller", status.zookeeper_leader: "leads the ensemble"}
    for node in sorted(status.nodes, key=lambda node: bool(node.role == "client")):
        part = node.last_exit or parts.get(node.name, "")
        rack = f"rack {node.rack} " if node.rack else ""
        made.add_row(
            node.name,
            Text(node.state, style=_STATE_STYLES.get(node.state, "")),
            node.address,
            str(node.pid or ""),
            time_span(node.uptime_s),
            f"{node.memory_mb:.0f} MB" if node.memory_mb else "",
            Text(plain(rack + part)),
        )
    return made


def _groups_line(status: LabStatus) -> str:
    groups = status.network_groups
    if len(groups) == 1:
        return "network: every node reaches every other (measured)"
    return "network: " + "  |  ".join(" ".join(group) for group in groups) + "   (measured)"


def _reach_table(status: LabStatus) -> Table:
    """Show which node reaches which: a row sends, a column receives."""
    from rich.text import Text

    reachable = status.reachable
    made = table("from \\ to", *reachable)
    for source, row in reachable.items():
        cells = [
            Text("-", style="dim")
            if target == source
            else Text("yes", style="green")
            if row[target]
            else Text("cut", style="red")
            for target in reachable
        ]
        made.add_row(source, *cells)
    return made


def _fault_line(fault: FaultStatus) -> str:
    left = "" if fault.left_s is None else f", {fault.left_s:.0f} s left"
    only = "".join(f" {name}={value}" for name, value in fault.only.items())
    broken = f"  NO LONGER HOLDS: {fault.broken}" if fault.broken else ""
    return f"{fault.fault} {fault.kind} {' '.join(fault.targets)}{only} for {fault.for_s:.0f} s{left}{broken}"


def partitions_table(views: Sequence[PartitionStatus]) -> Table:
    from rich.text import Text

    with_offsets = any(view.high_watermark is not None or view.log_end for view in views)
    columns = ["topic", "partition", "leader", "epoch", "replicas", "in sync"]
    columns += ["high watermark", "log end"] if with_offsets else []
    made = table(*columns, right=("partition", "epoch", "high watermark"))
    for view in views:
        short = len(view.isr) < len(view.replicas)
        ends = view.log_end
        same = len(set(ends.values())) == 1 and len(ends) == len(view.replicas)
        each = " ".join(f"{broker_ids([name])}:{end}" for name, end in ends.items())
        row: list[Any] = [
            Text(plain(view.topic)),
            str(view.partition),
            Text(view.leader or "none", style="" if view.leader else "red"),
            str(view.leader_epoch if view.leader_epoch is not None else "?"),
            broker_ids(view.replicas),
            Text(broker_ids(view.isr), style="yellow" if short else ""),
        ]
        mark = view.high_watermark
        offsets = ["?" if mark is None else str(mark), str(next(iter(ends.values()))) if same else each]
        made.add_row(*row, *(offsets if with_offsets else []))
    return made
