"""Each word of a verdict or a scenario has an entry of two sentences in the glossary."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

import ackproof
from ackproof.judge.fates import FATES
from ackproof.model.checks import CHECKS
from ackproof.model.faults import FAULTS
from ackproof.model.glossary import KINDS, Entry, entries, glossary
from ackproof.report.phrases import RESULTS
from tests.support.scripts_as_modules import script

HOME = Path(ackproof.__file__).parent
FITNESS = re.compile(r'\bFitness\(\s*"([a-z_]+)"')


def names_of_fitness_lines() -> set[str]:
    sources = [path.read_text(encoding="utf-8") for path in HOME.rglob("*.py")]
    return {name for source in sources for name in FITNESS.findall(source)}


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("result", set(RESULTS) - {"not judged"}),
        ("check", CHECKS),
        ("fate", FATES),
        ("fitness", names_of_fitness_lines()),
        ("fault", FAULTS),
    ],
)
def test_the_glossary_has_exactly_the_words_of_each_kind(kind: str, words: Iterable[str]) -> None:
    assert {entry.word for entry in glossary() if entry.kind == kind} == set(words)


@pytest.mark.parametrize("entry", glossary(), ids=lambda entry: f"{entry.kind}-{entry.word}")
def test_each_entry_has_two_sentences(entry: Entry) -> None:
    assert entry.kind in KINDS
    for sentence in (entry.meaning, entry.advice):
        assert re.fullmatch(r"[A-Z][^|\n]{10,240}\.", sentence)


def test_a_word_of_two_kinds_has_two_entries_however_it_is_written() -> None:
    assert [entry.kind for entry in entries("Resurrected ")] == ["check", "fate"]
    assert [entry.word for entry in entries("not_applicable")] == ["not applicable"]
    assert entries("stale leader ack") == entries("stale_leader_ack") != []


def test_the_page_is_written_from_the_glossary() -> None:
    made = script("glossary_doc")
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), "run: .venv/bin/python scripts/glossary_doc.py"
