"""The kept results: no run is ever removed, no contradiction is hidden, and page and README say what the rows say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ackproof.core.errors import Refused
from ackproof.model.checks import CHECKS
from ackproof.report.measure_tables import Measured
from tests.support.scripts_as_modules import SCRIPTS, script

results = script("results")
catalogue = script("catalogue")
ROWS = results.read()


def of(run: str, result: str = "confirmed", **fields: Any) -> Any:
    return msgspec.structs.replace(ROWS[0], run=run, result=result, **fields)


def kept(docs: Path, *runs: str) -> None:
    rows = [of(run) for run in runs]
    docs.joinpath("results.json").write_bytes(b"[\n" + b",\n".join(msgspec.json.encode(row) for row in rows) + b"\n]\n")


def git(folder: Path, *words: str) -> None:
    author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A repository whose results once had the runs a, b and c; the newest commit removed c."""
    git(tmp_path, "init")
    for runs in ("abc", "ab"):
        kept(tmp_path, *runs)
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-m", runs)
    return tmp_path


def test_no_kept_run_was_ever_removed() -> None:
    assert results.runs_ever_kept() == {row.run for row in ROWS}


@pytest.mark.parametrize(
    ("runs", "named"), [("ac", "run b,"), ("ab", "run c,"), ("", "run a and 2 more,"), ("abc", ""), ("abcd", "")]
)
def test_a_file_that_lacks_an_earlier_run_is_not_written(docs: Path, runs: str, named: str) -> None:
    before = docs.joinpath("results.json").read_bytes()
    rows = [of(run) for run in runs]
    if not named:
        results.write(rows, docs)
        assert [row.run for row in results.read(docs)] == list(runs)
        return
    with pytest.raises(Refused, match=named):
        results.write(rows, docs)
    assert docs.joinpath("results.json").read_bytes() == before
    assert not docs.joinpath("results.md").exists()


def test_without_git_the_runs_in_the_file_are_not_lost(tmp_path: Path) -> None:
    kept(tmp_path, "a", "b")
    with pytest.raises(Refused, match="run b,"):
        results.write([of("a")], tmp_path)


@pytest.mark.parametrize("torn", ["<<<<<<< HEAD\n", '[\n{"run":"a"'])
def test_a_file_that_cannot_be_read_is_refused_and_kept(docs: Path, torn: str) -> None:
    docs.joinpath("results.json").write_text(torn)
    with pytest.raises(Refused, match="cannot be read"):
        results.read(docs)


def test_the_catalogue_refuses_to_remove_a_run_with_one_sentence_and_exits_with_5(docs: Path) -> None:
    clone = docs / "clone"
    (clone / "scripts").mkdir(parents=True)
    for name in ("catalogue.py", "results.py"):
        shutil.copy(SCRIPTS / name, clone / "scripts")
    (clone / "docs").mkdir()
    kept(clone / "docs", *"ab")
    git(docs, "add", ".")
    git(docs, "commit", "-m", "a and b")
    kept(clone / "docs", "a")
    command = [sys.executable, "scripts/catalogue.py", "--only-write"]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (5, "", 1), done.stderr
    assert "would lack the run b, and no run is ever taken out" in done.stderr


def test_a_run_that_is_judged_again_keeps_its_first_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for run in ("a", "b"):
        (tmp_path / run / "verdict").mkdir(parents=True)
        for name in ("run.json", "verdict/verdict.json"):
            (tmp_path / run / name).touch()
    written: list[list[tuple[str, str]]] = []
    monkeypatch.setattr(catalogue, "read", lambda: [of("a", "refuted")])
    monkeypatch.setattr(catalogue, "write", lambda rows: written.append([(row.run, row.result) for row in rows]))
    monkeypatch.setattr(catalogue, "read_record", lambda directory: directory.name)
    monkeypatch.setattr(catalogue, "read_verdict", lambda directory: "confirmed")
    monkeypatch.setattr(catalogue, "row_of", of)
    catalogue.keep(tmp_path)
    assert written == [[("a", "refuted"), ("b", "confirmed")]]


def test_the_page_says_what_the_rows_say() -> None:
    assert results.page(ROWS) == (results.DOCS / "results.md").read_text(), "run `scripts/catalogue --only-write`"


def test_the_page_has_one_row_for_each_line_and_names_each_run_that_was_not_confirmed() -> None:
    page = results.page(ROWS)
    table = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    lines = [words for words in table if words[0] not in ("scenario", "---")]
    cells = Counter(row.cell for row in ROWS)
    assert {tuple(words[:3]): int(words[3].rstrip(" †")) for words in lines} == cells
    assert len(lines) == len(cells)
    for place, result in enumerate(results.RESULTS, 4):
        told = sum(int(words[place].strip("*")) for words in lines)
        assert told == sum(row.result == result for row in ROWS)
    refuted = [row.run for row in ROWS if row.result != "confirmed"]
    assert [run for run in refuted if page.count(f"`{run}`: ") != 1 or run not in results.explanations()] == []
    assert len(page.splitlines()) <= len(cells) + len(refuted) + 70


def test_a_sitting_ends_with_a_pause_and_counts_only_runs_by_default() -> None:
    crowd = of("20261116-015900-a", section="A", shape="crowd")
    first = of("20261116-020000-b", section="E", run_s=60.0)
    second = of("20261116-020900-c", section="E", mode="zookeeper", run_s=90.0)
    later = of("20261116-022100-d", section="E", run_s=60.0)
    assert list(results.longest_sitting([later, second, first, crowd])) == [first.run, second.run]
    assert "has 2 runs\nof 2 lines and took 10 minutes" in results.page([later, second, first, crowd])
    assert results.longest_sitting([]) == {}


def test_measured_tables_are_kept_with_their_run(tmp_path: Path) -> None:
    gaps = Measured(
        "site_gap", "How long no client wrote", ["gap of", "ms"], [["writes", "318"], ["reads", "4,028"]], []
    )
    rows = [of("a", measured=[gaps]), of("b", measured=[])]
    results.write(rows, tmp_path)
    assert results.read(tmp_path) == rows


def test_a_run_without_an_explanation_is_named(tmp_path: Path) -> None:
    row = of("20261119-120000-a", "refuted")
    page = results.page([row], tmp_path)
    assert "| 1 | 0 | **1** | 0 | 2026-11-19 12:00 |" in page
    assert "`20261119-120000-a`: refuted, not explained yet" in page


def test_the_readme_quotes_the_losses_of_all_base_runs() -> None:
    readme = (SCRIPTS.parent / "README.md").read_text()
    row = next(line.split(" | ") for line in readme.splitlines() if line.startswith("| acks=1"))
    scenarios = ("acks1-leader-killed", "acks1-leader-isolated", "acks1-leader-without-zookeeper")
    for scenario, quoted, digits in zip(scenarios, row[1:], (2, 0, 0), strict=True):
        runs = [each for each in ROWS if (each.scenario, each.shape) == (scenario, "base")]
        shares = sorted(100 * each.lost / each.acked for each in runs)
        low, high = (f"{share:.{digits}f}" if share else "none" for share in (shares[0], shares[-1]))
        assert f"{low} to {high} %" in quoted, scenario
        assert set(Counter(each.mode for each in runs).values()) == {5}
    assert "five runs in each mode" in readme


def test_every_kept_run_names_checks_as_they_are_called_now() -> None:
    kept = json.loads((SCRIPTS.parent / "docs" / "results.json").read_text(encoding="utf-8"))
    measured = {each["name"] for run in kept for each in run.get("measured", [])}
    named = {name for run in kept for field in ("expected", "found") for name in run.get(field, {})}
    assert measured
    assert named
    assert measured | named <= set(CHECKS)
