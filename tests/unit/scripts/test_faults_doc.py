"""What the docs say about faults is what the registry says."""

from __future__ import annotations

from tests.support.scripts_as_modules import script


def test_the_docs_say_of_faults_what_the_registry_says() -> None:
    faults_doc = script("faults_doc")
    text = faults_doc.PAGE.read_text()
    assert faults_doc.page(text) == text, "docs/faults.md is old; run: .venv/bin/python scripts/faults_doc.py"
