"""The registry of checks and the files agree: no check without its question, no question without its entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.model.checks import CHECKS, TOPICS
from ackproof.report.measure_tables import MEASURES
from ackproof.report.phrases import _NEVER, HEADLINE

HOME = Path(__file__).parents[3]
PLACES = {(topic, name) for topic, checks in TOPICS.items() for name in checks}
TESTED_WITH_ANOTHER = {("leadership", "leadership_history")}  # what claims are about, in test_claims.py


def test_every_check_has_a_file_and_every_file_an_entry() -> None:
    files = (HOME / "src" / "ackproof" / "judge" / "checks").glob("*/*.py")
    found = {(path.parent.name, path.stem) for path in files if path.stem != "__init__"}
    assert found == PLACES, "an entry in model/checks/<topic>.py is the file judge/checks/<topic>/<name>.py"


def test_every_file_holds_the_function_of_its_name() -> None:
    questions = pytest.importorskip("ackproof.judge.registry").QUESTIONS
    assert list(questions) == list(CHECKS)
    for topic, name in PLACES:
        assert questions[name].__module__ == f"ackproof.judge.checks.{topic}.{name}"
        assert questions[name].__name__ == name


def test_every_check_has_a_test() -> None:
    files = (HOME / "tests" / "spark" / "checks").glob("*/test_*.py")
    found = {(path.parent.name, path.stem.removeprefix("test_")) for path in files}
    assert found == PLACES - TESTED_WITH_ANOTHER, "its test is tests/spark/checks/<topic>/test_<name>.py"


def test_every_check_that_a_report_names_exists() -> None:
    assert {*MEASURES, *HEADLINE, *_NEVER} <= set(CHECKS)
