"""The page about the journal says what the schemas say."""

from __future__ import annotations

from pathlib import Path

from tests.support.scripts_as_modules import script

PAGE = Path(__file__).parents[3] / "docs" / "journal.md"


def test_the_page_is_what_the_schemas_say() -> None:
    assert PAGE.read_text() == script("journal_doc").document(), (
        "run: .venv/bin/python scripts/journal_doc.py > docs/journal.md"
    )
