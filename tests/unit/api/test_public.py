"""The public surface: small, typed, documented, and cheap to import."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import ackproof
from tests.support.doc_examples import DOCS, examples

FOLDER = Path(__file__).parents[2] / "recorded"
RECORDED = FOLDER / "runs" / "loss-isolated"
RECORDED_VERDICT = FOLDER / "verdicts" / "loss-isolated.json"
SLOW = ("pyspark", "confluent_kafka", "pyarrow", "numpy", "rich", "typer")


def test_import_loads_no_slow_library() -> None:
    said = f"import sys, ackproof; print([name for name in {SLOW} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ackproof.__all__)
def test_each_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(ackproof, name) is not None
    assert re.search(rf"\b{name}\b", (DOCS / "api.md").read_text(encoding="utf-8"))


def test_the_functions_run_and_judge_win_over_the_packages_of_these_names() -> None:
    said = (
        "import ackproof; from ackproof.judge.worker import Judging; from ackproof.run.execution import versions;"
        "import ackproof.judge.worker; print(callable(ackproof.run), callable(ackproof.judge))"
    )
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True True"


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'lots'"):
        _ = ackproof.lots


def test_the_examples_of_the_page_run_and_print_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    verdict = msgspec.json.decode(RECORDED_VERDICT.read_bytes(), type=ackproof.Verdict)
    directory = shutil.copytree(RECORDED, tmp_path / "runs" / "20261115-100312-acks1-leader-isolated")
    (directory / "verdict").mkdir()
    shutil.copy(RECORDED_VERDICT, directory / "verdict" / "verdict.json")
    exec(compile(f"import pyarrow.compute\n{examples('api.md', cluster=False)}", "api.md", "exec"), {})  # noqa: S102
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"confirmed {verdict.sentence}"
    assert said[1] == f"{verdict.lost} of {verdict.acked} acknowledged messages are lost"


def test_a_table_or_column_that_is_unknown_is_told() -> None:
    run = ackproof.open_run(RECORDED)
    with pytest.raises(ackproof.UsageProblem, match=r"no table 'sendz'.*did you mean sends"):
        run.table("sendz")
    with pytest.raises(ackproof.UsageProblem, match="has no column 'nothing'; it has"):
        run.table("sends", ["nothing"])
    assert run.table("sends").num_rows > 0
