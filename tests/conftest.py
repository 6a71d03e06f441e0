"""What could not be run is said aloud: a skipped test is a hole in the evidence, and a hole must not look like a pass.

A test that needs something this machine lacks calls `cannot_run(reason)`. The reasons are listed after pytest's own
summary, and `scripts/test`, which runs pytest three times, gathers them in the file that ACKPROOF_CANNOT_RUN names.
"""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from pathlib import Path

import pytest

# Whoever starts the tests in the background of a shell leaves them deaf to Ctrl-C, and all their children too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.pop("NO_COLOR", None)  # nor is it the tests' own wish
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # likewise, after `nohup`
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    tests: dict[str, set[str]] = defaultdict(set)
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        tests[reason.removeprefix("Skipped: ")].add(report.nodeid)
    if not tests:
        return
    lines = [f"{reason}: {', '.join(sorted(names))}" for reason, names in sorted(tests.items())]
    terminalreporter.section("COULD NOT BE RUN HERE", sep="=", red=True, bold=True)
    for line in lines:
        terminalreporter.write_line(line)
    if gathered := os.environ.get("ACKPROOF_CANNOT_RUN"):
        Path(gathered).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The judge's tests start Spark, which takes a while: `scripts/check` leaves them to `scripts/test`."""
    for item in items:
        if {"spark", "oracle"} & set(item.path.parts):
            item.add_marker(pytest.mark.spark)
