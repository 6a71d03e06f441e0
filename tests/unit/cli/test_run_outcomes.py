"""What a command reports about its runs, however they ended."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from ackproof.api.run import RunResult
from ackproof.cli.run_command import CommandResults
from ackproof.model.run_record import read_record, write_record
from ackproof.report.json_junit import run_json
from tests.support.made_story import SHAPES
from tests.support.make_run import make_run


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A run that failed before it could be judged."""
    made = make_run(tmp_path, SHAPES["interrupted"])
    record = msgspec.structs.replace(read_record(made), ended="failed", problems=["producer1 ended by itself"])
    write_record(made, record)
    return made


def test_a_run_without_a_verdict_is_reported_as_unknown(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = CommandResults(as_json=True, junit=directory / "junit.xml", runs=[RunResult(directory, 4)])
    outcome.print_json()
    (told,) = json.loads(capsys.readouterr().out)["runs"]
    assert (told["result"], told["lost"], told["high_watermark"]) == ("unknown", None, None)
    outcome.write_junit()
    suite = ElementTree.parse(directory / "junit.xml").getroot()  # noqa: S314 - our own file
    assert suite.get("errors") == "1"
    assert "producer1 ended by itself" in ElementTree.tostring(suite, encoding="unicode")
    assert outcome.exit_code() == 4


def test_a_junit_file_that_cannot_be_written_is_reported_in_one_sentence(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = CommandResults(
        as_json=False, junit=directory / "no" / "such" / "junit.xml", runs=[RunResult(directory, 0)]
    )
    outcome.write_junit()
    assert "could not be written" in capsys.readouterr().err
    assert outcome.exit_code() == 4, "whoever reads the file would take an older one for this run's"


def test_a_run_that_was_not_judged_has_no_counts(directory: Path) -> None:
    told = run_json(RunResult(directory, 0).verdict_or_unknown(), None)
    assert [told[name] for name in ("result", "sent", "acked", "failed", "unknown")] == ["unknown", *[None] * 4]


def test_the_exit_code_is_that_of_the_worst_run() -> None:
    def code(*codes: int) -> int:
        return CommandResults(False, None, [RunResult(Path("x"), each) for each in codes]).exit_code()

    assert (code(0, 0), code(0, 3), code(3, 4), code(4, 1), code(1, 70), code()) == (0, 3, 4, 1, 70, 0)
