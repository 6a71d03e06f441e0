"""What all tests share: a test that could not be run is listed with its reason, and the seconds of each file are kept.

A skipped test is a hole in the evidence, and a hole must not look like a pass. So a test that needs something this
machine lacks calls `cannot_run(reason)`. The reasons are listed after pytest's own summary. `scripts/test` runs pytest
several times: it gathers the reasons in the file that ACKPROOF_CANNOT_RUN names, and the seconds of each test file in
the one that ACKPROOF_SECONDS names.
"""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).parent

# A shell starts a program in its background with Ctrl-C ignored, and `nohup` with hangups ignored. Children inherit
# both, so the tests put them right.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.environ.pop("NO_COLOR", None)  # tests of colours set it themselves


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if kept := os.environ.get("ACKPROOF_SECONDS"):
        Path(kept).write_text(_seconds(terminalreporter), encoding="utf-8")
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


def _seconds(terminalreporter: pytest.TerminalReporter) -> str:
    """Return a line for each test file: the seconds that its tests took, and its path."""
    seconds: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.partition("::")[0]] += report.duration
    return "".join(f"{taken:8.1f} s  {path}\n" for path, taken in seconds.items())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the judge with `spark`: they start Spark, so `scripts/check` leaves them to `scripts/test`."""
    for item in items:
        if item.path.relative_to(HERE).parts[0] in ("spark", "oracle"):
            item.add_marker(pytest.mark.spark)
