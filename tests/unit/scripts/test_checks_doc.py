"""The docs say about checks what the registry says."""

from __future__ import annotations

from tests.support.scripts_as_modules import script


def test_the_docs_say_about_checks_what_the_registry_says() -> None:
    for path, text in script("checks_doc").pages():
        assert path.read_text() == text, f"{path.name} is out of date; run: .venv/bin/python scripts/checks_doc.py"
