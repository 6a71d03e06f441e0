"""Hostile content shows as text: in the page, in the terminal, in JUnit and in the index."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from rich.console import Console

from ackproof.cli.ui.console import say_json
from ackproof.cli.ui.verdict_view import terminal_summary
from ackproof.judge.verdict_builder import write_verdict
from ackproof.model.run_record import read_record, write_record
from ackproof.model.verdict import Verdict, read_verdict
from ackproof.report.index import write_index
from ackproof.report.json_junit import run_json, write_junit
from ackproof.report.page import write_report
from tests.support.hostile_strings import HOSTILE, make_hostile_run, shown
from tests.support.made_story import SHAPES
from tests.support.make_run import make_run


class Structure(HTMLParser):
    """Collects what a browser would build: tags with the names of their attributes, links, and text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[tuple[str, str]] = set()
        self.links: list[str] = []
        self.pieces: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags |= {(tag, name) for name, _ in attrs} | {(tag, "")}
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action", "data")]

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    make_hostile_run(folder)
    make_run(folder, SHAPES["small"])
    return folder


@pytest.fixture(scope="module")
def verdict(runs: Path) -> Verdict:
    return read_verdict(runs / "hostile")


@pytest.mark.proves("F1")
def test_the_page_has_the_tags_of_a_harmless_one_and_holds_every_string_as_text(runs: Path) -> None:
    hostile = Structure(write_report(runs / "hostile").read_text(encoding="utf-8"))
    harmless = Structure(write_report(runs / "small").read_text(encoding="utf-8"))
    # The harmless run has no problems to list, and nothing else that the hostile one adds.
    assert hostile.tags <= harmless.tags
    assert hostile.links == ["data:,"]
    pieces = {piece.strip() for piece in hostile.pieces}
    for string in HOSTILE:
        assert shown(string).strip() in pieces, repr(string)


@pytest.mark.proves("F1")
def test_the_index_shows_names_as_text_and_links_only_to_relative_paths(runs: Path) -> None:
    odd = runs / "javascript:alert(1)\"'<b> #?%"
    if not odd.exists():
        (runs / "hostile").rename(odd)
    try:
        write_report(odd)
        page = Structure(write_index([odd, runs / "small"], runs / "index.html").read_text(encoding="utf-8"))
    finally:
        odd.rename(runs / "hostile")
    assert ("script", "src") not in page.tags
    assert ("img", "") not in page.tags
    links = [link for link in page.links if link != "data:,"]
    assert "./javascript%3Aalert%281%29%22%27%3Cb%3E%20%23%3F%25/report.html" in links
    assert all(link.startswith("./") for link in links)


@pytest.mark.proves("F2")
def test_the_terminal_gets_no_control_character_and_no_markup(verdict: Verdict) -> None:
    for colour in (None, "truecolor"):
        out = io.StringIO()
        console = Console(file=out, width=500, color_system=colour, force_terminal=colour is not None, markup=True)
        for part in terminal_summary(verdict):
            console.print(part)
        text = out.getvalue()
        assert "[bold]rich[/bold]" in text
        assert "\x00" not in text
        assert "\x1b]" not in text
        assert "\u202e" not in text
        if colour is None:
            assert all(char.isprintable() or char == "\n" for char in text)


@pytest.mark.proves("F2")
def test_junit_parses_and_json_holds_the_strings(verdict: Verdict, tmp_path: Path) -> None:
    refuted = msgspec.structs.replace(verdict, result="refuted")
    path = write_junit([verdict, refuted], tmp_path / "junit.xml")
    suite = ElementTree.fromstring(path.read_bytes())  # noqa: S314 - we wrote it
    failure = suite.find(".//failure")
    assert failure is not None
    assert "<script>window.pwned=1</script>" in failure.attrib["message"]
    document = msgspec.json.decode(msgspec.json.encode({"runs": [run_json(verdict, "report.html")]}))
    assert document["runs"][0]["scenario"] == "</title><img src=x>"


def harmless(text: str) -> bool:
    """Whether a text has no control characters apart from line ends."""
    return all(char.isprintable() or char == "\n" for char in text)


@pytest.mark.proves("F2")
@pytest.mark.parametrize("string", HOSTILE)
def test_each_string_comes_through_every_output_as_text(
    string: str,
    runs: Path,
    verdict: Verdict,
    tmp_path: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
    record_property: Callable[[str, object], None],
) -> None:
    checks = [msgspec.structs.replace(check, text=string, witnesses=[{string: string}]) for check in verdict.checks]
    told = msgspec.structs.replace(
        verdict, scenario=string, sentence=string, run=string, mode=string, checks=checks, result="refuted"
    )
    say_json({"runs": [run_json(told, string)]})  # as `run --json` and `judge --json` do
    shown = capsysbinary.readouterr().out.decode()
    assert harmless(shown)
    assert json.loads(shown)["runs"][0]["scenario"] == string

    kept = write_verdict(tmp_path, told, None)
    assert harmless((tmp_path / "verdict" / "verdict.json").read_text(encoding="utf-8"))
    assert read_verdict(tmp_path) == kept
    record = msgspec.structs.replace(read_record(runs / "hostile"), title=string, topics=[string], argv=[string])
    write_record(tmp_path, record)
    assert harmless((tmp_path / "run.json").read_text(encoding="utf-8"))
    assert read_record(tmp_path) == record

    junit = write_junit([told], tmp_path / "junit.xml").read_bytes()
    root = ElementTree.fromstring(junit)  # noqa: S314 - ours
    assert {element.tag for element in root.iter()} <= {"testsuites", "testsuite", "testcase", "failure", "system-out"}
    assert root.attrib["failures"] == "1"
    parsed = [text for element in root.iter() for text in (element.text or "", *element.attrib.values())]
    assert all(map(harmless, [junit.decode(), *parsed]))

    out = io.StringIO()
    for part in terminal_summary(told):
        Console(file=out, width=500, color_system=None, markup=True).print(part)
    assert harmless(out.getvalue())
    record_property(
        "figure", f"{len(HOSTILE)} strings to terminal, JSON and JUnit: all parse, no control character in any byte"
    )
