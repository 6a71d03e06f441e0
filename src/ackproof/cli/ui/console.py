"""Print to the terminal. Data is always plain text: names and log lines cannot carry markup or control characters.

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
    """Print to standard error, beside the results."""
    for line in lines:
        print(plain(line), file=sys.stderr, flush=True)


def say_json(document: Any) -> None:
    """Print a JSON document in UTF-8, whatever the locale is."""
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
    """Ignore errors of a terminal that has gone, so that the work behind the output goes on.

    The signal for this may arrive in the middle of a line. The error of the line then hides the signal, which is raised
    again."""
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
    """Shows the progress of something that takes a while: a line that changes on a terminal, plain lines elsewhere."""

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
        """Show how much is done: a bar on a terminal, a line for each tenth elsewhere."""
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


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", no_wrap=True)
    return made
