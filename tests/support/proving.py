"""Choose test sizes, and record each case that proves a promise of `docs/trust.md`.

A test says which promise it proves by `@pytest.mark.proves("C3")`, takes its numbers from `size(quick, full)`, and
reports what it measured by pytest's `record_property("figure", "1,000 of 1,000 histories judged alike")`.

`scripts/prove` also loads this module as a pytest plugin. When pytest collects, the plugin lists the tests that prove
something. When pytest runs, the plugin keeps only the cases that are asked for, and appends one line of JSON to the
record whenever one of them ends, so that nothing is lost if the machine stops the next moment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")
_SETUP_S = pytest.StashKey[float]()  # seconds that the fixtures took, such as a lab or Spark


def size(quick: T, full: T) -> T:
    return full if os.environ.get("ACKPROOF_PROVE") == "full" else quick


def promises(item: pytest.Item) -> list[str]:
    return sorted({str(word) for mark in item.iter_markers("proves") for word in mark.args})


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("proofs")
    group.addoption("--cases", type=Path, help="run only the cases that this JSON file lists")
    group.addoption("--record", type=Path, help="append one line of JSON for each case to this file")


@pytest.hookimpl(trylast=True)  # after pytest's own -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    listed: Path | None = config.getoption("--cases")
    cases = set(json.loads(listed.read_text(encoding="utf-8"))) if listed else {i.nodeid for i in items if promises(i)}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in cases])
    items[:] = [item for item in items if item.nodeid in cases]
    if config.getoption("collectonly"):
        for item in items:
            cluster, batch = item.get_closest_marker("cluster"), item.get_closest_marker("in_one_process")
            number = (batch.args or (0,))[0] if batch else int(cluster is not None)
            found = {"case": item.nodeid, "proves": promises(item), "cluster": cluster is not None, "batch": number}
            _append(config, found)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" or report.outcome != "passed":
        figures = [str(value) for name, value in item.user_properties if name == "figure"]
        ended: dict[str, object] = {"case": item.nodeid, "proves": promises(item), "outcome": report.outcome}
        ended |= {"figures": figures, "problem": _problem(report), "date": datetime.now(UTC).strftime("%FT%T")}
        ended["seconds"] = round(item.stash.get(_SETUP_S, 0.0) + report.duration, 3)
        _append(item.config, ended | json.loads(os.environ["ACKPROOF_PROOF"]))
    elif report.when == "setup":
        item.stash[_SETUP_S] = report.duration
    return report


def _problem(report: pytest.TestReport) -> str:
    if report.outcome == "skipped":
        return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr or "").strip()


def _append(config: pytest.Config, document: object) -> None:
    """Write the line in one piece, so that parallel processes do not mix theirs, and wait until it is on the disk."""
    path: Path = config.getoption("--record")
    with path.open("ab", buffering=0) as record:
        record.write(json.dumps(document).encode() + b"\n")
        os.fsync(record.fileno())
