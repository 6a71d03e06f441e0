"""What a person sees. Data is printed as text: no markup, no control characters, whatever a name or a log may hold.

Results go to standard output, progress and problems to standard error. Colour is for terminals only, and not where
NO_COLOR is set.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ackproof.core.errors import Ended, Problem
from ackproof.core.safe_json import json_text
from ackproof.core.text import plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def console(stderr: bool = False) -> Console:
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
    # A file or a pipe has no width: nothing is cut off there.
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=500)


def say(*lines: str) -> None:
    for line in lines:
        print(plain(line), flush=True)


def say_aside(*lines: str) -> None:
    """Beside the results, on standard error."""
    for line in lines:
        print(plain(line), file=sys.stderr, flush=True)


def say_json(document: Any) -> None:
    """In UTF-8, as JSON always is, whatever the locale says."""
    sys.stdout.flush()
    sys.stdout.buffer.write(json_text(document) + b"\n")
    sys.stdout.buffer.flush()


def say_problem(problem: Problem) -> None:
    print(f"ackproof: {plain(problem.message)}", file=sys.stderr)
    for line in problem.details:
        print(f"  {plain(line)}", file=sys.stderr)


_BAR = 24  # characters


def bar(done: int, total: int | None) -> str:
    filled = round(_BAR * min(done / total, 1.0)) if total else 0
    return f"[{'█' * filled}{'·' * (_BAR - filled)}]"


@contextmanager
def aloud() -> Iterator[None]:
    """Around what is said while something is under way: it is finished all the same if the terminal is gone.

    The signal that tells of that may come in the middle of a line, whose end then hides it by an error of its own."""
    handled = sys.exception()
    try:
        yield
    except OSError as problem:
        behind = problem.__context__
        while behind is not None and behind is not handled:
            if isinstance(behind, (Ended, KeyboardInterrupt)):
                raise behind from None
            behind = behind.__context__


class Steps:
    """Progress of something that takes a while: a line that changes on a terminal, plain lines elsewhere."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._begun = time.monotonic()
        self._status: Any = None
        self._tenth = -2
        if sys.stderr.isatty():
            self._console = console(stderr=True)
            self._status = self._console.status(title)

    def __call__(self, said: str) -> None:
        line = f"{time.monotonic() - self._begun:6.1f} s  {plain(said)}"
        if self._status is None:
            print(line, file=sys.stderr, flush=True)
        else:
            with aloud():
                self._console.print(line, style="dim")

    def so_far(self, done: int, total: int | None, what: str) -> None:
        """How far it is: a bar on a terminal, a line for each tenth elsewhere."""
        if self._status is not None:
            drawn = f"{bar(done, total)} {done:,} of {total:,}" if total else f"{done:,}"
            with aloud():
                self._status.update(plain(f"{self._title}  {drawn}  {what}"))
            return
        tenth = 10 * done // total if total else -1
        if tenth != self._tenth:
            self._tenth = tenth
            self(f"{done:,} of {total:,} {what}" if total else what)

    @contextmanager
    def running(self) -> Iterator[Steps]:
        if self._status is None:
            yield self
        else:
            self._status.start()
            try:
                yield self
            finally:
                with aloud():
                    self._status.stop()


# -- status ----------------------------------------------------------------------------------------------------------


def status_parts(status: dict[str, Any]) -> list[Any]:
    """The status of a lab as things that rich can print: shared by `status` and `watch`."""
    from rich.text import Text

    head = f"{status['name']}: Kafka {status['kafka']}, {status['mode']} mode, bootstrap {status['bootstrap']}"
    parts: list[Any] = [Text(plain(head), style="bold")]
    if status["exposed"]:
        parts.append(Text(plain(f"on this host: {status['exposed']}")))
    parts += [_nodes_table(status), Text(plain(_groups_line(status)))]
    parts += [_reach_table(status)] if any(not all(row.values()) for row in status["reachable"].values()) else []
    parts += [Text(plain(_fault_line(fault)), style="yellow") for fault in status["faults"]]
    if shown := [view for view in status["topic_partitions"] if not view["topic"].startswith("__")]:
        parts.append(partitions_table(shown))
    return parts


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", no_wrap=True)
    return made


_STATE_STYLES = {"running": "green", "paused": "yellow", "down": "red"}


def _nodes_table(status: dict[str, Any]) -> Table:
    from rich.text import Text

    made = table("node", "state", "address", "pid", "up", "memory", "part", right=("pid", "up", "memory"))
    parts = {status["controller"]: "controller", status["zookeeper_leader"]: "leads the ensemble"}
    for node in sorted(status["nodes"], key=lambda node: bool(node["role"] == "client")):
        part = node["last_exit"] or parts.get(node["name"], "")
        rack = f"rack {node['rack']} " if node["rack"] else ""
        made.add_row(
            node["name"],
            Text(node["state"], style=_STATE_STYLES.get(node["state"], "")),
            node["address"],
            str(node["pid"] or ""),
            _span(node["uptime_s"]),
            f"{node['memory_mb']:.0f} MB" if node["memory_mb"] else "",
            Text(plain(rack + part)),
        )
    return made


def _span(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _groups_line(status: dict[str, Any]) -> str:
    groups = status["network_groups"]
    if len(groups) == 1:
        return "network: every node reaches every other (measured)"
    return "network: " + "  |  ".join(" ".join(group) for group in groups) + "   (measured)"


def _reach_table(status: dict[str, Any]) -> Table:
    """Who reaches whom: a row sends, a column hears."""
    from rich.text import Text

    reachable = status["reachable"]
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


def _fault_line(fault: dict[str, Any]) -> str:
    left = "" if fault["left_s"] is None else f", {fault['left_s']:.0f} s left"
    only = "".join(f" {name}={value}" for name, value in fault.get("only", {}).items())
    broken = f"  NO LONGER HOLDS: {fault['broken']}" if fault["broken"] else ""
    return (
        f"{fault['fault']} {fault['kind']} {' '.join(fault['targets'])}{only} for {fault['for_s']:.0f} s{left}{broken}"
    )


def _id(node: str) -> str:
    """A broker by its number, as Kafka's own tools show it: kafka2 is 2."""
    return node.removeprefix("kafka")


def partitions_table(views: list[dict[str, Any]]) -> Table:
    from rich.text import Text

    with_offsets = any(view["high_watermark"] is not None or view["log_end"] for view in views)
    columns = ["topic", "partition", "leader", "epoch", "replicas", "in sync"]
    columns += ["high watermark", "log end"] if with_offsets else []
    made = table(*columns, right=("partition", "epoch", "high watermark"))
    for view in views:
        short = len(view["isr"]) < len(view["replicas"])
        ends = view["log_end"]
        same = len(set(ends.values())) == 1 and len(ends) == len(view["replicas"])
        told = str(next(iter(ends.values()))) if same else " ".join(f"{_id(name)}:{end}" for name, end in ends.items())
        row: list[Any] = [
            Text(plain(view["topic"])),
            str(view["partition"]),
            Text(view["leader"] or "none", style="" if view["leader"] else "red"),
            str(view["leader_epoch"] if view["leader_epoch"] is not None else "?"),
            " ".join(_id(name) for name in view["replicas"]),
            Text(" ".join(_id(name) for name in view["isr"]), style="yellow" if short else ""),
        ]
        mark = view["high_watermark"]
        made.add_row(*row, *(["?" if mark is None else str(mark), told] if with_offsets else []))
    return made
