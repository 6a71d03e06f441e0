"""Every use of the wall clock is listed: nothing that is judged comes from it, because it may be set during a run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ackproof

HOME = Path(ackproof.__file__).parent
WALL = re.compile(r"\btime\.time(?:_ns)?\(|\bdatetime\.(?:now|today|utcnow)\(")
FOR_PEOPLE = {
    "cli/health.py": "the hour beside a line",
    "cli/ui/lab_watch.py": "the hour on the screen",
    "lab/audit_log.py": "the hour of an event in the lab's own log",
}
FOR_NAMES = {
    "lab/cluster.py": "a cluster's id, which no other has",
    "api/run_directory.py": "a run's name and number, and when it began, by both clocks",
    "api/run.py": "when a run ended whose lab did not start, by both clocks",
}
FOR_OTHERS = {
    "health/rate_query.py": "whether it was set: messages have no other time",
    "run/execution.py": "when it ended, by both clocks: whether they went alike is judged, and nothing else is",
    "run/topics.py": "a moment that a broker is asked for, which knows no other clock",
}


@pytest.mark.proves("B5")
def test_the_wall_clock_is_read_for_people_names_and_brokers_only() -> None:
    found = {
        str(path.relative_to(HOME)) for path in HOME.rglob("*.py") if WALL.search(path.read_text(encoding="utf-8"))
    }
    assert found == {*FOR_PEOPLE, *FOR_NAMES, *FOR_OTHERS}
