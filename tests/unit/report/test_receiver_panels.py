"""Receivers and phases on the page and in the terminal: the judge's figures, and costs over time."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from ackproof.cli.ui.verdict_view import terminal_summary
from ackproof.journal.writer import Writer
from ackproof.model.run_record import ConsumerRecord, read_record, write_record
from ackproof.model.verdict import CheckResult, read_verdict
from ackproof.report.page import report_page
from ackproof.report.receiver_panels import cost_panels
from ackproof.report.run_reader import open_run
from tests.support.made_story import LOAD, SHAPES, S
from tests.support.make_run import make_run
from tests.support.plans import plan_of

RECEIVER: dict[str, Any] = {
    "consumer": "consumer1",
    "topic": "orders",
    "strategy": "ids",
    "messages": 1_234,
    "accepted": 1_200,
    "duplicate_accepted": 0,
    "wrongly_dropped": 7,
    "copies_expected": "forbidden",
    "drops_expected": "forbidden",
    "wrong": True,
    "us_each": 12.34,
    "deciding_us_each": None,
    "memory_bytes": 60_000_000,
    "grown_bytes": 5,
    "disk_bytes": 2_345_678,
}
PHASE: dict[str, Any] = {
    "table": 1,
    "producers": 2,
    "threads": 4,
    "acked": 5_000,
    "seconds": 2.5,
    "per_second": 2_000.0,
}


@pytest.fixture
def run_with_receivers(tmp_path: Path) -> Path:
    directory = make_run(tmp_path, SHAPES["no-loss"])
    record = read_record(directory)
    plan = plan_of({"consumers": [{"receiver": {"strategy": "ids"}}, {}]})
    consumers = [ConsumerRecord(number, f"consumer{number + 1}", 0, 0) for number in range(2)]
    write_record(directory, msgspec.structs.replace(record, consumers=consumers, plan=plan))
    costs = Writer(directory, "costs", record.run, "consumer1")
    for second, messages in enumerate((100, 0, 50)):
        spent = {"deciding_ns": messages * 1_000, "handling_ns": messages * 3_000}
        grown = {"memory_bytes": (second + 1) * 10_000_000, "disk_bytes": second * 1_000_000}
        costs.add(consumer=0, at_ns=LOAD + second * S, messages=messages, **spent, **grown)
    costs.close()
    verdict = read_verdict(directory)
    checks = [
        *verdict.checks,
        CheckResult("receivers", "forbidden", 1, "refuted", "1 receiver", [RECEIVER]),
        CheckResult("throughput", "allowed", 1, "confirmed", "1 table", [PHASE]),
    ]
    changed = msgspec.structs.replace(verdict, checks=checks)
    (directory / "verdict" / "verdict.json").write_bytes(msgspec.json.encode(changed))
    return directory


def test_costs_over_time_are_a_line_for_each_receiver(run_with_receivers: Path) -> None:
    panels = {panel.name: panel for panel in cost_panels(open_run(run_with_receivers), str)}
    assert [(line.name, line.style) for line in panels["receivers-time"].series] == [("ids (orders)", "1")]
    assert panels["receivers-time"].series[0].values.tolist()[::2] == [3.0, 3.0]
    assert panels["receivers-time"].series[0].values.tolist()[1] != 3.0, "a second without messages has no time each"
    assert panels["receivers-memory"].series[0].values.tolist() == [10.0, 20.0, 30.0]
    assert panels["receivers-disk"].series[0].values.tolist() == [0.0, 1.0, 2.0]


def test_without_receivers_there_are_no_panels(tmp_path: Path) -> None:
    assert cost_panels(open_run(make_run(tmp_path, SHAPES["no-loss"])), str) == []


TOLD = ("1,200", "1,234", "12.3", "60,000,000", "2,345,678", "5,000", "2.50", "2,000")


def test_the_page_and_the_terminal_tell_the_same(run_with_receivers: Path) -> None:
    console = Console(file=io.StringIO(), width=200)
    for part in terminal_summary(read_verdict(run_with_receivers)):
        console.print(part)
    page, terminal = report_page(run_with_receivers), console.file.getvalue()  # type: ignore[attr-defined]
    assert [told for told in TOLD if told not in page or told not in terminal] == []
