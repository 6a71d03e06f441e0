"""The page about the journal says what the schemas say."""

from __future__ import annotations

from pathlib import Path

from ackproof.journal_doc import document

PAGE = Path(__file__).parents[1] / "docs" / "journal.md"


def test_the_page_is_what_the_schemas_say() -> None:
    assert PAGE.read_text() == document(), "run: python -m ackproof.journal_doc > docs/journal.md"
