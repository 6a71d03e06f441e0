"""Write docs/glossary.md from the registries and `model/glossary.toml`: `.venv/bin/python scripts/glossary_doc.py`."""

from __future__ import annotations

from pathlib import Path

from ackproof.model.glossary import KINDS, glossary

PAGE = Path(__file__).resolve().parents[1] / "docs" / "glossary.md"
HEAD = """# Glossary

What each word of a verdict and of a scenario means, and what to do about it. `ackproof explain WORD` prints the same.
[judge.md](judge.md) says exactly what each check counts; [scenarios.md](scenarios.md) has the options of each fault.

<!-- written by scripts/glossary_doc.py from model/checks/, model/faults.py, model/steps.py and model/glossary.toml -->
"""


def page() -> str:
    parts = [HEAD]
    for kind, title in KINDS.items():
        rows = [f"| {each.word} | {each.meaning} | {each.advice} |" for each in glossary() if each.kind == kind]
        parts.append(
            "\n".join([f"\n## {title}\n", "| word | meaning | what to do |", "| --- | --- | --- |", *rows, ""])
        )
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
