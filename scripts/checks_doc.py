"""Write what the docs say about checks from `model/checks/`: `.venv/bin/python scripts/checks_doc.py`.

It writes the tables between the marks in `docs/judge.md` and `docs/your-client.md`, and `docs/scenario.schema.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from ackproof.model.checks import CHECKS
from ackproof.model.external_clients import UNKNOWN_OF_CONSUMERS, UNKNOWN_OF_LATEST_CONSUMERS, UNKNOWN_OF_PRODUCERS
from ackproof.scenario.json_schema import json_schema

DOCS = Path(__file__).resolve().parents[1] / "docs"
BEGIN = "<!-- {}: written by scripts/checks_doc.py -->"
END = "<!-- end of {} -->"


def checks_table() -> str:
    defaults = {"forbidden": "**forbidden**", "required": "**required**", "allowed": "allowed"}
    rows = [f"| {name} | {check.definition} | {defaults[check.default]} |" for name, check in CHECKS.items()]
    return "\n".join(["| check | a witness is | by default |", "| --- | --- | --- |", *rows])


def needs_table() -> str:
    """Return the table of what each check depends on: the judge holds it back if the lab, or a consumer, was late."""
    needs = {
        "how long something took": [name for name, check in CHECKS.items() if check.depends_on_time],
        "that consumers read everything": _asking_consumers("whole"),
        "that no consumer was late or killed": _asking_consumers("in time"),
        "that no consumer was so late that its group may have removed it": _asking_consumers("owned"),
        "all sends, records or reads, also in a large journal": [
            name for name, check in CHECKS.items() if check.needs_full_scan
        ],
    }
    rows = [f"| {need} | {', '.join(names)} |" for need, names in needs.items()]
    return "\n".join(["| what a check depends on | checks |", "| --- | --- |", *rows])


def untold_table() -> str:
    from_the_end = {f'{name}, with `start = "latest"`': why for name, why in UNKNOWN_OF_LATEST_CONSUMERS.items()}
    by_reason: dict[str, list[str]] = {}
    for name, why in (UNKNOWN_OF_PRODUCERS | UNKNOWN_OF_CONSUMERS | from_the_end).items():
        by_reason.setdefault(why, []).append(name)
    rows = [f"| {', '.join(names)} | {why} |" for why, names in by_reason.items()]
    return "\n".join(["| check | the fact that is missing |", "| --- | --- |", *rows])


def pages() -> Iterator[tuple[Path, str]]:
    """Yield each file below docs/ that says something about checks, and the text that it must have."""
    judge, clients = DOCS / "judge.md", DOCS / "your-client.md"
    page = _filled(judge.read_text(encoding="utf-8"), "checks", checks_table())
    yield judge, _filled(page, "what checks depend on", needs_table())
    yield clients, _filled(clients.read_text(encoding="utf-8"), "checks that do not apply", untold_table())
    yield DOCS / "scenario.schema.json", json.dumps(json_schema(), indent=2) + "\n"


def _asking_consumers(what: str) -> list[str]:
    return [name for name, check in CHECKS.items() if check.needs_consumers == what]


def _filled(page: str, what: str, table: str) -> str:
    begin, end = BEGIN.format(what), END.format(what)
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{table}\n{end}{after}"


if __name__ == "__main__":
    for path, text in pages():
        path.write_text(text, encoding="utf-8")
