"""Proofs: tests that prove a promise of `docs/trust.md`, at the size that is asked for.

A test says which promise it proves by `@pytest.mark.proves("C3")`, takes its numbers from `size`, and tells what it
measured by pytest's `record_property("figure", "1,000 of 1,000 histories judged alike")`. `scripts/prove` runs it at
full size, and with `--quick` as CI does.

This module is also the plugin that `scripts/prove` gives to pytest: it picks the tests that prove what is asked for,
and writes down what came of each.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest

ASKED = "ACKPROOF_PROVE"  # "full", or anything else
T = TypeVar("T")
_TOOK = pytest.StashKey[float]()  # by what a test was given: a lab, a Spark


def size(quick: T, full: T) -> T:
    return full if os.environ.get(ASKED) == "full" else quick


def ids_of(item: pytest.Item) -> list[str]:
    return sorted({str(word) for mark in item.iter_markers("proves") for word in mark.args})


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("proofs")
    group.addoption("--proves", help="run only the tests that prove this")
    group.addoption("--proofs", type=Path, help="write what came of each proof to this file, one JSON document a line")


@pytest.hookimpl(trylast=True)  # when the others, pytest's own -m among them, have chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("--proves")
    chosen = [item for item in items if (wanted in ids_of(item) if wanted else ids_of(item))]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen
    if config.getoption("collectonly"):
        for item in chosen:
            _write(config, {"test": item.nodeid, "proves": ids_of(item)})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" or report.outcome != "passed":
        figures = [str(value) for name, value in item.user_properties if name == "figure"]
        told = {"test": item.nodeid, "outcome": report.outcome, "figures": figures, "problem": _problem(report)}
        told["date"] = datetime.now(UTC).strftime("%FT%R")
        told |= {name: os.environ.get(f"ACKPROOF_{name.upper()}", "") for name in ("commit", "machine")}
        _write(item.config, told | {"seconds": round(item.stash.get(_TOOK, 0.0) + report.duration, 3)})
    elif report.when == "setup":
        item.stash[_TOOK] = report.duration
    return report


def _problem(report: pytest.TestReport) -> str:
    if report.outcome == "skipped":
        return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr or "").strip()


def _write(config: pytest.Config, told: object) -> None:
    path: Path | None = config.getoption("--proofs")
    if path is not None:
        with path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(told) + "\n")
