"""Changes of a lab that do not go through its commands are in its audit log too, for a reader and for a run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ackproof.cli import main as cli
from ackproof.core.sites import FIRST_SITE
from ackproof.lab import client as control
from ackproof.lab import kafka_tools as kafka_tool
from ackproof.lab.audit_log import Events
from ackproof.lab.directory import LabDirectory

TOLD = {
    "produce orders one": "produce",
    "consume orders --count 1": "consume",
    "topic create orders": "topic create",
    "topic resize orders 4": "topic resize",
    "kafka delete-records --offset-json-file some.json": "kafka",
    "kafka topics --list": None,
    "kafka topics --describe --topic orders": None,
}


@pytest.mark.proves("D1")
@pytest.mark.parametrize("line", TOLD)
def test_commands_that_change_the_lab_are_logged_with_their_caller_and_questions_are_not(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers(*_: Any, **__: Any) -> dict[str, Any]:
        return {"bootstrap": "kafka1:9092", "sites": {FIRST_SITE: "kafka1:9092"}, "nodes": []}

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(control, "call", answers)
    monkeypatch.setattr(control, "execute", lambda *_: 0)
    monkeypatch.setattr(control, "inside", lambda *_: [])
    monkeypatch.setattr(kafka_tool, "run_tool", lambda *_: 0)
    monkeypatch.setattr(sys, "argv", ["ackproof", *line.split()])
    directory = LabDirectory.of("lab")
    directory.path.mkdir(parents=True)
    assert cli._run() == 0
    told = [(each["event"], each["verb"], each["asked"], each["by"]) for each in Events(directory.events).read()]
    by = told[0][3] if told else ""
    assert told == ([("asked", TOLD[line], line, by)] if TOLD[line] else [])
    assert not told or by.endswith(f", pid {os.getpid()}")
