"""The index over several runs, and the output for scripts, CI and the terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from rich.console import Console

from ackproof.cli.ui.verdict_view import terminal_summary
from ackproof.model.verdict import CheckResult, Fitness, RunbookStep, Verdict, read_verdict
from ackproof.report.index import compare, write_index
from ackproof.report.json_junit import run_json, write_junit
from ackproof.report.page import write_report
from ackproof.report.run_reader import open_run
from tests.support.made_story import SHAPES
from tests.support.make_run import make_run

CONTRACT = ["run", "scenario", "mode", "kafka", "result", "sentence", "sent", "acked", "failed", "unknown"]
CONTRACT += [
    "high_watermark",
    "lost",
    "duplicated",
    "reordered",
    "fates",
    "checks",
    "unavailable_ms",
    "faults",
    "report",
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name in ("small", "unknown", "interrupted", "no-loss", "refuted", "crash"):
        write_report(make_run(folder, SHAPES[name]))
    make_run(folder, replace(SHAPES["small"], name="kraft", mode="kraft"))
    return folder


def directories(runs: Path) -> list[Path]:
    return sorted(path for path in runs.iterdir() if path.is_dir())


def test_the_matrix_has_a_cell_for_each_scenario_mode_and_shape_with_every_run_in_it(runs: Path) -> None:
    page = write_index(directories(runs), runs / "index.html").read_text()
    heads = re.findall(r'<th class="data">([^<]*)</th>', page)
    assert heads == ["zookeeper, base", "kraft, base"]
    row = page[page.index(">acks1-leader-isolated<") :].split("</tr>")[0]
    zookeeper, kraft = row.split("</td>")[:2]
    assert [zookeeper.count(f'class="cell {name}"') for name in ("confirmed", "refuted", "unknown", "not-judged")] == [
        1,
        1,
        1,
        1,
    ]
    assert 'href="./small/report.html"' in zookeeper
    assert "1,382 lost of 2,000 acked" in zookeeper
    assert '<span class="cell confirmed">' in kraft, "a run without a page is shown, not linked"


def test_a_crash_is_set_beside_a_split_of_the_same_kind(runs: Path) -> None:
    (entry,) = compare([open_run(path) for path in directories(runs)])
    assert (entry.acks, entry.mode, entry.shape) == ("acks1", "zookeeper", "base")
    assert entry.sentence == "The split is worse: it lost up to 1,382 acknowledged messages, the crash 0."
    assert [row.lost for row in entry.rows] == ["0", "0, 1,382"]


def test_a_directory_that_is_no_run_is_named_in_the_index(runs: Path, tmp_path: Path) -> None:
    page = write_index([runs / "small", tmp_path], tmp_path / "index.html").read_text()
    assert "has no run.json" in page
    assert re.search(r'href="\./(\.\./)+runs\d*/small/report\.html"', page)


def test_the_json_has_exactly_the_fields_of_the_contract(runs: Path) -> None:
    document = run_json(read_verdict(runs / "small"), runs / "small" / "report.html")
    assert list(document) == CONTRACT
    assert list(document["checks"][0]) == ["name", "expected", "found", "result"]
    assert list(document["faults"][0]) == ["kind", "targets", "proved"]
    assert msgspec.json.decode(msgspec.json.encode(document)) == document


def test_no_check_of_an_unfit_run_is_confirmed_in_its_json(runs: Path) -> None:
    verdict = read_verdict(runs / "unknown")
    assert "confirmed" in {check.result for check in verdict.checks}
    assert {check["result"] for check in run_json(verdict, None)["checks"]} == {"unknown"}


def test_junit_counts_refuted_as_failure_and_unknown_as_error(runs: Path) -> None:
    path = runs / "junit.xml"
    verdicts: list[Verdict] = []
    for name in ("small", "refuted", "unknown"):
        verdicts.append(read_verdict(runs / name))
        suites = ElementTree.fromstring(write_junit(verdicts, path).read_bytes())  # noqa: S314 - we wrote it
        assert suites.attrib["tests"] == str(len(verdicts)), "valid after each scenario"
    assert (suites.attrib["failures"], suites.attrib["errors"]) == ("1", "1")
    kinds = [[child.tag for child in case if child.tag != "system-out"] for case in suites.iter("testcase")]
    assert kinds == [[], ["failure"], ["error"]]
    assert "lost: required, 0" in (suites.findtext(".//failure") or "")
    assert "unfit: faults: fault 1 was never proved" in (suites.findtext(".//error") or "")
    assert [path.name for path in runs.iterdir() if path.name.startswith(".")] == []


def test_the_terminal_repeats_in_words_everything_that_colour_says(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.console import Console

    console = Console(width=120, no_color=True, markup=False)
    for part in terminal_summary(read_verdict(runs / "refuted")) + terminal_summary(read_verdict(runs / "unknown")):
        console.print(part)
    text = re.sub(r" +", " ", capsys.readouterr().out)
    assert "✗ REFUTED acks1-leader-isolated (base, zookeeper, Kafka 3.9.2)" in text
    assert "lost 0 required ✗ refuted" in text
    assert "lost 0 required ? no evidence" in text
    assert "unfit: faults: fault 1 was never proved" in text
    assert "fault not proved: isolate kafka2" in text


def test_the_terminal_says_how_many_sends_may_not_have_happened(runs: Path) -> None:
    remark = Fitness("reserved", True, "3 of the sends were reserved")
    verdict = read_verdict(runs / "unknown")
    verdict = msgspec.structs.replace(verdict, fitness=[*verdict.fitness, remark])
    assert [part for part in map(str, terminal_summary(verdict)) if "3 of the sends" in part] == [remark.text]


STEPS = [
    RunbookStep(8.0, 0.5, "Stop the [/writers].", True, "producer1: <b>exit</b> code 0"),
    RunbookStep(9.0, None, "Start them elsewhere.", False, "never answered"),
]
GAPS: list[dict[str, Any]] = [
    {"what": "writes", "group": None, "from_site": "dc1", "to_site": "dc2", "ms": 2_345.6, "again": None},
    {"what": "reads", "group": "readers", "from_site": "dc1", "to_site": "dc2", "ms": 5_001.0, "again": 1_077},
]


def _with_runbook(directory: Path) -> Verdict:
    verdict = read_verdict(directory)
    checks = [*verdict.checks, CheckResult("site_gap", "allowed", 2, "confirmed", "2 moves", GAPS)]
    verdict = msgspec.structs.replace(verdict, runbook=STEPS, checks=checks)
    (directory / "verdict" / "verdict.json").write_bytes(msgspec.json.encode(verdict))
    return verdict


def test_a_runbook_is_shown_step_by_step_with_the_gaps_that_it_left(tmp_path: Path) -> None:
    directory = make_run(tmp_path, SHAPES["small"])
    verdict = _with_runbook(directory)
    screen = Console(width=200, file=StringIO(), markup=False)
    for part in terminal_summary(verdict):
        screen.print(part)
    assert isinstance(screen.file, StringIO)
    told = screen.file.getvalue()
    assert re.search(r"8.0 s +0.5 s +Stop the \[/writers\]. +done", told)
    assert re.search(r"9.0 s +Start them elsewhere. +not done", told)
    assert re.search(r"reads +readers +dc1 +dc2 +5,001 +1,077", told)
    page = write_report(directory).read_text()
    assert "producer1: &lt;b&gt;exit&lt;/b&gt; code 0" in page
    assert "not done: never answered" in page
    assert "while the clients moved" in page
    assert "1,077" in page
