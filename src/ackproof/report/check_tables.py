"""Every check of the verdict with its witnesses, as tables of text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from ackproof.model.verdict import CheckResult, Verdict
from ackproof.report.render import NOTHING
from ackproof.report.run_reader import SECOND, Run

WITNESSES_BYTES_MOST = 1_000_000
CELL_LENGTH_MOST = 400
_ORDER = ("refuted", "unknown", "confirmed", "not applicable")


@dataclass(frozen=True)
class CheckTable:
    check: CheckResult
    columns: list[str]
    rows: list[list[str]]
    left_out: int  # witnesses for which the page has no room


def check_tables(run: Run, verdict: Verdict) -> list[CheckTable]:
    """Return the checks, those that contradict the expectation first, and witnesses until the page is large enough."""
    left = WITNESSES_BYTES_MOST
    tables = []
    told = [check for check in verdict.checks if not is_silent(check)]
    for check in sorted(told, key=lambda check: _ORDER.index(check.result)):
        columns, rows = _witness_table(run, check)
        size = sum(len(cell) + 10 for row in rows for cell in row)
        shown = rows if size <= left else []
        left -= size if shown else 0
        tables.append(CheckTable(check, columns, shown, len(rows) - len(shown)))
    return tables


def is_silent(check: CheckResult) -> bool:
    """Whether the check had nothing to look at, and nothing was expected of it."""
    return check.found is None and check.result == "confirmed"


def _witness_table(run: Run, check: CheckResult) -> tuple[list[str], list[list[str]]]:
    columns = list(dict.fromkeys(key for witness in check.witnesses for key in witness if key != "run"))
    rows = [[_cell(run, name, witness.get(name)) for name in columns] for witness in check.witnesses]
    heads = [name.removesuffix("_ns") + " (s)" if name.endswith("_ns") else name for name in columns]
    return heads, rows


def _cell(run: Run, name: str, value: Any) -> str:
    """Return a witness's value as a person reads it: moments on the page's axis, topics and brokers by name."""
    if value is None:
        return NOTHING
    if isinstance(value, int) and not isinstance(value, bool):
        if name.endswith("_ns") and value > 0:
            return f"{run.seconds(value):.3f}" if not name.endswith(("took_ns", "gap_ns")) else f"{value / SECOND:.3f}"
        if name == "topic":
            return run.topic(value)
        if name.endswith(("broker", "leader")):
            return run.node(value)
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= CELL_LENGTH_MOST else text[:CELL_LENGTH_MOST] + "…"
