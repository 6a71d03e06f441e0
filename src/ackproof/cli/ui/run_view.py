"""Show a run while it goes on: a bar with the messages sent and their outcomes, the faults, and the leaders.

On a terminal this is one line that changes, below lines that stay; elsewhere a plain line every few seconds.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.api.run import RunResult
from ackproof.api.run_request import RunRequest
from ackproof.cli.ui.console import aloud, bar, console
from ackproof.core.text import plain
from ackproof.model.scenario import Scenario
from ackproof.run.execution import RunExecution
from ackproof.run.fault_lifecycle import FaultLifecycle

if TYPE_CHECKING:
    from rich.status import Status

_PLAIN_EVERY_S = 5.0
_DRAW_EVERY_S = 0.1


class RunView:
    """Shows one run while it goes on: a RunListener for the terminal."""

    def __init__(self, scenario: Scenario, quiet: bool) -> None:
        self._total = scenario.total
        self._prints = any(producer.print for producer in scenario.producers)
        self._begun = time.monotonic()
        self._drawn = 0.0
        self._run: RunExecution
        self._rates: list[tuple[float, int]] = []
        self._spoken: dict[Path, int] = {}
        self._leaders: dict[str, tuple[str | None, int | None]] = {}
        self._status: Status | None = None
        self._screen = console(stderr=True)
        if sys.stderr.isatty() and not quiet:
            self._status = self._screen.status("starting")
            self._status.start()

    def began(self, request: RunRequest, _: RunResult) -> None:
        scenario = request.scenario
        self._line(f"{scenario.name} ({request.mode}, {request.shape}): {scenario.title}")

    def follow(self, run: RunExecution) -> None:
        self._run = run

    def tell(self, said: str) -> None:
        self._line(f"{time.monotonic() - self._begun:6.1f} s  {said}")

    def _line(self, text: str) -> None:
        with aloud():
            if self._status is None:
                print(plain(text), file=sys.stderr, flush=True)
            else:
                self._screen.print(plain(text))

    def counts(self, now: dict[str, int]) -> None:
        """Draw the counts. This is called many times a second, and draws a few times."""
        at = time.monotonic()
        every_s = _DRAW_EVERY_S if self._status is not None else _PLAIN_EVERY_S
        self._speak()
        self._tell_leaders()
        if at - self._drawn < every_s:
            return
        self._drawn = at
        self._rates = [*self._rates[-20:], (at, now["sent"])]
        line = self._bar(now)
        if self._status is None:
            self.tell(line)
        else:
            self._draw(self._status, line)

    def so_far(self, done: int, total: int | None, what: str) -> None:
        """Show how far the judge is."""
        if self._status is not None:
            self._draw(self._status, plain(f"{bar(done, total)} {done:,} of {total or 0:,} {what}"))
        elif time.monotonic() - self._drawn >= _PLAIN_EVERY_S or done == total:
            self._drawn = time.monotonic()
            self.tell(f"{done:,} of {total or 0:,} {what}")

    def _draw(self, status: Status, line: str) -> None:
        with aloud():
            status.update(line)

    def _bar(self, now: dict[str, int]) -> str:
        (first_at, first), (last_at, last) = self._rates[0], self._rates[-1]
        rate = (last - first) / (last_at - first_at) if last_at > first_at else 0.0
        standing = [_words(fault) for fault in self._run.faults if _stands(fault)]
        leaders = ", ".join(f"{name} {leader or 'none'}" for name, (leader, _) in sorted(self._leaders.items())[:3])
        parts = [
            f"{bar(now['sent'], self._total)} sent {now['sent']:,} of {self._total:,}",
            f"acked {now['acked']:,}",
            f"failed {now['failed']:,}",
            f"unknown {now['unknown']:,}",
            f"{rate:,.0f}/s",
        ]
        waiting = now["sent"] - now["acked"] - now["failed"] - now["unknown"]
        parts += [f"waiting {waiting:,}"] if waiting and not rate else []  # otherwise these are only in flight
        parts += [f"leader {leaders}"] if leaders else []
        parts += [f"FAULT {'; '.join(standing)}"] if standing else []
        return plain("  ".join(parts))

    def _tell_leaders(self) -> None:
        """Print a line for each leader that moved."""
        now = {name: view for name, view in dict(self._run.clients.leaders.now).items() if not name.startswith("__")}
        for name, (leader, epoch) in now.items():
            before = self._leaders.get(name)
            if before is not None and before[0] != leader:
                self.tell(f"{name}: leader {before[0] or 'none'} → {leader or 'none'} (epoch {epoch})")
        self._leaders = now

    def _speak(self) -> None:
        """Print what consumers log about their partitions, and what producers log if the scenario wants that."""
        clients = self._run.clients
        for name in (*(clients.producers if self._prints else ()), *clients.consumers):
            path = self._run.directory / "logs" / f"{name}.log"
            if not path.exists():
                continue
            with path.open("rb") as log:
                log.seek(self._spoken.get(path, 0))
                text = log.read()
            whole, newline, _ = text.rpartition(b"\n")
            self._spoken[path] = self._spoken.get(path, 0) + len(whole) + len(newline)
            for line in whole.decode(errors="replace").splitlines():
                self._line(f"  {line}")

    def close(self) -> None:
        if self._status is not None:
            with aloud():
                self._status.stop()
            self._status = None


def _words(fault: FaultLifecycle) -> str:
    return f"{fault.plan.kind} {' '.join(fault.targets)}{' NO LONGER HOLDS' if fault.broken else ''}"


def _stands(fault: FaultLifecycle) -> bool:
    return fault.begun_at is not None and not fault.over
